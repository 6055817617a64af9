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
    from gandy.app.ticking import Ticked


@click.command(epilog=example("gandy --app billing:app tick manifest-manager"))
@click.argument("service")
@pass_call
def tick(call: Call, service: str) -> None:
    """Run exactly one cycle of SERVICE and print its result as JSON."""
    emit_json(asyncio.run(_tick(call.load_app(), service)))


async def _tick(app: Gandy, service: str) -> Ticked:
    async with app:
        return await app.tick(service)
