"""`gandy up`, `gandy work` and `gandy tick`: run services, or one cycle of a service."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from gandy.cli.call import Call, pass_call
from gandy.cli.options import example
from gandy.cli.output import emit_json, say
from gandy.errors import GandyError, MissingExtraError
from gandy.settings import format_duration

if TYPE_CHECKING:
    from gandy.app import Gandy
    from gandy.app.running import Ticked
    from gandy.app.workers.messages import Launch
    from gandy.cli.status_line import StatusLine


_workers = click.option(
    "--workers",
    type=click.IntRange(min=1),
    metavar="N",
    help="Run N worker processes, for as many cores, and restart those that end; 1: no process of their own.",
)


@click.command(epilog=example("gandy --app billing:app up", "gandy --app billing:app up --services worker"))
@click.option(
    "--services", metavar="NAME,...", help="Only these services, separated by commas; by default all."
)
@click.option(
    "--concurrency", type=click.IntRange(min=1), help="Maximum number of concurrent runs of each worker."
)
@_workers
@click.option("--port", type=click.IntRange(0, 65_535), help="The port of the dashboard; 0: any free port.")
@click.option("--host", help="The address of the dashboard; a non-local one needs a token in the settings.")
@pass_call
def up(
    call: Call,
    *,
    services: str | None,
    concurrency: int | None,
    workers: int | None,
    port: int | None,
    host: str | None,
) -> None:
    """Run services in one process; workers in several with --workers.

    On a terminal the last lines show what runs, what needs a person, and the address of the dashboard; in a
    pipe only the log is written.
    """
    from gandy.app.process import loop_factory, tune_garbage_collector  # noqa: PLC0415 the same
    from gandy.cli.status_line import line_below  # noqa: PLC0415 `gandy --help` needs none of it
    from gandy.telemetry.log_lines import configure_logging  # noqa: PLC0415
    from gandy.train.failure import run_contained  # noqa: PLC0415 the same

    app = call.load_app()
    launch = _configure_workers(call, app, slots=concurrency, count=workers)
    web = {name: value for name, value in (("port", port), ("host", host)) if value is not None}
    if web:
        app.configure({"web": web})
    names = tuple(name.strip() for name in services.split(",") if name.strip()) if services else None
    tune_garbage_collector()
    with line_below() as line:
        configure_logging(app.settings.logging)
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            serving = _serve(
                app, names, line=line, has_port=port is not None, launch=launch, opened_by=call.again("open")
            )
            run_contained(runner, serving)


def _configure_workers(call: Call, app: Gandy, *, slots: int | None, count: int | None) -> Launch:
    """Apply the options of workers; return how a worker process loads the application, with these options."""
    from gandy.app.workers.messages import Launch  # noqa: PLC0415 `gandy --help` needs none of it

    given = {name: value for name, value in (("slots", slots), ("count", count)) if value is not None}
    app.configure({"worker": given})
    return Launch(reference=call.app_reference, keywords={**call.keywords, "worker": given})


async def _serve(
    app: Gandy,
    names: tuple[str, ...] | None,
    *,
    line: StatusLine | None,
    has_port: bool,
    launch: Launch,
    opened_by: str,
) -> None:
    from gandy.cli.status_line import status_shown  # noqa: PLC0415 `gandy --help` needs none of it
    from gandy.loops.supervisor import outlasting  # noqa: PLC0415 the same

    stop = _stop_on_signals(app)
    async with app.running(names, has_port=has_port, launch=launch):
        count = app.settings.worker.count
        processes = f", {count} worker processes" if count > 1 else ""
        say(f"{app.name} is up: {', '.join(names) if names else _all_services()}{processes}")
        async with status_shown(app, line, opened_by=opened_by):
            while not stop.is_set():
                await outlasting(stop.wait(), stop)
    say(f"{app.name} is down")


def _all_services() -> str:
    from gandy.app.web import has_web  # noqa: PLC0415 `gandy --help` needs none of it

    missing = MissingExtraError("the dashboard", "web")
    return "all services" if has_web() else f"all services but web; {missing}"


def _stop_on_signals(app: Gandy) -> asyncio.Event:
    """Say at the first signal how long the process may take: runs in progress get time to end."""
    from gandy.app.process import stop_on_signals  # noqa: PLC0415 `gandy --help` needs none of it

    grace = app.settings.worker.shutdown_grace

    def tell() -> None:
        span = format_duration(grace)
        say(f"{app.name} stops: runs in progress get {span} to end; a second Ctrl-C ends them at once")

    return stop_on_signals(grace=grace, on_first=tell)


@click.command(epilog=example("gandy --app billing:app work --until-idle"))
@click.option("--until-idle", is_flag=True, help="Stop when no due work is left; exit 1 if a job was parked.")
@click.option(
    "--concurrency", type=click.IntRange(min=1), help="Maximum number of concurrent runs of each worker."
)
@_workers
@click.pass_context
@pass_call
def work(
    call: Call, ctx: click.Context, *, until_idle: bool, concurrency: int | None, workers: int | None
) -> None:
    """Claim and execute runs, without evaluating schedules."""
    from gandy.app.process import loop_factory, tune_garbage_collector  # noqa: PLC0415 the same
    from gandy.telemetry.log_lines import configure_logging  # noqa: PLC0415 `gandy --help` needs none of it
    from gandy.train.failure import run_contained  # noqa: PLC0415 the same

    app = call.load_app()
    launch = _configure_workers(call, app, slots=concurrency, count=workers)
    configure_logging(app.settings.logging)
    tune_garbage_collector()
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        parked, waiting = run_contained(runner, _work(app, until_idle=until_idle, launch=launch))
    if until_idle and waiting is not None:
        left = f"; {waiting} waiting; see: {call.again('queue list')}" if waiting else ""
        say(f"No due work is left{left}")
    if until_idle and parked:
        letters = call.again("dead-letters list")
        say(f"{parked} {'job was' if parked == 1 else 'jobs were'} parked; see: {letters}")
        ctx.exit(1)


async def _work(app: Gandy, *, until_idle: bool, launch: Launch) -> tuple[int, str | None]:
    """Return the number of parked jobs and, of an idle worker, of the entries that wait."""
    from gandy.loops.supervisor import outlasting  # noqa: PLC0415 `gandy --help` needs none of it

    stop = _stop_on_signals(app)
    async with app:
        parked = None
        while parked is None:  # a job can cancel any task of its event loop, and so this worker
            working = app.work(stop, until_idle=until_idle, launch=launch)
            parked = await outlasting(working, stop)
        if not until_idle or stop.is_set():
            return parked, None
        return parked, await _waiting(app)


async def _waiting(app: Gandy) -> str | None:
    """Count what an idle worker leaves: a failed job whose next attempt is not due is easily overlooked."""
    from gandy.desk.home import Home  # noqa: PLC0415 `gandy --help` needs none of it

    try:
        waiting = (await Home(app.database, app.name).glance()).waiting
    except GandyError:
        return None  # the work is done, only the report is missing
    return f"{waiting.value:,}{'+' if waiting.is_at_least else ''}" if waiting.value else ""


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
