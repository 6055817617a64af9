"""`gandy tick`: exactly one cycle of a service."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from gandy.cli.call import Call, pass_call
from gandy.cli.options import example
from gandy.cli.output import emit_json

if TYPE_CHECKING:
    from gandy.app import Gandy
    from gandy.app.running import Ticked


@click.command(epilog=example("gandy --app billing:app tick manifest-manager"))
@click.argument("service")
@click.option("--yes", is_flag=True, help="The clock is right, although it is far from what is on record.")
@pass_call
def tick(call: Call, service: str, *, yes: bool) -> None:
    """Run exactly one cycle of SERVICE and print its result as JSON.

    While the clock cannot be believed, a service that removes what is old does nothing; the exit code is 1.
    """
    emit_json(asyncio.run(_tick(call.load_app(), service, is_clock_right=yes)))


async def _tick(app: Gandy, service: str, *, is_clock_right: bool) -> Ticked:
    async with app:
        return await app.tick(service, is_clock_right=is_clock_right)
