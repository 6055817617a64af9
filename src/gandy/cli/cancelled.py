"""What a cancellation came to, printed the same way whatever was cancelled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gandy.cli.output import emit_json, emit_rows, say
from gandy.desk.audit import local_operator
from gandy.desk.cancelling import CancelDesk

if TYPE_CHECKING:
    from gandy.cli.session import Session
    from gandy.store.cancelling import CancelResult

_NOT_FOUND = 1


def cancel_desk(session: Session) -> CancelDesk:
    """Open the desk in the name of who sits at the terminal."""
    return CancelDesk(session.database, local_operator("cli"), session.settings, owners=session.owners)


def emit_cancelled(result: CancelResult, *, as_json: bool) -> int:
    """Print what became of each job and give the exit code: 1 where an id is no job at all."""
    parts = {
        "cancelled": result.cancelled,
        "asked to stop": result.asked,
        "already over": result.over,
        "not found": result.unknown,
    }
    if as_json:
        emit_json({word.replace(" ", "_"): ids for word, ids in parts.items()})
    else:
        rows = [{"id": job_id, "outcome": word} for word, ids in parts.items() for job_id in ids]
        emit_rows(rows, ("id", "outcome"), as_json=False)
    if result.asked:
        say("A run that is asked to stop ends before its next junction; `gandy runs show ID` tells.")
    return _NOT_FOUND if result.unknown else 0


def tell_progress(total: CancelResult) -> None:
    """Say how far a long cancellation has come."""
    say(f"{len(total.cancelled) + len(total.asked)} so far")
