"""`gandy up`: services in one process."""

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
    from gandy.cli.status_line import LineBelow


@click.command(epilog=example("gandy --app billing:app up", "gandy --app billing:app up --services worker"))
@click.option(
    "--services", metavar="NAME,...", help="Only these, separated by commas; without it, all of them."
)
@click.option(
    "--concurrency", type=click.IntRange(min=1), help="The most runs that the worker executes at once."
)
@click.option(
    "--port", type=click.IntRange(0, 65_535), help="Where the dashboard listens; 0 takes a free one."
)
@click.option("--host", help="The address it listens on; any but the local one needs a token that is set.")
@pass_call
def up(
    call: Call, *, services: str | None, concurrency: int | None, port: int | None, host: str | None
) -> None:
    """Run services in one process.

    At a terminal the last line says how it fares; in a pipe there is the log and nothing else.
    """
    from gandy.cli.status_line import line_below  # noqa: PLC0415 `gandy --help` needs none of it
    from gandy.telemetry.log_lines import configure_logging  # noqa: PLC0415
    from gandy.train.failure import run_contained  # noqa: PLC0415 the same

    app = call.load_app()
    if concurrency is not None:
        app.configure({"worker": {"slots": concurrency}})
    web = {name: value for name, value in (("port", port), ("host", host)) if value is not None}
    if web:
        app.configure({"web": web})
    names = tuple(name.strip() for name in services.split(",") if name.strip()) if services else None
    spare_collector()
    with line_below() as line:
        configure_logging(app.settings.logging)
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            run_contained(runner, _serve(app, names, line=line, has_port=port is not None))


async def _serve(
    app: Gandy, names: tuple[str, ...] | None, *, line: LineBelow | None, has_port: bool
) -> None:
    from gandy.cli.ending import stop_on_signals  # noqa: PLC0415 `gandy --help` needs none of it
    from gandy.cli.status_line import status_shown  # noqa: PLC0415

    stop = stop_on_signals(grace=app.settings.worker.shutdown_grace)
    async with app.running(names, has_port=has_port):
        say(f"{app.name} is up: {', '.join(names) if names else 'all services'}")
        async with status_shown(app, line):
            await stop.wait()
    say(f"{app.name} is down")
