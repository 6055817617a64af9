from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from gandy.events import CycleEnded, DeadLettered, EventBus, OccurrencesQueued
from gandy.loops.wakeups import Wakeups
from gandy.model.manifest import Declarations
from gandy.model.run import TrainState
from gandy.model.schedule import Cron, Dependent, Manual
from gandy.scheduler.reaper import LeaseWatch
from gandy.scheduler.service import ManifestManagerService
from gandy.settings import Settings
from gandy.store.drivers.opening import migrate
from gandy.store.queueing import trigger
from gandy.store.workers import WorkerRegistration, register_worker
from tests.support.waiting import eventually
from tests.support.world import OWNER, WORKER, manifest, open_world

if TYPE_CHECKING:
    from gandy.events import Event
    from gandy.model.manifest import ManifestDeclaration
    from tests.support.postgres import ThrowawayServer
    from tests.support.world import World


class Watched:
    """A service, and everything that it tells."""

    def __init__(
        self, world: World, *declared: ManifestDeclaration, settings: Settings | None = None
    ) -> None:
        self.told: list[Event] = []
        events = EventBus()
        events.subscribe(CycleEnded, self.told.append)
        events.subscribe(OccurrencesQueued, self.told.append)
        events.subscribe(DeadLettered, self.told.append)
        self.stopped: list[str] = []
        self.wakeups = Wakeups(world.database, OWNER)
        self.wakeups.call("cancel", self.stopped.append)
        declarations = Declarations(owner=OWNER, manifests=declared)
        context = world.context(settings=settings or quick(), declarations=declarations, events=events)
        self.service = ManifestManagerService(context, self.wakeups)

    def cycles(self) -> list[CycleEnded]:
        return [event for event in self.told if isinstance(event, CycleEnded)]


def quick(**manager: object) -> Settings:
    settings = Settings()
    return replace(
        settings,
        manifest_manager=replace(settings.manifest_manager, **manager),  # type: ignore[arg-type]
        worker=replace(settings.worker, heartbeat_every=timedelta(seconds=2)),
    )


async def test_it_seeds_at_its_start_and_queues_what_is_due(world: World) -> None:
    watched, stop = Watched(world, manifest()), asyncio.Event()
    running = asyncio.create_task(watched.service.run(stop))

    await eventually(lambda: has_entry(world), "the entry is queued")

    stop.set()
    await running
    queued = [event for event in watched.told if isinstance(event, OccurrencesQueued)]
    assert [event.count for event in queued] == [1]
    assert watched.cycles()[0].verdict == "worked"


async def has_entry(world: World) -> bool:
    return bool(world.entries())


async def test_a_follow_up_cycle_comes_at_once_when_the_limit_left_something_over(world: World) -> None:
    settings = quick(max_entries_per_cycle=2, poll_every=timedelta(hours=1))
    watched = Watched(world, *(manifest(f"m-{n}") for n in range(7)), settings=settings)
    stop = asyncio.Event()
    running = asyncio.create_task(watched.service.run(stop))

    await eventually(lambda: count_is(world, 7), "all are queued without waiting for the poll")

    stop.set()
    await running
    assert [cycle.counts["queued"] for cycle in watched.cycles()[:4]] == [2, 2, 2, 1]


async def count_is(world: World, wanted: int) -> bool:
    return bool(world.rows("SELECT count(*) AS n FROM work_queue")[0]["n"] == wanted)


async def test_a_wake_up_is_answered_before_the_poll(world: World) -> None:
    settings = quick(poll_every=timedelta(hours=1))
    watched, stop = Watched(world, settings=settings), asyncio.Event()
    running = asyncio.create_task(watched.service.run(stop))
    await eventually(lambda: ran(watched, 1), "the first cycle has run")
    await world.seed(manifest())

    watched.wakeups.wake("manager")

    await eventually(lambda: has_entry(world), "the wake-up was answered")
    stop.set()
    await running


async def ran(watched: Watched, cycles: int) -> bool:
    return len(watched.cycles()) >= cycles


async def test_a_server_that_does_not_get_the_lock_skips_the_cycle_and_does_not_wait(world: World) -> None:
    watched = Watched(world, manifest())
    if world.url.startswith("sqlite"):  # one writer at a time: there is no lock to lose
        await watched.service.seed()
        assert await watched.service.tick() is not None
        return
    from gandy.store.manifests import try_lock_cycle  # noqa: PLC0415 only where there is a lock

    await watched.service.seed()
    async with world.database.transaction() as other:
        assert await other.run(try_lock_cycle())

        assert await watched.service.tick() is None

    assert watched.cycles()[-1].verdict == "skipped"


async def test_a_refused_declaration_does_not_stop_the_evaluation(world: World) -> None:
    await world.seed(manifest("theirs"), owner="warehouse")
    refused = manifest("child", schedule=Dependent("theirs"))  # of another application
    watched, stop = Watched(world, refused), asyncio.Event()
    running = asyncio.create_task(watched.service.run(stop))

    await eventually(lambda: count_is(world, 1), "what was there is evaluated all the same")

    stop.set()
    await running


async def test_a_cycle_that_fails_is_told_and_the_next_one_goes_on(world: World) -> None:
    watched = Watched(world, manifest())
    await watched.service.seed()
    world.rows("ALTER TABLE service_state RENAME TO mislaid")
    world.rows("ALTER TABLE worker RENAME TO mislaid_worker")
    stop = asyncio.Event()
    running = asyncio.create_task(watched.service.run(stop))
    await eventually(lambda: failed(watched), "a cycle has failed")
    world.rows("ALTER TABLE mislaid RENAME TO service_state")
    world.rows("ALTER TABLE mislaid_worker RENAME TO worker")

    await eventually(lambda: has_entry(world), "a later cycle queued it")

    stop.set()
    await running


async def failed(watched: Watched) -> bool:
    return any(cycle.verdict == "failed" for cycle in watched.cycles())


async def test_a_run_past_its_deadline_is_stopped_at_once_in_this_process(world: World) -> None:
    watched = Watched(world, manifest(schedule=Manual(), timeout=timedelta(minutes=1)))
    await watched.service.seed()
    await world.database.run(trigger("report", owner=OWNER))
    (run,) = await world.claim()
    world.advance(minutes=2)

    await watched.service.tick()

    assert watched.stopped == [str(run.id)]


async def test_a_tick_that_finds_silent_workers_watches_one_interval_and_reads_again(world: World) -> None:
    watched = Watched(world, manifest(schedule=Cron("0 13 * * *")))
    await watched.service.seed()
    world.advance(hours=1)
    await watched.service.tick()
    registration = WorkerRegistration(
        id=WORKER, owner=OWNER, host="h", pid=1, version="0", slots=10, trains=("MakeReport",)
    )
    await world.database.run(register_worker(registration, 12.0))
    await world.claim()
    world.advance(seconds=13)

    result = await watched.service.tick()

    assert result is not None
    assert (result.reaped, result.silent_workers) == (1, 0)


async def test_a_frozen_database_kills_nobody(private_postgres_server: ThrowawayServer) -> None:
    with private_postgres_server.database() as url:
        migrate(url)
        world = await open_world(url)
        watch = LeaseWatch(world.database, timedelta(milliseconds=400))
        with private_postgres_server.frozen():
            assert not await watch.confirm()
            assert not watch.is_trusted

        assert await eventually(watch.confirm, "the database answers again for a full interval")
        assert watch.is_trusted
        await world.database.close()


async def test_a_parked_manifest_is_told(world: World) -> None:
    watched = Watched(world, manifest(max_retries=1))
    await watched.service.seed()
    await watched.service.tick()
    runs = await world.claim()
    await world.finish(*runs, state=TrainState.FAILED, is_bare=True)  # then the cycle writes the letter
    await watched.service.tick()

    (letter,) = [event for event in watched.told if isinstance(event, DeadLettered)]
    assert (letter.manifest, letter.train) == ("report", "MakeReport")
