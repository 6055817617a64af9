"""Commands that change many jobs at once: their previews, questions and results."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gandy.cli.listing import tell_looked
from gandy.cli.options import confirm
from gandy.cli.output import emit_json, emit_rows, say
from gandy.desk.audit import local_operator
from gandy.desk.choosing.rerunning import RerunDesk

if TYPE_CHECKING:
    from gandy.cli.session import CommandSession
    from gandy.desk.choosing.walks import Preview
    from gandy.store.reading.listings import Filter, RerunResult

_LEFT_UNDONE = 1
_MOST_PARTS = 20  #: lines of a preview
_MOST_NAMED = 10


def confirm_bulk(
    verb: str, found: Preview, wanted: Filter, *, what: str = "job"
) -> tuple[tuple[int, ...], Filter]:
    """Print what a bulk verb will touch, ask before it does, and return what was agreed to."""
    for part in found.parts[:_MOST_PARTS]:
        say(f"  {part.jobs:>7,} {part.state.replace('_', ' ')} of {part.train}")
    if len(found.parts) > _MOST_PARTS:
        say(f"  and those of {len(found.parts) - _MOST_PARTS} more trains and states")
    if found.ids:
        more = ", ..." if found.jobs > _MOST_NAMED else ""
        say(f"  ids: {', '.join(map(str, found.ids[:_MOST_NAMED]))}{more}")
    if remark := tell_looked(found.looked):
        say(remark)
    if not found.is_named:
        say(f"  all that match, up to id {found.newest}; one that comes to match meanwhile is included")
    number = f"{found.jobs} or more" if found.is_at_least else str(found.jobs)
    confirm(f"{verb} {number} {what if number == '1' else what + 's'}?", yes=False)
    return found.confirmed(wanted)


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
    return _LEFT_UNDONE if result.not_over or result.unknown else 0


def tell_number(done: int) -> None:
    """Report the progress of a long change."""
    say(f"{done} so far")
