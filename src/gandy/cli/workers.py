"""`gandy workers`: who executes runs."""

from __future__ import annotations

import click

from gandy.cli.call import Call, pass_call
from gandy.cli.options import example, json_option
from gandy.cli.output import emit_rows, say
from gandy.cli.session import Session, with_session
from gandy.desk.audit import local_operator
from gandy.desk.groups import WorkerDesk

_COLUMNS = (
    "id",
    "host",
    "pid",
    "version",
    "state",
    "is_alive",
    "silent_for",
    "busy",
    "slots",
    "longest_stall",
)


@click.group(epilog=example("gandy workers list --alive"))
def workers() -> None:
    """Show and drain workers."""


@workers.command("list", epilog=example("gandy workers list --json"))
@click.option(
    "--alive/--gone", "is_alive", default=None, help="Only those whose lease holds, or only the others."
)
@click.option(
    "--limit", type=click.IntRange(1, 10_000), default=100, show_default=True, help="At most so many."
)
@json_option
@pass_call
def list_workers(call: Call, *, is_alive: bool | None, limit: int, as_json: bool) -> None:
    """List workers, those heard of last first."""
    found = with_session(call, lambda session: _desk(session).list(is_alive=is_alive, limit=limit))
    emit_rows(found, call.columns(*_COLUMNS), as_json=as_json)


@workers.command(epilog=example("gandy workers drain 1f0c9a"))
@click.argument("worker_id", metavar="ID")
@pass_call
def drain(call: Call, worker_id: str) -> None:
    """Let a worker finish what it has and claim no more; it does not end by itself."""
    with_session(call, lambda session: _desk(session).drain(worker_id))
    say("It claims no more; `gandy workers list` shows when nothing of it is left.")


def _desk(session: Session) -> WorkerDesk:
    return WorkerDesk(session.database, local_operator("cli"), owners=session.owners)
