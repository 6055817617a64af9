from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from gandy.model.manifest import GroupDeclaration
from gandy.model.run import TrainState
from gandy.store.dispatching import claim_pending, dispatch
from gandy.store.finishing import finish_runs
from gandy.store.queueing import hold_unknown
from gandy.store.reaping import put_back
from gandy.store.workers import WorkerRegistration, register_worker
from tests.store.work import (
    RULES,
    TRAINS,
    WORKER,
    ask,
    count,
    ended,
    entry,
    gates,
    ids_of,
    queue,
    run_row,
    second_connection,
    unique,
)
from tests.support.world import OWNER, START, manifest

if TYPE_CHECKING:
    from tests.support.world import World


async def test_a_claimed_entry_is_a_run_in_progress_of_that_worker_with_its_deadline(world: World) -> None:
    queued = await queue(world, timeout=timedelta(seconds=90))
    world.advance(seconds=10)

    (run,) = (await world.database.run(dispatch(ask()))).runs

    row = run_row(world, run.id)
    assert row is not None
    assert run.id == queued.ids[0]
    assert (row["train_state"], row["worker_id"], row["fence"]) == ("in_progress", WORKER, run.fence)
    assert world.instant(row["start_time"]) == run.started_at == START + timedelta(seconds=10)
    assert world.instant(row["deadline_at"]) == START + timedelta(seconds=100)
    assert run.timeout_seconds == 90.0
    assert (entry(world, run.id)["status"], entry(world, run.id)["metadata_id"]) == ("dispatched", run.id)


async def test_every_claim_has_a_higher_fence(world: World) -> None:
    await queue(world, None, None)

    first = await world.database.run(dispatch(ask(limit=1)))
    second = await world.database.run(dispatch(ask(limit=1)))

    assert second.runs[0].fence > first.runs[0].fence


async def test_the_deadline_of_a_pending_run_counts_from_its_real_start(world: World) -> None:
    await queue(world, timeout=timedelta(minutes=1))
    (pending,) = (await world.database.run(dispatch(ask(worker_id=None)))).runs
    waiting = run_row(world, pending.id)
    assert waiting is not None
    assert waiting["train_state"] == "pending"
    world.advance(hours=1)

    (run,) = (await world.database.run(claim_pending(ask()))).runs

    row = run_row(world, run.id)
    assert row is not None
    assert world.instant(row["deadline_at"]) == START + timedelta(hours=1, minutes=1)
    assert world.instant(row["start_time"]) == run.started_at == START + timedelta(hours=1)
    assert world.instant(row["created_at"]) == START
    assert run.timeout_seconds == 60.0


async def test_a_pending_run_is_claimed_once_and_only_by_who_knows_its_train(world: World) -> None:
    queued = await queue(world)
    await world.database.run(dispatch(ask(worker_id=None)))

    stranger = await world.database.run(claim_pending(ask(trains=("Other",))))
    first = await world.database.run(claim_pending(ask(worker_id="a")))
    second = await world.database.run(claim_pending(ask(worker_id="b")))

    assert (stranger.runs, first.ids, second.runs) == ((), queued.ids, ())


async def test_the_order_is_group_priority_then_rank_then_age(world: World) -> None:
    await world.seed(
        groups=(GroupDeclaration(name="front", priority=9), GroupDeclaration(name="back", priority=1))
    )
    back_old = await queue(world, group="back", priority=0)
    back_high = await queue(world, group="back", priority=30)
    front_low = await queue(world, group="front", priority=0)
    front_high = await queue(world, group="front", priority=20)
    front_high_later = await queue(world, group="front", priority=20)

    claimed = [(await world.database.run(dispatch(ask(limit=1)))).ids[0] for _ in range(5)]

    expected = (front_high, front_high_later, front_low, back_high, back_old)
    assert claimed == [queued.ids[0] for queued in expected]


async def test_a_full_group_is_passed_over_and_the_others_go_on(world: World) -> None:
    await world.seed(groups=(GroupDeclaration(name="capped", priority=9, max_active_jobs=2),))
    capped = await queue(world, None, None, None, group="capped")
    free = await queue(world, None, None)

    first = await world.database.run(dispatch(ask()))
    second = await world.database.run(dispatch(ask()))

    assert first.ids == (*capped.ids[:2], *free.ids)
    assert second.ids == ()


@pytest.mark.parametrize("as_dispatcher", [False, True])
async def test_a_group_at_its_cap_starts_one_when_one_ends(world: World, as_dispatcher: bool) -> None:
    worker_id = None if as_dispatcher else WORKER
    await world.seed(groups=(GroupDeclaration(name="capped", max_active_jobs=1),))
    queued = await queue(world, None, None, group="capped")
    dispatched = await world.database.run(dispatch(ask(worker_id=worker_id)))
    (run,) = (await world.database.run(claim_pending(ask()))).runs if as_dispatcher else dispatched.runs
    assert (await world.database.run(dispatch(ask(worker_id=worker_id)))).ids == ()

    await world.database.run(finish_runs([ended(run)], RULES))

    assert (await world.database.run(dispatch(ask(worker_id=worker_id)))).ids == queued.ids[1:]


async def test_who_cannot_lock_a_capped_group_leaves_it_to_who_has_it(world: World) -> None:
    await world.seed(groups=(GroupDeclaration(name="capped", max_active_jobs=3),))
    queued = await queue(world, *[None] * 6, group="capped")
    if world.database.dialect == "sqlite":  # one writer at a time: nothing can overlap
        assert (await world.database.run(dispatch(ask()))).ids == queued.ids[:3]
        return
    other = await second_connection(world)
    async with world.database.transaction() as transaction:
        first = await transaction.run(dispatch(ask()))
        meanwhile = await other.run(dispatch(ask(worker_id="worker-2")))
    afterwards = await other.run(dispatch(ask(worker_id="worker-2")))
    await other.close()

    assert first.ids == queued.ids[:3]
    assert (meanwhile.ids, afterwards.ids) == ((), ())


async def test_two_connections_that_claim_at_once_share_the_queue_without_overlap(world: World) -> None:
    queued = await queue(world, *[None] * 10)
    if world.database.dialect == "sqlite":
        assert (await world.database.run(dispatch(ask(limit=4)))).ids == queued.ids[:4]
        return
    other = await second_connection(world)
    async with world.database.transaction() as transaction:
        first = await transaction.run(dispatch(ask(limit=4)))
        second = await other.run(dispatch(ask(limit=4, worker_id="worker-2")))
    await other.close()

    assert first.ids == queued.ids[:4]
    assert second.ids == queued.ids[4:8]


async def test_the_global_cap_stops_and_counts_what_is_pending_too(world: World) -> None:
    queued = await queue(world, *[None] * 5)

    pending = await world.database.run(dispatch(ask(worker_id=None, max_active_jobs=2)))
    more = await world.database.run(dispatch(ask(max_active_jobs=3)))
    none = await world.database.run(dispatch(ask(max_active_jobs=3)))

    assert (pending.ids, more.ids, none.ids) == (queued.ids[:2], queued.ids[2:3], ())


async def test_the_dispatcher_takes_at_most_its_share_of_one_group(world: World) -> None:
    queued = await queue(world, *[None] * 7)

    dispatched = await world.database.run(dispatch(ask(worker_id=None, per_group=5)))

    assert dispatched.ids == queued.ids[:5]


async def test_a_deep_group_does_not_hide_the_others(world: World) -> None:
    await queue(world, *[None] * 200, group="deep")
    others = [(await queue(world, group=f"shallow-{number}")).ids[0] for number in range(9)]

    claimed = await world.database.run(dispatch(ask(limit=50)))

    assert set(others) <= set(claimed.ids)


async def test_what_shallow_groups_leave_goes_to_the_deep_one(world: World) -> None:
    await queue(world, *[None] * 200, group="deep")
    for number in range(9):
        await queue(world, group=f"shallow-{number}")

    claimed = await world.database.run(dispatch(ask(limit=50)))

    assert len(claimed.runs) == len(set(claimed.ids)) == 50


async def test_a_disabled_group_runs_only_what_an_operator_triggered(world: World) -> None:
    await world.seed(groups=(GroupDeclaration(name="off", is_enabled=False),))
    waiting = await queue(world, None, None, group="off")
    world.rows("UPDATE work_queue SET origin = 'trigger' WHERE id = ?", waiting.ids[1])

    claimed = await world.database.run(dispatch(ask()))

    assert claimed.ids == waiting.ids[1:]
    assert entry(world, waiting.ids[0])["gate"] == "open"


async def test_an_unknown_train_stands_in_nobodys_way(world: World) -> None:
    unknown = await queue(world, *[None] * 5, train="Elsewhere", priority=31)
    known = await queue(world)

    assert await world.database.run(hold_unknown(OWNER, TRAINS)) == 5
    claimed = await world.database.run(dispatch(ask(limit=1)))

    assert claimed.ids == known.ids
    assert gates(world) == ["train"] * 5
    assert count(world, "work_queue", "status = 'queued'") == len(unknown.ids)


async def test_a_worker_that_knows_the_train_lets_its_entries_in(world: World) -> None:
    unknown = await queue(world, train="Elsewhere")
    await world.database.run(hold_unknown(OWNER, TRAINS))

    worker = WorkerRegistration(
        id="new", owner=OWNER, host="h", pid=1, version="1", slots=1, trains=("Elsewhere",)
    )
    await world.database.run(register_worker(worker, 30.0))

    assert (await world.database.run(dispatch(ask(trains=("Elsewhere",))))).ids == unknown.ids


async def test_entries_of_another_owner_are_left_alone(world: World) -> None:
    await queue(world, owner="other")

    assert (await world.database.run(dispatch(ask()))).ids == ()


async def test_the_dispatcher_leaves_young_entries_to_the_workers(world: World) -> None:
    queued = await queue(world)

    young = await world.database.run(dispatch(ask(worker_id=None, min_age_seconds=2.0)))
    world.advance(seconds=2)
    old = await world.database.run(dispatch(ask(worker_id=None, min_age_seconds=2.0)))

    assert (young.ids, old.ids) == ((), queued.ids)


async def test_put_back_restores_the_entry_exactly(world: World) -> None:
    queued = await queue(world, '"x"', priority=4, uniqueness=unique("k", until="start"))
    before = entry(world, queued.ids[0])
    (run,) = (await world.database.run(dispatch(ask()))).runs
    assert count(world, "unique_key") == 0

    assert await world.database.run(put_back([run.id], WORKER)) == 1

    assert entry(world, run.id) == before
    assert run_row(world, run.id) is None
    assert (await queue(world, uniqueness=unique("k", until="start"))).ids == queued.ids


async def test_put_back_keeps_a_key_that_is_held_until_success(world: World) -> None:
    uniqueness = unique("k", until="success", keep_for=timedelta(hours=1))
    queued = await queue(world, uniqueness=uniqueness)
    before = world.rows("SELECT * FROM unique_key")
    (run,) = (await world.database.run(dispatch(ask()))).runs

    await world.database.run(put_back([run.id], WORKER))

    assert world.rows("SELECT * FROM unique_key") == before
    assert before[0]["holder_id"] == queued.ids[0]


async def test_only_the_owner_puts_back(world: World) -> None:
    await queue(world)
    (run,) = (await world.database.run(dispatch(ask()))).runs

    assert await world.database.run(put_back([run.id], "somebody else")) == 0

    assert entry(world, run.id)["status"] == "dispatched"
    assert run_row(world, run.id) is not None


async def test_a_put_back_run_cannot_be_finished_and_runs_again(world: World) -> None:
    await queue(world)
    (run,) = (await world.database.run(dispatch(ask()))).runs
    await world.database.run(put_back([run.id], WORKER))

    late = await world.database.run(finish_runs([ended(run)], RULES))
    (again,) = (await world.database.run(dispatch(ask()))).runs
    stale = await world.database.run(finish_runs([ended(run)], RULES))
    result = await world.database.run(finish_runs([ended(again)], RULES))

    assert (late.refused, stale.refused, result.refused) == ((run.id,), (run.id,), ())
    assert again.id == run.id
    assert again.fence > run.fence


async def test_put_back_leaves_the_manifest_idle(world: World) -> None:
    await world.seed(manifest())
    await world.cycle()
    (run,) = await world.claim()
    assert world.manifest()["active_run_id"] == run.id

    await world.database.run(put_back([run.id], "worker-1"))

    assert world.manifest()["active_run_id"] is None
    assert [again.id for again in await world.claim()] == [run.id]


async def test_a_claim_that_finds_nothing_takes_no_fence_from_what_runs(world: World) -> None:
    await queue(world)
    (run,) = (await world.database.run(dispatch(ask()))).runs

    nothing = await world.database.run(dispatch(ask(worker_id="worker-2")))
    result = await world.database.run(finish_runs([ended(run, TrainState.COMPLETED)], RULES))

    assert ids_of(nothing.runs) == []
    assert result.refused == ()
