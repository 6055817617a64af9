"""`gandy work`: a worker and nothing else."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from gandy.cli.call import Call, pass_call
from gandy.cli.event_loop import loop_factory, spare_collector
from gandy.cli.options import example
from gandy.cli.output import say

if TYPE_CHECKING:
    from gandy.app import Gandy


@click.command(epilog=example("gandy --app billing:app work --until-idle"))
@click.option(
    "--until-idle", is_flag=True, help="End when nothing is left to do; exit 1 if a job was parked."
)
@click.option("--concurrency", type=click.IntRange(min=1), help="The most runs that are executed at once.")
@click.pass_context
@pass_call
def work(call: Call, ctx: click.Context, *, until_idle: bool, concurrency: int | None) -> None:
    """Claim runs and execute them; evaluates no schedule."""
    from gandy.telemetry.log_lines import configure_logging  # noqa: PLC0415 `gandy --help` needs none of it
    from gandy.train.failure import run_contained  # noqa: PLC0415 the same

    app = call.load_app()
    if concurrency is not None:
        app.configure({"worker": {"slots": concurrency}})
    configure_logging(app.settings.logging)
    spare_collector()
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        parked = run_contained(runner, _work(app, until_idle=until_idle))
    if until_idle and parked:
        say(f"{parked} {'job was' if parked == 1 else 'jobs were'} parked; see: gandy dead-letters list")
        ctx.exit(1)


async def _work(app: Gandy, *, until_idle: bool) -> int:
    from gandy.cli.ending import stop_on_signals  # noqa: PLC0415 `gandy --help` needs none of it

    stop = stop_on_signals(grace=app.settings.worker.shutdown_grace)
    async with app:
        return await app.work(stop, until_idle=until_idle)
