"""What bit other workers: a run belongs to one claim, and its end is written once, whatever happens."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from gandy import Gandy, Run
from gandy.model.schedule import Dependent
from gandy.store.cancelling import cancel_jobs
from gandy.store.dispatching import dispatch
from gandy.store.reaping import ReapRules, find_silent_workers
from gandy.store.workers import LeaseRenewal, WorkerRegistration, register_worker, renew_lease
from tests.store.work import SPANS, TRAINS, WORKER, ask, queue, run_row
from tests.support.reaping import reap_lost
from tests.support.waiting import eventually
from tests.support.world import OWNER, OWNERS, manifest

if TYPE_CHECKING:
    from gandy.train.hooks import HookEvent
    from tests.support.world import World

REAP = ReapRules(SPANS, 10_000)
LEASE = 12.0


async def register(world: World, worker_id: str = WORKER) -> None:
    """A worker of this host and this process, like every other in this file."""
    worker = WorkerRegistration(
        id=worker_id, owner=OWNER, host="one-host", pid=1, version="1", slots=7, trains=TRAINS
    )
    await world.database.run(register_worker(worker, LEASE))


async def renew(world: World, worker_id: str = WORKER) -> str | None:
    return await world.database.run(renew_lease(LeaseRenewal(id=worker_id, lease_seconds=LEASE, busy=1)))


async def test_a_job_that_takes_many_leases_runs_once(world: World) -> None:
    await register(world)
    await register(world, "worker-2")
    await queue(world, timeout=timedelta(hours=2))
    (run,) = await world.claim()

    for _ in range(400):  # more than an hour, a lease being twelve seconds
        world.advance(seconds=10)
        assert await renew(world) == "running"
        assert await renew(world, "worker-2") == "running"
    assert (await world.cycle(trusts_leases=True)).reaped == 0
    assert (await world.database.run(dispatch(ask(worker_id="worker-2")))).ids == ()

    assert (await world.finish(run)).refused == ()
    assert run_row(world, run.id) is not None


async def test_a_success_is_counted_although_somebody_cancelled_just_before_it(world: World) -> None:
    await world.seed(manifest(), manifest("after", schedule=Dependent("report")))
    await world.cycle()
    (run,) = await world.claim()
    await world.database.run(cancel_jobs([run.id], SPANS, owners=OWNERS))
    row = run_row(world, run.id)
    assert row is not None
    assert row["cancellation_requested"]

    await world.finish(run)

    stored = world.manifest()
    assert (stored["success_count"], stored["last_successful_run_id"]) == (1, run.id)
    assert stored["last_successful_run"] is not None
    assert (await world.cycle()).queued == 1, "its dependent follows"
    assert len(world.entries("after")) == 1


async def test_two_workers_of_one_host_and_process_have_a_lease_each(world: World) -> None:
    await register(world)
    await register(world, "worker-2")
    await queue(world, '"first"', '"second"')
    (first,) = await world.claim(limit=1)
    (second,) = await world.claim(worker_id="worker-2", limit=1)
    world.advance(seconds=10)
    assert await renew(world, "worker-2") == "running"
    world.advance(seconds=5)

    assert await world.database.read(find_silent_workers()) == (WORKER,)
    reaped = await world.database.run(reap_lost([WORKER, "worker-2"], REAP))

    assert reaped.runs == 1
    states = {run.id: (run_row(world, run.id) or {})["train_state"] for run in (first, second)}
    assert states == {first.id: "failed", second.id: "in_progress"}


async def test_a_server_that_starts_leaves_the_runs_of_the_others_alone(
    migrated_url: str, world: World
) -> None:
    await register(world)
    await world.seed(manifest())
    await world.cycle()
    (theirs,) = await world.claim()
    world.advance(minutes=30)
    assert await world.database.read(find_silent_workers()) == (WORKER,), "nobody has judged them yet"
    await register(world, "worker-2")
    await queue(world)
    (alive,) = await world.claim(worker_id="worker-2")

    # a lease that has run out is believed after a heartbeat of answers, here a minute: not at the start
    app = Gandy(OWNER, migrated_url, worker={"heartbeat_every": "1m", "lease_for": "2m"})
    app.use_clock(world.clock)

    @app.train
    def sell() -> str:
        return "sold"

    async with app:
        stop = asyncio.Event()
        working = asyncio.create_task(app.work(stop))
        assert await (await app.enqueue(sell)).result(timeout=20) == "sold"
        stop.set()
        await working

        for run in (theirs, alive):
            row = run_row(world, run.id)
            assert row is not None
            assert (row["train_state"], row["fence"]) == ("in_progress", run.fence)


class Shop:
    """An application with one train that waits, and what its hooks heard."""

    def __init__(self, url: str, **settings: dict[str, object]) -> None:
        self.app = Gandy(OWNER, url, **settings)
        self.heard: list[tuple[str, int]] = []
        self.begun = asyncio.Event()
        self.app.train(self.wait_for_ever)
        for name in ("started", "completed", "failed", "cancelled", "dead_lettered"):
            self.app.on(name)(self.hear)

    async def wait_for_ever(self, run: Run) -> None:
        run.log.info("waiting")
        self.begun.set()
        await asyncio.Event().wait()

    def hear(self, event: HookEvent) -> None:
        self.heard.append((event.name, event.run_id))


def ended(world: World, run_id: int) -> dict[str, Any] | None:
    row = run_row(world, run_id)
    return row if row is not None and row["end_time"] is not None else None


async def test_the_end_of_a_run_that_was_cancelled_in_a_worker_is_recorded(
    migrated_url: str, world: World
) -> None:
    shop = Shop(migrated_url)
    async with shop.app, shop.app.running(services=("worker",)):
        job = await shop.app.enqueue(shop.wait_for_ever)
        await shop.begun.wait()
        await world.database.run(cancel_jobs([job.id], SPANS, owners=OWNERS))

        async def is_over() -> bool:
            return ended(world, job.id) is not None

        await eventually(is_over, "the end is on record")

    row = ended(world, job.id)
    assert row is not None
    assert (row["train_state"], row["cancellation_reason"]) == ("cancelled", "operator")
    assert world.rows("SELECT message FROM log WHERE metadata_id = ?", job.id)[0]["message"] == "waiting"
    assert shop.heard == [("started", job.id), ("cancelled", job.id)]


async def test_the_end_of_a_run_that_a_shutdown_cancelled_is_recorded_and_it_is_queued_again(
    migrated_url: str, world: World
) -> None:
    shop = Shop(migrated_url, worker={"shutdown_grace": timedelta(0)})
    async with shop.app, shop.app.running(services=("worker",)):
        job = await shop.app.enqueue(shop.wait_for_ever)
        await shop.begun.wait()

    row = ended(world, job.id)
    assert row is not None
    assert (row["train_state"], row["failure_exception"]) == ("failed", "Interrupted")
    (again,) = world.rows("SELECT attempt, failures, retry_of FROM work_queue WHERE status = 'queued'")
    assert (again["attempt"], again["failures"], again["retry_of"]) == (2, 0, job.id)
    assert shop.heard == [("started", job.id), ("failed", job.id)]


@pytest.mark.parametrize("is_taken", [False, True], ids=["owned", "taken-by-another"])
async def test_hooks_hear_of_an_end_once_and_only_from_who_owns_it(
    migrated_url: str, world: World, *, is_taken: bool
) -> None:
    app = Gandy(OWNER, migrated_url)
    app.use_clock(world.clock)
    await register(world, "another")
    heard: list[str] = []
    app.on("completed")(lambda event: heard.append(event.name))
    app.on("failed")(lambda event: heard.append(event.name))

    @app.train
    def sell(run: Run) -> None:
        if is_taken:
            world.rows("UPDATE work_queue SET fence = fence + 1, worker_id = 'another' WHERE id = ?", run.id)

    async with app:
        job = await app.enqueue(sell)
        await app.work(asyncio.Event(), until_idle=True)
        await app.work(asyncio.Event(), until_idle=True)

    row = run_row(world, job.id)
    assert row is not None
    assert (row["train_state"], heard) == (("in_progress", []) if is_taken else ("completed", ["completed"]))


async def test_a_job_that_keeps_its_task_cannot_cancel_the_next_job_of_its_slot(migrated_url: str) -> None:
    app = Gandy(OWNER, migrated_url, worker={"slots": 1})
    kept: list[asyncio.Task[object]] = []

    @app.train
    async def keep() -> None:
        task = asyncio.current_task()
        assert task is not None
        kept.append(task)

    @app.train(retry=False)
    async def innocent() -> str:
        for task in kept:
            task.cancel()
        await asyncio.sleep(0)
        return "done"

    async with app:
        await app.enqueue(keep)
        job = await app.enqueue(innocent)
        await app.work(asyncio.Event(), until_idle=True)
        assert await job.result(timeout=10) == "done"
