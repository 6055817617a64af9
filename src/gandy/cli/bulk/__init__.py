"""Commands that change many jobs at once: their previews, questions and results."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Generic

from gandy.cli.listing import tell_looked
from gandy.cli.options import confirm
from gandy.cli.output import emit_json, emit_rows, say
from gandy.desk.audit import local_operator
from gandy.desk.choosing.rerunning import RerunDesk
from gandy.desk.choosing.walks import Result, ended
from gandy.store.reading.listings import Filter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gandy.cli.session import CommandSession
    from gandy.desk.choosing.walks import Preview
    from gandy.store.cancelling import CancelResult
    from gandy.store.letters import AcknowledgeResult, RequeueResult
    from gandy.store.reading.listings import RerunResult, SearchedRows

_LEFT_UNDONE = 1
_MOST_PARTS = 20  #: lines of a preview
_MOST_NAMED = 10
_NOTHING = 1  # no id is below it


@dataclass(frozen=True, slots=True)
class Choice(Generic[Filter]):
    """What a bulk verb takes: ids or a filter, as they were given or agreed to."""

    ids: Sequence[int]
    wanted: Filter
    found: Preview | None = None  #: what was agreed to

    def ended(self, result: Result) -> Result:
        """Return the result with how far the search of the preview looked, if its ids were agreed to."""
        return ended(result, [self.found]) if self.found and self.found.is_named else result


def confirm_bulk(verb: str, found: Preview, wanted: Filter, *, what: str = "job") -> Choice[Filter]:
    """Print what a bulk verb will touch, ask before it does, and return what was agreed to."""
    for part in found.parts[:_MOST_PARTS]:
        say(f"  {part.jobs:>7,} {part.state.replace('_', ' ')} of {part.train}")
    if len(found.parts) > _MOST_PARTS:
        say(f"  and those of {len(found.parts) - _MOST_PARTS} more trains and states")
    if found.ids:
        more = ", ..." if found.jobs > _MOST_NAMED else ""
        say(f"  ids: {', '.join(map(str, found.ids[:_MOST_NAMED]))}{more}")
    _tell_stop(found.looked, found.next)
    if not found.is_named:
        say(f"  all that match, up to id {found.newest}; one that comes to match meanwhile is included")
    if not found.jobs and found.is_named:
        say("Nothing matches." if found.next is None else "Nothing of that matches.")
        return Choice((), replace(wanted, before=_NOTHING), found)
    number = f"{found.jobs} or more" if found.is_at_least else str(found.jobs)
    confirm(f"{verb} {number} {what if number == '1' else what + 's'}?", yes=False)
    ids, bounded = found.confirmed(wanted)
    return Choice(ids, bounded, found)


def exit_code(result: CancelResult | RerunResult | RequeueResult | AcknowledgeResult, code: int = 0) -> int:
    """Say how far a search in texts looked; where it stopped early, the code is 1: matches may be left."""
    _tell_stop(result.looked, result.next)
    return code if result.next is None else _LEFT_UNDONE


def _tell_stop(looked: SearchedRows | None, stop: int | None) -> None:
    if remark := tell_looked(looked):
        say(remark)
    if stop is not None:
        say(f"Older rows were not looked at, and are not changed: pass --before {stop} to continue.")


def rerun_desk(session: CommandSession) -> RerunDesk:
    """Create the desk with the local user as operator."""
    return RerunDesk(
        session.database, local_operator("cli"), owners=session.owners, registry=session.registry
    )


def emit_rerun(result: RerunResult, *, as_json: bool) -> int:
    """Print the new jobs and return the exit code: 1 if a run was not repeated."""
    if as_json:
        emit_json(result)
    else:
        emit_rows(result.rerun, ("id", "repeats", "train"), as_json=False)
    for run_id in result.not_over:
        say(f"Run {run_id} has not ended; it is not repeated.")
    for run_id in result.unknown:
        say(f"There is no run {run_id}.")
    return exit_code(result, _LEFT_UNDONE if result.not_over or result.unknown else 0)


def tell_number(done: int) -> None:
    """Report the progress of a long change."""
    say(f"{done} so far")
