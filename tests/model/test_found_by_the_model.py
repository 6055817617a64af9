"""What random lives have found, each told once in the plainest way."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from gandy.model.run import TrainState
from gandy.model.schedule import Interval, Manual, MisfirePolicy
from gandy.scheduler.repair import repair_hints
from gandy.store.dispatching import DispatchRequest, claim_pending, dispatch
from gandy.store.overriding import override_manifest
from gandy.store.queueing import EnqueueRequest, enqueue
from gandy.store.workers import WorkerRegistration, register_worker
from tests.support.world import OWNER, START, manifest, open_world

if TYPE_CHECKING:
    from tests.support.world import World

REQUEST = DispatchRequest(
    owner=OWNER,
    trains=("Sell",),
    limit=10,
    per_group=10,
    default_timeout_seconds=1200.0,
    worker_id="frozen",
)


async def test_a_worker_that_was_found_lost_claims_nothing_more(world: World) -> None:
    worker = WorkerRegistration(
        id="frozen", owner=OWNER, host="here", pid=1, version="1", slots=5, trains=["Sell"]
    )
    await world.database.run(register_worker(worker, lease_seconds=15))
    request = EnqueueRequest(owner=OWNER, train="Sell", inputs=[None, None], input_type_name="Item")
    first, second = (await world.database.run(enqueue(request))).ids
    world.advance(seconds=16)
    await world.cycle(trusts_leases=True)
    assert world.rows("SELECT state FROM worker") == [{"state": "lost"}]

    # thawed, it asks for work before it has noticed
    assert (await world.database.run(dispatch(REQUEST))).runs == ()
    assert {run.id for run in await world.claim("Sell", worker_id=None)} == {first, second}
    assert (await world.database.run(claim_pending(REQUEST))).runs == ()

    another = replace(REQUEST, worker_id="alive")
    assert {run.id for run in (await world.database.run(claim_pending(another))).runs} == {first, second}


async def test_catching_up_behind_a_long_run_needs_no_look_before_that_run_has_ended(world: World) -> None:
    schedule = Interval(timedelta(minutes=1))
    await world.seed(manifest(schedule=schedule, misfire_policy=MisfirePolicy.CATCH_UP))
    await world.cycle()
    (run,) = await world.claim()
    world.advance(minutes=2)
    await world.cycle()
    assert world.manifest()["next_look_at"] is None, "it waits for the run"

    world.advance(hours=5)  # more instants than are made up for
    assert (await repair_hints(world.database, page=10, is_requested=True)).repaired == 0

    await world.finish(run)
    await world.cycle()
    assert world.verdicts()[1:] == [("skipped", "misfired", 200), ("queued", None, 1)]


async def test_a_limit_that_was_lowered_below_the_failures_so_far_parks_the_manifest_at_once(
    world: World,
) -> None:
    await world.seed(manifest(schedule=Manual(), max_retries=5, retry_delay=timedelta(0)))
    world.rows("UPDATE manifest SET failure_count = 2")
    await world.database.run(override_manifest("report", {"max_retries": 2}, owner=OWNER))

    result = await world.cycle()

    assert [letter.manifest for letter in result.parked] == ["report"]


async def test_a_job_that_was_never_retried_is_parked_when_it_is_to_be_from_now_on(world: World) -> None:
    declared = manifest(schedule=Interval(timedelta(hours=1)), is_retried=False, max_retries=1)
    await world.seed(declared)
    await world.cycle()
    await world.finish(*(await world.claim()), state=TrainState.FAILED)
    assert (await world.cycle()).parked == ()

    await world.seed(replace(declared, is_retried=True))

    assert [letter.manifest for letter in (await world.cycle()).parked] == ["report"]


async def test_a_clock_that_jumps_back_decides_nothing_twice(migrated_url: str, world: World) -> None:
    await world.seed(manifest(schedule=Interval(timedelta(minutes=5))))
    world.advance(minutes=11)
    await world.cycle()
    await world.succeed()
    before, cursor = world.verdicts(), world.manifest()["next_scheduled_run"]

    earlier = await open_world(migrated_url, START + timedelta(minutes=2))
    for _ in range(2):
        await earlier.cycle()
        earlier.advance(minutes=5)
    await earlier.database.close()

    assert world.verdicts() == before
    assert world.manifest()["next_scheduled_run"] == cursor
