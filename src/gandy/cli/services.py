"""`gandy up`, `gandy work` and `gandy tick`: run services, or one cycle of a service."""

from __future__ import annotations

import asyncio
import gc
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

import click

from gandy.cli.call import Call, pass_call
from gandy.cli.options import example
from gandy.cli.output import emit_json, say

if TYPE_CHECKING:
    from collections.abc import Callable

    from gandy.app import Gandy
    from gandy.app.running import Ticked
    from gandy.cli.status_line import StatusLine


YOUNG_OBJECTS: Final = 50_000


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """Return the event loop factory: uvloop if the extra is installed, else asyncio."""
    if find_spec("uvloop") is None:
        return asyncio.new_event_loop
    import uvloop  # noqa: PLC0415 an extra

    return uvloop.new_event_loop


def tune_garbage_collector() -> None:
    """Exclude start-up objects from garbage collection and collect less often: jobs create few cycles."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS, 20, 20)


@click.command(epilog=example("gandy --app billing:app up", "gandy --app billing:app up --services worker"))
@click.option(
    "--services", metavar="NAME,...", help="Only these services, separated by commas; by default all."
)
@click.option(
    "--concurrency", type=click.IntRange(min=1), help="Maximum number of concurrent runs of the worker."
)
@click.option("--port", type=click.IntRange(0, 65_535), help="The port of the dashboard; 0: any free port.")
@click.option("--host", help="The address of the dashboard; a non-local one needs a token in the settings.")
@pass_call
def up(
    call: Call, *, services: str | None, concurrency: int | None, port: int | None, host: str | None
) -> None:
    """Run services in one process.

    On a terminal the last lines show what runs, what needs a person, and the address of the dashboard; in a
    pipe only the log is written.
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
    tune_garbage_collector()
    with line_below() as line:
        configure_logging(app.settings.logging)
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            run_contained(runner, _serve(app, names, line=line, has_port=port is not None))


async def _serve(
    app: Gandy, names: tuple[str, ...] | None, *, line: StatusLine | None, has_port: bool
) -> None:
    from gandy.cli.session import stop_on_signals  # noqa: PLC0415 `gandy --help` needs none of it
    from gandy.cli.status_line import status_shown  # noqa: PLC0415

    stop = stop_on_signals(grace=app.settings.worker.shutdown_grace)
    async with app.running(names, has_port=has_port):
        say(f"{app.name} is up: {', '.join(names) if names else 'all services'}")
        async with status_shown(app, line):
            await stop.wait()
    say(f"{app.name} is down")


@click.command(epilog=example("gandy --app billing:app work --until-idle"))
@click.option("--until-idle", is_flag=True, help="Stop when no due work is left; exit 1 if a job was parked.")
@click.option("--concurrency", type=click.IntRange(min=1), help="Maximum number of concurrent runs.")
@click.pass_context
@pass_call
def work(call: Call, ctx: click.Context, *, until_idle: bool, concurrency: int | None) -> None:
    """Claim and execute runs, without evaluating schedules."""
    from gandy.telemetry.log_lines import configure_logging  # noqa: PLC0415 `gandy --help` needs none of it
    from gandy.train.failure import run_contained  # noqa: PLC0415 the same

    app = call.load_app()
    if concurrency is not None:
        app.configure({"worker": {"slots": concurrency}})
    configure_logging(app.settings.logging)
    tune_garbage_collector()
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        parked = run_contained(runner, _work(app, until_idle=until_idle))
    if until_idle and parked:
        say(f"{parked} {'job was' if parked == 1 else 'jobs were'} parked; see: gandy dead-letters list")
        ctx.exit(1)


async def _work(app: Gandy, *, until_idle: bool) -> int:
    from gandy.cli.session import stop_on_signals  # noqa: PLC0415 `gandy --help` needs none of it

    stop = stop_on_signals(grace=app.settings.worker.shutdown_grace)
    async with app:
        return await app.work(stop, until_idle=until_idle)


@click.command(epilog=example("gandy --app billing:app tick manifest-manager"))
@click.argument("service")
@click.option("--yes", is_flag=True, help="Trust the clock, although it is far from the recorded times.")
@pass_call
def tick(call: Call, service: str, *, yes: bool) -> None:
    """Run exactly one cycle of SERVICE and print its result as JSON.

    While the clock is not trusted, a service that deletes old rows does nothing; the exit code is 1.
    """
    emit_json(asyncio.run(_tick(call.load_app(), service, is_clock_right=yes)))


async def _tick(app: Gandy, service: str, *, is_clock_right: bool) -> Ticked:
    async with app:
        return await app.tick(service, is_clock_right=is_clock_right)
