"""`gandy sync`: seed what the application declares."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from gandy.cli.call import Call, pass_call
from gandy.cli.options import example, json_option
from gandy.cli.output import emit_record, say

if TYPE_CHECKING:
    from gandy.app import Gandy
    from gandy.store.seeding import SeedResult

_REFUSED = 1


@click.command(epilog=example("gandy --app billing:app sync"))
@json_option
@click.pass_context
@pass_call
def sync(call: Call, ctx: click.Context, *, as_json: bool) -> None:
    """Seed what the application declares, as the manifest-manager service does at its start.

    What operators set stays in force; what is no longer declared is marked, and removed a day later. A
    manifest or a batch that is refused is named, the rest is seeded, and the exit code is 1.
    """
    app = call.load_app()
    result = asyncio.run(_seed(app))
    emit_record(result, as_json=as_json)
    if result.orphaned:
        say(f"{result.orphaned} no longer declared: no new runs, removed in a day unless declared again")
    for refused in result.refused:
        say(f"{refused.name} was not seeded: {refused.problem}")
    ctx.exit(_REFUSED if result.refused else 0)


async def _seed(app: Gandy) -> SeedResult:
    async with app:
        return await app.seed()
