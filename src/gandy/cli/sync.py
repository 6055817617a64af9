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


@click.command(epilog=example("gandy --app billing:app sync"))
@json_option
@pass_call
def sync(call: Call, *, as_json: bool) -> None:
    """Seed what the application declares, as the manifest-manager service does at its start.

    What operators set stays in force; what is no longer declared is marked, and removed a day later.
    """
    app = call.load_app()
    result = asyncio.run(_seed(app))
    emit_record(result, as_json=as_json)
    if result.orphaned:
        say(f"{result.orphaned} no longer declared: no new runs, removed in a day unless declared again")


async def _seed(app: Gandy) -> SeedResult:
    async with app:
        return await app.seed()
