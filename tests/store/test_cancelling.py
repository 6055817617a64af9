from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from gandy.errors import ManifestNotFoundError
from gandy.model.run import EndedBy, RunEnd, TrainState
from gandy.model.schedule import MisfirePolicy
from gandy.store.cancelling import (
    CancelResult,
    begin_group_walk,
    cancel_jobs,
    find_manifest_jobs,
    next_group_jobs,
)
from gandy.store.dispatching import DispatchRequest, claim_pending, dispatch
from gandy.store.finishing import FinishRules, finish_runs
from gandy.store.queueing import EnqueueRequest, Uniqueness, enqueue, trigger
from gandy.store.reaping import ReapRules, cancel_timed_out, put_back
from gandy.store.runs import read_cancellations
from gandy.store.workers import WorkerRegistration, register_worker
from tests.support.reaping import reap_lost
from tests.support.world import OWNER, OWNERS, SPANS, WORKER, manifest, open_world

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from gandy.model.run import ClaimedRun
    from gandy.store.drivers.database import Database
    from tests.support.world import World

TRAIN = "SendInvoice"


def request(worker_id: str | None, *, limit: int = 100) -> DispatchRequest:
    return DispatchRequest(
        owner=OWNER,
        trains=[TRAIN, "MakeReport"],
        limit=limit,
        per_group=limit,
        default_timeout_seconds=60.0,
        worker_id=worker_id,
    )


async def queue(world: World, count: int = 1, *, key: str | None = None, group: str = "default") -> list[int]:
    uniqueness = None if key is None else Uniqueness(keys=[key], until="success")
    asked = EnqueueRequest(
        owner=OWNER,
        train=TRAIN,
        inputs=['{"n":1}'] * count,
        input_type_name="Invoice",
        group=group,
        uniqueness=uniqueness,
    )
    return list((await world.database.run(enqueue(asked))).ids)


async def cancel(world: World, *ids: int) -> CancelResult:
    return await world.database.run(cancel_jobs(ids, SPANS, owners=OWNERS))


async def make_pending(world: World) -> list[ClaimedRun]:
    return list((await world.database.run(dispatch(request(None)))).runs)


def status(world: World, entry_id: int) -> str:
    (row,) = world.rows("SELECT status FROM work_queue WHERE id = ?", entry_id)
    return str(row["status"])


def state(world: World, run_id: int) -> str | None:
    rows = world.rows("SELECT train_state FROM metadata WHERE id = ?", run_id)
    return rows[0]["train_state"] if rows else None


@asynccontextmanager
async def other_connection(world: World) -> AsyncIterator[Database]:
    other = await open_world(world.url, world.clock.now)
    yield other.database
    await other.database.close()


async def test_a_queued_entry_is_cancelled_and_never_runs(world: World) -> None:
    (entry,) = await queue(world)

    result = await cancel(world, entry)

    assert result == CancelResult(cancelled=(entry,))
    assert status(world, entry) == "cancelled"
    assert await world.claim() == []


async def test_a_cancelled_entry_frees_its_key(world: World) -> None:
    (entry,) = await queue(world, key="invoice 7")
    assert await queue(world, key="invoice 7") == [entry]

    await cancel(world, entry)

    assert await queue(world, key="invoice 7") != [entry]


async def test_a_pending_run_ends_cancelled_in_history_and_frees_its_manifest(world: World) -> None:
    await world.seed(manifest())
    await world.cycle()
    (run,) = await make_pending(world)
    assert world.manifest()["active_run_id"] == run.id

    result = await cancel(world, run.id)

    assert result == CancelResult(cancelled=(run.id,))
    assert state(world, run.id) == "cancelled"
    row = world.manifest()
    assert (row["active_run_id"], row["failure_count"]) == (None, 0)
    assert (await world.database.run(claim_pending(request(WORKER)))).runs == ()


async def test_a_pending_run_that_is_cancelled_frees_its_key(world: World) -> None:
    (entry,) = await queue(world, key="invoice 7")
    await make_pending(world)

    await cancel(world, entry)

    assert await queue(world, key="invoice 7") != [entry]


async def test_a_run_in_progress_is_asked_to_stop(world: World) -> None:
    (entry,) = await queue(world)
    (run,) = await world.claim()

    result = await cancel(world, entry)

    assert result == CancelResult(asked=(run.id,))
    assert state(world, run.id) == "in_progress"
    assert await world.database.read(read_cancellations([run.id])) == {run.id: "operator"}


async def test_what_is_over_and_what_never_was_are_told_apart(world: World) -> None:
    done, dropped = await queue(world), await queue(world, group="other")
    await cancel(world, *dropped)
    await world.succeed()
    assert state(world, done[0]) == "completed"

    result = await cancel(world, *done, *dropped, 999_999)

    assert result == CancelResult(over=(*done, *dropped), unknown=(999_999,))
    assert state(world, done[0]) == "completed"


async def test_a_cancelled_occurrence_is_used_up_and_the_next_one_runs(world: World) -> None:
    await world.seed(manifest())
    await world.cycle()
    (entry,) = world.entries()
    await cancel(world, entry["id"])

    await world.cycle()
    assert [row["status"] for row in world.entries()] == ["cancelled"]

    world.advance(minutes=5)
    await world.cycle()
    assert [row["status"] for row in world.entries()] == ["cancelled", "queued"]


async def test_an_occurrence_that_waited_behind_the_cancelled_one_is_queued_at_once(world: World) -> None:
    await world.seed(manifest(misfire_policy=MisfirePolicy.CATCH_UP, misfire_threshold=timedelta(hours=9)))
    await world.cycle()
    world.advance(minutes=6)
    await world.cycle()
    assert [row["status"] for row in world.entries()] == ["queued"]

    await cancel(world, world.entries()[0]["id"])
    await world.cycle()

    assert [row["status"] for row in world.entries()] == ["cancelled", "queued"]


@pytest.mark.parametrize("ended_by", [EndedBy.ITSELF, EndedBy.TIMEOUT, EndedBy.SHUTDOWN])
async def test_whatever_ends_a_run_that_an_operator_cancelled_it_is_not_tried_again(
    world: World, ended_by: EndedBy
) -> None:
    await world.seed(manifest())
    await world.cycle()
    (run,) = await world.claim()
    await cancel(world, run.id)

    result = await world.finish(run, state=TrainState.FAILED, ended_by=ended_by)

    assert (result.retried, list(result.finished)) == (0, [run.id])
    assert state(world, run.id) == "cancelled"
    assert world.manifest()["failure_count"] == 0
    assert [row["status"] for row in world.entries()] == ["dispatched"]


async def test_a_cancelled_run_that_is_lost_with_its_worker_is_not_tried_again(world: World) -> None:
    worker = WorkerRegistration(
        id=WORKER, owner=OWNER, host="here", pid=1, version="1", slots=1, trains=[TRAIN]
    )
    await world.database.run(register_worker(worker, 10.0))
    (entry,) = await queue(world)
    (run,) = await world.claim()
    await cancel(world, run.id)
    world.advance(seconds=11)

    reaped = await world.database.run(reap_lost([WORKER], ReapRules(SPANS, 10)))

    assert reaped.runs == 1
    assert state(world, entry) == "cancelled"
    assert world.rows("SELECT id FROM work_queue WHERE status = 'queued'") == []


async def test_an_operator_has_the_last_word_over_a_timeout(world: World) -> None:
    await queue(world)
    (run,) = await world.claim()
    world.advance(hours=1)
    assert await world.database.run(cancel_timed_out()) == (run.id,)

    await cancel(world, run.id)
    await world.finish(run, state=TrainState.FAILED, ended_by=EndedBy.TIMEOUT)

    assert state(world, run.id) == "cancelled"


async def test_a_run_that_completes_in_spite_of_being_asked_is_completed(world: World) -> None:
    await queue(world)
    (run,) = await world.claim()
    await cancel(world, run.id)

    await world.finish(run)

    assert state(world, run.id) == "completed"


async def test_a_worker_that_puts_a_cancelled_run_back_does_not_bring_it_back(world: World) -> None:
    kept, dropped = await queue(world, 2)
    assert len(await world.claim()) == 2
    await cancel(world, dropped)

    assert await world.database.run(put_back([kept, dropped], WORKER)) == 1

    assert (status(world, kept), status(world, dropped)) == ("queued", "cancelled")
    assert [run.id for run in await world.claim()] == [kept]


async def test_a_manifest_is_cancelled_with_its_run_and_its_waiting_entry(world: World) -> None:
    await world.seed(manifest())
    await world.cycle()
    (run,) = await world.claim()
    waiting = await world.database.run(trigger("report", owner=OWNER))

    ids = await world.database.run(find_manifest_jobs("report", owner=OWNER))

    assert ids == [run.id, waiting.id]
    assert await cancel(world, *ids) == CancelResult(cancelled=(waiting.id,), asked=(run.id,))


async def test_a_manifest_that_is_not_there_is_named(world: World) -> None:
    with pytest.raises(ManifestNotFoundError, match="nowhere"):
        await world.database.run(find_manifest_jobs("nowhere", owner=OWNER))


async def test_a_walk_over_a_group_finds_what_waits_and_runs_and_nothing_that_comes_later(
    world: World,
) -> None:
    first = await queue(world, 5, group="etl")
    await world.database.run(dispatch(request(WORKER, limit=2)))
    await queue(world, 1, group="other")
    walk = await world.database.run(begin_group_walk(OWNER, "etl"))
    await queue(world, 1, group="etl")

    found = await world.database.run(next_group_jobs(walk, 100))

    assert found == first
    assert await world.database.run(next_group_jobs(walk, 2)) == first[:2]


async def test_a_cancellation_that_meets_a_claim_waits_for_it_and_asks_the_worker(world: World) -> None:
    (entry,) = await queue(world)
    async with other_connection(world) as other:
        async with other.transaction() as claiming:
            claimed = await claiming.run(dispatch(request(WORKER)))
            assert claimed.ids == (entry,)
            cancelling = asyncio.create_task(cancel(world, entry))
        result = await cancelling

    assert result == CancelResult(asked=(entry,))


async def test_a_claim_that_meets_a_cancellation_finds_nothing(world: World) -> None:
    (entry,) = await queue(world)
    async with other_connection(world) as other:
        async with other.transaction() as cancelling:
            await cancelling.run(cancel_jobs([entry], SPANS, owners=OWNERS))
            claiming = asyncio.create_task(world.database.run(dispatch(request(WORKER))))
        claimed = await claiming

    assert claimed.runs == ()
    assert status(world, entry) == "cancelled"


async def test_a_cancellation_that_meets_a_finish_changes_nothing(world: World) -> None:
    await world.seed(manifest())
    await world.cycle()
    (run,) = await world.claim()
    end = RunEnd(
        id=run.id,
        train=run.train,
        worker_id=WORKER,
        fence=run.fence,
        state=TrainState.COMPLETED,
        manifest_id=run.manifest_id,
    )
    async with other_connection(world) as other, other.transaction() as finishing:
        await finishing.run(finish_runs([end], FinishRules(OWNER, SPANS, 10)))
        cancelling = asyncio.create_task(cancel(world, run.id))
    result = await cancelling

    assert result == CancelResult(over=(run.id,))
    assert state(world, run.id) == "completed"


async def test_many_cancellations_and_claims_at_once_leave_every_job_in_one_hand(world: World) -> None:
    ids = await queue(world, 60)
    async with other_connection(world) as other:
        halves = [ids[:40], ids[20:]]
        cancels = asyncio.gather(
            *(world.database.run(cancel_jobs(half, SPANS, owners=OWNERS)) for half in halves)
        )
        claims = [other.run(dispatch(request(f"worker-{number}", limit=7))) for number in range(6)]
        claimed = await asyncio.gather(*claims)
        one, two = await cancels

    taken = {run.id for each in claimed for run in each.runs}
    dropped = [*one.cancelled, *two.cancelled]
    assert len(dropped) == len(set(dropped))
    assert taken.isdisjoint(dropped)
    queued = {row["id"] for row in world.rows("SELECT id FROM work_queue WHERE status = 'queued'")}
    assert queued == set()
    live = {row["id"] for row in world.rows("SELECT id FROM metadata WHERE train_state = 'in_progress'")}
    assert live == taken
    assert taken | set(dropped) == set(ids)
