"""`gandy upcoming`: what comes next."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from gandy.cli.call import Call, pass_call
from gandy.cli.listing import PrintedRows, emit_found, limited, read_pages
from gandy.cli.options import bounded, example, json_option
from gandy.cli.output import say
from gandy.cli.session import CommandSession, with_session
from gandy.desk.upcoming import DEFAULT_SPAN, MOST_PASSED, UpcomingFilter, UpcomingManifest, list_upcoming

if TYPE_CHECKING:
    from datetime import timedelta

    from gandy.desk.upcoming import ComingManifests

_COLUMNS = ("due_at", "external_id", "train", "group", "more", "held_by", "why")


@click.command(epilog=example("gandy upcoming --for 1h"))
@click.option(
    "--for",
    "within",
    type=bounded("within"),
    metavar="D",
    default=DEFAULT_SPAN,
    show_default="1d",
    help="How far to look ahead.",
)
@click.option("--after", metavar="PLACE", help="Only what comes after the `place` of this row.")
@limited(50)
@json_option
@pass_call
def upcoming(call: Call, *, within: timedelta, after: str | None, limit: int | None, as_json: bool) -> None:
    """List the next instants of all manifests in order, and what will hold them back.

    Excluded instants are left out. Queued jobs are listed by `gandy queue list`.
    """
    wanted = UpcomingFilter(within=within, after=after)
    notes: set[str] = set()

    async def read(session: CommandSession) -> PrintedRows[UpcomingManifest]:
        async def page(start: str | None, length: int) -> ComingManifests:
            found = await list_upcoming(
                session.database, session.owners, replace(wanted, after=start, limit=length)
            )
            if found.is_passed_cut:
                notes.add(f"Of the manifests whose instants have passed, only {MOST_PASSED} are listed.")
            return found

        return await read_pages(page, after, limit, option="--after", key="place")

    found = with_session(call, read)
    rows = found.rows if as_json else [_line(each) for each in found.rows]
    emit_found(PrintedRows(rows, found.remark), call.columns(*_COLUMNS), as_json=as_json)
    for note in notes:
        say(note)


def _line(each: UpcomingManifest) -> dict[str, object]:
    """Return a row of the table: the next instant, and how many more there are within the span."""
    more = len(each.instants) - 1
    return {
        "due_at": each.due_at,
        "external_id": each.external_id,
        "train": each.train,
        "group": each.group,
        "more": f"{more}+" if each.is_cut else more,
        "held_by": each.held_by,
        "why": each.why,
        "owner": each.owner,
    }
