"""Run the services of an application, or one cycle of a service."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Final, TypeAlias

from gandy.app.web import check_door, has_web, make_probes, make_web
from gandy.errors import UnknownServiceError
from gandy.loops.poller import LoopGuard
from gandy.loops.supervisor import Supervisor
from gandy.loops.wakeups import Wakeups
from gandy.scheduler.reaper import SERVICE as REAPER
from gandy.scheduler.reaper import ReaperParts, ReaperService
from gandy.scheduler.service import SERVICE as MANIFEST_MANAGER
from gandy.scheduler.service import ManifestManagerParts, ManifestManagerService
from gandy.store.drivers.grants import refuse_missing
from gandy.upkeep.service import (
    DEAD_LETTER_CLEANUP,
    LIFECYCLE,
    METADATA_CLEANUP,
    LifecycleParts,
    LifecycleService,
    UpkeepParts,
    dead_letter_cleanup,
    metadata_cleanup,
)
from gandy.work.dispatcher import DispatcherParts, DispatcherService
from gandy.work.parts import WorkerParts
from gandy.work.worker import Worker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping

    from gandy.app.opening import OpenApp
    from gandy.loops.supervisor import Service
    from gandy.upkeep.pruning import UpkeepResult
    from gandy.upkeep.service import UpkeepService


UPKEEP_SERVICES: Final[Mapping[str, Callable[[UpkeepParts], UpkeepService]]] = {
    METADATA_CLEANUP: metadata_cleanup,
    DEAD_LETTER_CLEANUP: dead_letter_cleanup,
}


def make_upkeep(name: str) -> Callable[[OpenApp, Wakeups], UpkeepService]:
    """Return the factory of one upkeep service."""

    def make(app: OpenApp, _: Wakeups) -> UpkeepService:
        return UPKEEP_SERVICES[name](upkeep_parts(app))

    return make


async def tick_upkeep(app: OpenApp, name: str, *, is_overruled: bool = False) -> dict[str, object]:
    """Run exactly one cycle of an upkeep service, and return the number of deleted rows."""
    return ticked(await UPKEEP_SERVICES[name](upkeep_parts(app)).tick(is_overruled=is_overruled))


def ticked(result: UpkeepResult) -> dict[str, object]:
    """Return the deletions of one cycle, for JSON."""
    return {
        "deleted": result.deleted,
        "rows": dict(result.rows),
        "days_made": result.days_made,
        "days_dropped": result.days_dropped,
        "set_aside": result.set_aside,
        "passed_over": result.passed_over,
        "failed": [asdict(bound) for bound in result.failed],
    }


def upkeep_parts(app: OpenApp) -> UpkeepParts:
    """Return the dependencies of these services."""
    return UpkeepParts(
        owner=app.name, database=app.database, settings=app.settings, events=app.events, trust=app.trust
    )


def make_lifecycle(app: OpenApp, _: Wakeups) -> LifecycleService:
    """Make the service that keeps tables bounded, Gandy's own and the application's."""
    return _service(app)


async def tick_lifecycle(app: OpenApp, *, is_overruled: bool = False) -> dict[str, object]:
    """Run exactly one cycle of the lifecycle, and return the number of deleted rows."""
    tick = await _service(app).tick(is_overruled=is_overruled)
    return {**ticked(tick.own), "contracts": [asdict(report) for report in tick.contracts]}


def _service(app: OpenApp) -> LifecycleService:
    parts = LifecycleParts(upkeep=upkeep_parts(app), contracts=app.contracts, clock=app.clock)
    return LifecycleService(parts)


def make_worker(app: OpenApp, wakeups: Wakeups) -> Worker:
    """Make the service that claims runs and executes them."""
    return Worker(
        WorkerParts(
            owner=app.name,
            database=app.database,
            settings=app.settings,
            registry=app.registry,
            provided=app.values,
            hooks=app.hooks,
            events=app.events,
            wakeups=wakeups,
            engine=app.engine,
            host=app.place,
            clock=app.clock,
        )
    )


def make_dispatcher(app: OpenApp, wakeups: Wakeups) -> DispatcherService:
    """Make the service that dispatches entries that no worker claimed."""
    return DispatcherService(
        DispatcherParts(
            owner=app.name,
            database=app.database,
            settings=app.settings,
            trains=app.registry.names,
            events=app.events,
            wakeups=wakeups,
            submitter=app.submitter,
        )
    )


def make_manifest_manager(app: OpenApp, wakeups: Wakeups) -> ManifestManagerService:
    """Make the service that seeds the declarations and queues due occurrences."""
    return ManifestManagerService(
        ManifestManagerParts(
            owner=app.name,
            database=app.database,
            settings=app.settings,
            declarations=app.declarations,
            events=app.events,
            wakeups=wakeups,
            hooks=app.hooks,
            registry=app.registry,
            trust=app.trust,
        )
    )


def make_reaper(app: OpenApp, wakeups: Wakeups) -> ReaperService:
    """Make the service that recovers runs if a worker runs without a manifest manager."""
    return ReaperService(
        ReaperParts(
            database=app.database,
            settings=app.settings,
            events=app.events,
            wakeups=wakeups,
            trust=app.trust,
        )
    )


SERVICES: Final[Mapping[str, Callable[[OpenApp, Wakeups], Service]]] = {
    MANIFEST_MANAGER: make_manifest_manager,
    "dispatcher": make_dispatcher,
    "worker": make_worker,
    **{name: make_upkeep(name) for name in UPKEEP_SERVICES},
    LIFECYCLE: make_lifecycle,
    "web": make_web,
}


@asynccontextmanager
async def services_running(
    app: OpenApp, names: Iterable[str] | None = None, *, has_port: bool = False
) -> AsyncIterator[Supervisor]:
    """Run the named services, or all of them, during the block.

    With a port, a process without the dashboard still answers probes and serves metrics.
    """
    wanted = _services_of(app) if names is None else tuple(names)
    for name in wanted:
        if name not in SERVICES:
            raise UnknownServiceError(name, known=tuple(SERVICES))
    await refuse_missing(app.database)
    wakeups = Wakeups(app.database, app.name)
    makers = {name: _maker(SERVICES[name], app, wakeups) for name in wanted}
    if "worker" in wanted and MANIFEST_MANAGER not in wanted:
        makers[REAPER] = _maker(make_reaper, app, wakeups)
    if has_port and "web" not in wanted:
        makers["probes"] = _maker(make_probes, app, wakeups)
    if has_port or "web" in wanted:
        check_door(app)
    supervisor = Supervisor(makers, grace=app.settings.worker.shutdown_grace, events=app.events)
    stop = asyncio.Event()
    guard = LoopGuard("wakeups", app.events)
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


def _services_of(app: OpenApp) -> tuple[str, ...]:
    """Return all services, without a worker if there is a submitter, and without an uninstalled dashboard."""
    left_out = {"worker"} if app.submitter is not None else set()
    if not has_web():
        left_out.add("web")
    return tuple(name for name in SERVICES if name not in left_out)


async def work(app: OpenApp, stop: asyncio.Event, *, until_idle: bool) -> int:
    """Run a worker and a reaper; return the number of jobs that became dead letters."""
    await refuse_missing(app.database)
    wakeups = Wakeups(app.database, app.name)
    worker = make_worker(app, wakeups)
    guard = LoopGuard("wakeups", app.events)
    guard.keep("listener", wakeups.listen)
    guard.keep(REAPER, lambda: make_reaper(app, wakeups).run(asyncio.Event()))
    try:
        await worker.run(stop, until_idle=until_idle)
    finally:
        guard.cancel()
        await asyncio.gather(*guard.tasks, return_exceptions=True)
    return worker.parked


def _maker(
    make: Callable[[OpenApp, Wakeups], Service], app: OpenApp, wakeups: Wakeups
) -> Callable[[], Service]:
    return lambda: make(app, wakeups)


Ticked: TypeAlias = "dict[str, object]"
#: The second argument: whether the operator confirms the clock.
Tick: TypeAlias = "Callable[[OpenApp, bool], Awaitable[Ticked]]"


async def tick(app: OpenApp, service: str, *, is_clock_right: bool = False) -> Ticked:
    """Seed like the service, run exactly one cycle and return its result."""
    if service not in TICKS:
        raise UnknownServiceError(service, known=tuple(TICKS))
    return await TICKS[service](app, is_clock_right)


async def _tick_manifest_manager(app: OpenApp, is_clock_right: bool) -> Ticked:  # noqa: FBT001 - one of TICKS
    if is_clock_right:
        await app.trust.examine(is_overruled=True)
    manager = make_manifest_manager(app, Wakeups(app.database, app.name))
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


async def _tick_dispatcher(app: OpenApp, _: bool) -> Ticked:  # noqa: FBT001 - one of TICKS
    result = await make_dispatcher(app, Wakeups(app.database, app.name)).tick()
    return {**result.counts, "runs": [run.id for run in result.dispatched]}


def _tick_of(name: str) -> Tick:
    return lambda app, is_clock_right: tick_upkeep(app, name, is_overruled=is_clock_right)


TICKS: Final[Mapping[str, Tick]] = {
    "manifest-manager": _tick_manifest_manager,
    "dispatcher": _tick_dispatcher,
    **{name: _tick_of(name) for name in UPKEEP_SERVICES},
    LIFECYCLE: lambda app, is_clock_right: tick_lifecycle(app, is_overruled=is_clock_right),
}
