"""`gandy audit`: who did what."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from gandy.cli.call import Call, pass_call
from gandy.cli.listing import PrintedRows, emit_found, limited, read_pages
from gandy.cli.options import bounded, example, json_option
from gandy.cli.session import CommandSession, with_session
from gandy.desk.audit import AuditEntry, read_trail
from gandy.store.audit import DeedFilter

if TYPE_CHECKING:
    from datetime import timedelta

_COLUMNS = ("id", "at", "actor", "face", "action", "subject", "detail")


@click.group(epilog=example("gandy audit list --since 7d"))
def audit() -> None:
    """Show who changed what."""


@audit.command("list", epilog=example("gandy audit list --on 42", "gandy audit list --by ada --since 7d"))
@click.option("--by", type=bounded("by"), metavar="NAME", help="Only changes by this operator.")
@click.option(
    "--on",
    type=bounded("subject"),
    metavar="ID",
    help="Only changes of this job, dead letter, manifest, group or worker, also those in bulk.",
)
@click.option("--since", type=bounded("since"), metavar="D", help="Only changes of this period, until now.")
@click.option("--before", type=bounded("id"), metavar="ID", help="Only changes older than this one.")
@limited(50)
@json_option
@pass_call
def list_audit(
    call: Call,
    *,
    by: str | None,
    on: str | None,
    since: timedelta | None,
    before: int | None,
    limit: int | None,
    as_json: bool,
) -> None:
    """List changes by operators, the newest first."""
    wanted = DeedFilter(by=by, subject=on, since=since)

    async def read(session: CommandSession) -> PrintedRows[AuditEntry]:
        return await read_pages(
            lambda start, length: read_trail(
                session.database, session.owners, replace(wanted, before=start, limit=length)
            ),
            before,
            limit,
        )

    emit_found(with_session(call, read), call.columns(*_COLUMNS), as_json=as_json)
