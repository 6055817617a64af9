"""Run the services of an application, or one cycle of a service."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

from gandy.app.web import bind_web, has_web, make_probes, make_web
from gandy.app.workers.parent import WorkerProcesses
from gandy.errors import UnknownServiceError
from gandy.loops.poller import LoopGuard
from gandy.loops.supervisor import Supervisor
from gandy.loops.wakeups import Wakeups
from gandy.scheduler.reaper import SERVICE as REAPER
from gandy.scheduler.reaper import ReaperService
from gandy.scheduler.service import SERVICE as MANIFEST_MANAGER
from gandy.scheduler.service import ManifestManagerService
from gandy.store.drivers.grants import refuse_missing
from gandy.upkeep.service import (
    DEAD_LETTER_CLEANUP,
    LIFECYCLE,
    METADATA_CLEANUP,
    LifecycleService,
    dead_letter_cleanup,
    metadata_cleanup,
)
from gandy.work.dispatcher import DispatcherService
from gandy.work.worker import Worker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping

    from gandy.app.workers.messages import Launch
    from gandy.context import Context
    from gandy.loops.supervisor import Service
    from gandy.upkeep.pruning import UpkeepResult


SERVICES: Final[Mapping[str, Callable[[Context, Wakeups], Service]]] = {
    MANIFEST_MANAGER: ManifestManagerService,
    "dispatcher": DispatcherService,
    "worker": Worker,
    METADATA_CLEANUP: lambda context, _: metadata_cleanup(context),
    DEAD_LETTER_CLEANUP: lambda context, _: dead_letter_cleanup(context),
    LIFECYCLE: lambda context, _: LifecycleService(context),
    "web": lambda context, _: make_web(context),
}


@asynccontextmanager
async def services_running(
    context: Context,
    names: Iterable[str] | None = None,
    *,
    has_port: bool = False,
    launch: Launch | None = None,
) -> AsyncIterator[Supervisor]:
    """Run the named services, or all of them, during the block.

    With a port, a process without the dashboard still answers probes and serves metrics. With a launch, the
    workers are processes of their own if the settings ask for several.
    """
    wanted = _services_of(context) if names is None else tuple(names)
    for name in wanted:
        if name not in SERVICES:
            raise UnknownServiceError(name, known=tuple(SERVICES))
    await refuse_missing(context.database)
    wakeups = Wakeups(context.database, context.owner)
    makers = {name: _maker(SERVICES[name], context, wakeups) for name in wanted}
    if "worker" in wanted and launch is not None and context.settings.worker.count > 1:
        makers["worker"] = partial(WorkerProcesses, context, launch)
    if "worker" in wanted and MANIFEST_MANAGER not in wanted:
        makers[REAPER] = _maker(ReaperService, context, wakeups)
    port = bind_web(context) if has_port or "web" in wanted else None
    if port is not None:
        name, make = ("web", make_web) if "web" in wanted else ("probes", make_probes)
        makers[name] = partial(make, context, port)
    supervisor = Supervisor(makers, grace=context.settings.worker.shutdown_grace, events=context.events)
    stop = asyncio.Event()
    guard = LoopGuard("wakeups", context.events)
    listening = guard.keep("listener", wakeups.listen)
    running = asyncio.create_task(supervisor.run(stop), name="gandy-services")
    try:
        yield supervisor
    finally:
        stop.set()
        await running
        guard.leave()
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)
        if port is not None:
            port.close()


def _services_of(context: Context) -> tuple[str, ...]:
    """Return all services, without a worker if there is a submitter, and without an uninstalled dashboard."""
    left_out = {"worker"} if context.submitter is not None else set()
    if not has_web():
        left_out.add("web")
    return tuple(name for name in SERVICES if name not in left_out)


async def work(
    context: Context, stop: asyncio.Event, *, until_idle: bool, launch: Launch | None = None
) -> int:
    """Run a worker, or the processes of several, and a reaper; return the number of new dead letters."""
    await refuse_missing(context.database)
    wakeups = Wakeups(context.database, context.owner)
    worker: Worker | WorkerProcesses
    if launch is not None and context.settings.worker.count > 1:
        worker = WorkerProcesses(context, launch)
    else:
        worker = Worker(context, wakeups)
    guard = LoopGuard("wakeups", context.events)
    guard.keep("listener", wakeups.listen)
    guard.keep(REAPER, lambda: ReaperService(context, wakeups).run(asyncio.Event()))
    try:
        await worker.run(stop, until_idle=until_idle)
    finally:
        guard.cancel()
        await asyncio.gather(*guard.tasks, return_exceptions=True)
    return worker.parked


def _maker(
    make: Callable[[Context, Wakeups], Service], context: Context, wakeups: Wakeups
) -> Callable[[], Service]:
    return lambda: make(context, wakeups)


Ticked: TypeAlias = "dict[str, object]"
#: The second argument: whether the operator confirms the clock.
Tick: TypeAlias = "Callable[[Context, bool], Awaitable[Ticked]]"


async def tick(context: Context, service: str, *, is_clock_right: bool = False) -> Ticked:
    """Seed like the service, run exactly one cycle and return its result."""
    if service not in TICKS:
        raise UnknownServiceError(service, known=tuple(TICKS))
    return await TICKS[service](context, is_clock_right)


async def _tick_manifest_manager(context: Context, is_clock_right: bool) -> Ticked:  # noqa: FBT001 - one of TICKS
    if is_clock_right and context.trust is not None:
        await context.trust.examine(is_overruled=True)
    manager = ManifestManagerService(context, Wakeups(context.database, context.owner))
    seeded = await manager.seed()
    result = await manager.tick()
    if result is None:
        return {"is_leader": False, "seeded": asdict(seeded)}
    return {
        "is_leader": True,
        "seeded": asdict(seeded),
        **result.counts,
        "lateness": result.lateness,
        "next_look": result.next_look,
        "dead_letters": [asdict(letter) for letter in result.parked],
    }


async def _tick_dispatcher(context: Context, _: bool) -> Ticked:  # noqa: FBT001 - one of TICKS
    result = await DispatcherService(context, Wakeups(context.database, context.owner)).tick()
    return {**result.counts, "runs": [run.id for run in result.dispatched]}


async def _tick_metadata_cleanup(context: Context, is_clock_right: bool) -> Ticked:  # noqa: FBT001 - one of TICKS
    return _ticked(await metadata_cleanup(context).tick(is_overruled=is_clock_right))


async def _tick_dead_letter_cleanup(context: Context, is_clock_right: bool) -> Ticked:  # noqa: FBT001 - one of TICKS
    return _ticked(await dead_letter_cleanup(context).tick(is_overruled=is_clock_right))


async def _tick_lifecycle(context: Context, is_clock_right: bool) -> Ticked:  # noqa: FBT001 - one of TICKS
    tick = await LifecycleService(context).tick(is_overruled=is_clock_right)
    return {**_ticked(tick.own), "contracts": [asdict(report) for report in tick.contracts]}


def _ticked(result: UpkeepResult) -> Ticked:
    """Return the deletions of one cycle, for JSON."""
    return {
        "deleted": result.deleted,
        "rows": dict(result.rows),
        "days_made": result.days_made,
        "pieces_opened": result.pieces_opened,
        "days_dropped": result.days_dropped,
        "set_aside": result.set_aside,
        "passed_over": result.passed_over,
        "failed": [asdict(bound) for bound in result.failed],
    }


TICKS: Final[Mapping[str, Tick]] = {
    MANIFEST_MANAGER: _tick_manifest_manager,
    "dispatcher": _tick_dispatcher,
    METADATA_CLEANUP: _tick_metadata_cleanup,
    DEAD_LETTER_CLEANUP: _tick_dead_letter_cleanup,
    LIFECYCLE: _tick_lifecycle,
}
