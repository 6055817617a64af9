from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Literal
from uuid import UUID

import pytest

from gandy.model.manifest import GroupDeclaration
from gandy.store.dispatching import claim_pending, dispatch
from gandy.store.finishing import finish_runs
from gandy.store.queueing import EnqueueRequest, enqueue, next_due, open_due, uniqueness_key
from tests.store.work import (
    ONE,
    RULES,
    TRAIN,
    ask,
    count,
    ended,
    entry,
    failed,
    gates,
    is_somebody_waiting,
    queue,
    run_row,
    second_connection,
    unique,
)
from tests.support.waiting import eventually
from tests.support.world import OWNER, START

if TYPE_CHECKING:
    from gandy.store.queueing import Enqueued
    from tests.support.world import World


async def test_a_job_keeps_its_input_its_policy_and_the_instant_it_was_asked_for(world: World) -> None:
    queued = await queue(
        world,
        '{"sku": 1}',
        max_retries=5,
        is_retried=True,
        retry_delay=timedelta(seconds=7),
        timeout=timedelta(minutes=2),
        priority=3,
    )

    row = entry(world, queued.ids[0])
    assert (row["train_name"], row["owner"], row["origin"], row["attempt"]) == (TRAIN, OWNER, "ad_hoc", 1)
    assert (row["max_retries"], row["retry_delay_seconds"], row["timeout_seconds"]) == (5, 7.0, 120.0)
    assert (row["priority"], row["rank"], row["gate"], row["status"]) == (3, 3, "open", "queued")
    assert world.instant(row["due_at"]) == world.instant(row["scheduled_at"]) == START


async def test_each_job_has_an_external_id_of_its_own_which_its_run_keeps(world: World) -> None:
    queued = [*(await queue(world, *["1"] * 3)).ids, *(await queue(world, *["1"] * 3)).ids]

    rows = world.rows("SELECT id, external_id FROM work_queue ORDER BY id")
    external = {row["id"]: str(row["external_id"]) for row in rows}
    (run,) = (await world.database.run(dispatch(ask(limit=1)))).runs
    await world.database.run(finish_runs([ended(run)], RULES))

    assert list(external) == queued
    assert len({UUID(each) for each in external.values()}) == 6
    (kept,) = world.rows("SELECT external_id FROM history")
    assert str(kept["external_id"]) == external[run.id]


async def test_many_jobs_get_ids_in_the_order_of_their_inputs(world: World) -> None:
    queued = await queue(world, *(f'"{number}"' for number in range(12)))

    rows = world.rows("SELECT id, CAST(input AS text) AS input FROM work_queue ORDER BY id")
    assert [row["id"] for row in rows] == list(queued.ids)
    assert [row["input"] for row in rows] == [f'"{number}"' for number in range(12)]


async def test_texts_that_a_database_could_misread_come_back_as_they_were(world: World) -> None:
    texts = ['"{a,b}"', '"NULL"', '"say \\"hi\\""', '"back\\\\slash"', '"ünï 🚂"', '{"a": [null, "", "\'"]}']

    await queue(world, *texts)

    claimed = await world.database.run(dispatch(ask()))
    assert [run.input_json for run in claimed.runs] == texts


async def test_a_job_with_a_text_that_no_column_can_hold_is_queued_once_like_those_before_it(
    world: World,
) -> None:
    queued = await queue(world, '"a"', '"\ud800"', '"b"')

    assert len(set(queued.ids)) == count(world, "work_queue") == 3


async def test_a_delayed_job_waits_for_its_instant(world: World) -> None:
    queued = await queue(world, delay=timedelta(seconds=30))

    assert gates(world) == ["time"]
    assert await world.database.read(next_due(OWNER)) == 30.0
    assert await world.database.run(open_due(OWNER)) == 0
    world.advance(seconds=30)
    assert await world.database.run(open_due(OWNER)) == 1
    assert (await world.database.run(dispatch(ask()))).ids == queued.ids


async def test_an_application_opens_its_own_delayed_jobs_and_sleeps_until_its_own(world: World) -> None:
    await queue(world, owner="neighbour", delay=timedelta(seconds=10))
    await queue(world, delay=timedelta(seconds=30))

    assert await world.database.read(next_due(OWNER)) == 30.0
    world.advance(seconds=30)
    assert await world.database.run(open_due(OWNER)) == 1
    assert gates(world) == ["time", "open"]
    assert await world.database.read(next_due(OWNER)) is None
    assert await world.database.run(open_due("neighbour")) == 1


async def test_a_job_takes_its_groups_priority_unless_it_names_one(world: World) -> None:
    await world.seed(groups=(GroupDeclaration(name="front", priority=9),))

    of_group = await queue(world, group="front")
    own = await queue(world, group="front", priority=2)

    assert entry(world, of_group.ids[0])["priority"] == 9
    assert entry(world, own.ids[0])["priority"] == 2


async def test_a_group_that_nobody_declared_is_made_once(world: World) -> None:
    await queue(world, group="new")
    await queue(world, group="new")

    assert count(world, "manifest_group", "name = 'new'") == 1


async def test_a_key_that_is_held_answers_with_its_holder(world: World) -> None:
    first = await queue(world, '"a"', uniqueness=unique("k"))
    second = await queue(world, '"b"', uniqueness=unique("k"))

    assert second.ids == first.ids
    assert (first.existing, second.existing) == (frozenset(), frozenset(first.ids))
    assert count(world, "work_queue") == 1


async def test_one_key_twice_in_a_call_is_one_job_with_the_first_input(world: World) -> None:
    queued = await queue(world, '"first"', '"other"', '"late"', uniqueness=unique("k", "o", "k"))

    assert queued.ids[0] == queued.ids[2] != queued.ids[1]
    assert queued.existing == frozenset()
    claimed = await world.database.run(dispatch(ask()))
    assert {run.id: run.input_json for run in claimed.runs} == {
        queued.ids[0]: '"first"',
        queued.ids[1]: '"other"',
    }


async def test_a_key_until_start_is_free_once_the_run_starts(world: World) -> None:
    first = await queue(world, uniqueness=unique("k", until="start"))
    await world.database.run(dispatch(ask()))

    second = await queue(world, uniqueness=unique("k", until="start"))

    assert second.ids != first.ids
    assert second.existing == frozenset()


async def test_a_key_until_success_is_kept_through_retries_and_free_after_the_success(world: World) -> None:
    first = await queue(world, uniqueness=unique("k", until="success"), retry_delay=timedelta(0))
    (run,) = (await world.database.run(dispatch(ask()))).runs
    await world.database.run(finish_runs([failed(run, retry_delay=timedelta(0))], RULES))
    while_retrying = await queue(world, uniqueness=unique("k", until="success"))
    (retry,) = (await world.database.run(dispatch(ask()))).runs
    await world.database.run(finish_runs([ended(retry)], RULES))
    afterwards = await queue(world, uniqueness=unique("k", until="success"))

    assert while_retrying.ids == (retry.id,)
    assert retry.id not in first.ids
    assert afterwards.ids != while_retrying.ids
    assert afterwards.existing == frozenset()


async def test_a_key_is_free_once_its_job_was_parked(world: World) -> None:
    await queue(world, uniqueness=unique("k", until="success"), max_retries=1)
    (run,) = (await world.database.run(dispatch(ask()))).runs
    result = await world.database.run(finish_runs([failed(run)], RULES))

    assert result.parked == (run.id,)
    assert count(world, "unique_key") == 0


async def test_the_first_enqueue_after_unique_for_takes_the_key_over(world: World) -> None:
    uniqueness = unique("k", until="success", keep_for=timedelta(hours=1))
    first = await queue(world, uniqueness=uniqueness)
    world.advance(minutes=59)
    assert (await queue(world, uniqueness=uniqueness)).ids == first.ids

    world.advance(minutes=1)
    second = await queue(world, uniqueness=uniqueness)
    third = await queue(world, uniqueness=uniqueness)

    assert second.ids != first.ids
    assert third.ids == second.ids


async def test_the_end_of_a_job_whose_key_was_taken_over_frees_nothing(world: World) -> None:
    uniqueness = unique("k", until="success", keep_for=timedelta(hours=1))
    await queue(world, uniqueness=uniqueness)
    (run,) = (await world.database.run(dispatch(ask()))).runs
    world.advance(hours=2)
    second = await queue(world, uniqueness=uniqueness)

    await world.database.run(finish_runs([ended(run)], RULES))

    assert (await queue(world, uniqueness=uniqueness)).ids == second.ids


@pytest.mark.parametrize("until", ["start", "success"])
@pytest.mark.parametrize("is_over", [False, True], ids=["held", "over"])
async def test_a_callers_open_transaction_holds_up_neither_the_claim_nor_the_end_of_the_holder(
    world: World, until: Literal["start", "success"], *, is_over: bool
) -> None:
    uniqueness = unique("k", until=until, keep_for=timedelta(hours=1))
    queued = await queue(world, uniqueness=uniqueness)
    if world.database.dialect == "sqlite":  # one writer at a time: a caller who stays is told so by SQLite
        assert (await world.database.run(dispatch(ask()))).ids == queued.ids
        return
    if is_over:
        world.advance(hours=2)
    caller = await second_connection(world)
    async with asyncio.timeout(30), caller.transaction() as transaction:
        again = await transaction.run(enqueue(replace(ONE, uniqueness=uniqueness)))
        assert (again.ids == queued.ids) is not is_over

        (run,) = (await world.database.run(dispatch(ask()))).runs
        result = await world.database.run(finish_runs([ended(run)], RULES))
        assert result.refused == ()
    await caller.close()


async def test_keys_of_two_owners_do_not_meet(world: World) -> None:
    ours = await queue(world, uniqueness=unique("k"))
    theirs = await queue(world, uniqueness=unique("k"), owner="other")

    assert ours.ids != theirs.ids


async def test_two_connections_that_race_for_one_key_get_one_job(world: World) -> None:
    other = await second_connection(world)
    request = EnqueueRequest(
        owner=OWNER, train=TRAIN, inputs=[None], input_type_name="Item", uniqueness=unique("k")
    )
    async with world.database.transaction() as transaction:
        first = await transaction.run(enqueue(request))
        rival = asyncio.create_task(other.run(enqueue(request)))
        if world.database.dialect == "postgres":
            await eventually(lambda: is_somebody_waiting(world), "the rival waits for the key")
    second = await rival
    await other.close()

    assert second.ids == first.ids
    assert second.existing == frozenset(first.ids)
    assert count(world, "work_queue") == 1


async def test_a_key_whose_first_taker_rolled_back_goes_to_the_rival(world: World) -> None:
    other = await second_connection(world)
    request = EnqueueRequest(
        owner=OWNER, train=TRAIN, inputs=[None], input_type_name="Item", uniqueness=unique("k")
    )
    rivals: list[asyncio.Task[Enqueued]] = []

    async def take_and_roll_back() -> None:
        async with world.database.transaction() as transaction:
            await transaction.run(enqueue(request))
            rivals.append(asyncio.create_task(other.run(enqueue(request))))
            if world.database.dialect == "postgres":
                await eventually(lambda: is_somebody_waiting(world), "the rival waits for the key")
            raise LookupError

    with pytest.raises(LookupError):
        await take_and_roll_back()
    second = await rivals[0]
    await other.close()

    assert second.existing == frozenset()
    assert count(world, "work_queue") == count(world, "unique_key") == 1


async def test_a_key_until_start_is_free_when_a_worker_takes_the_pending_run_not_before(world: World) -> None:
    uniqueness = unique("k", until="start")
    first = await queue(world, uniqueness=uniqueness)
    await world.database.run(dispatch(ask(worker_id=None)))
    pending = run_row(world, first.ids[0])
    assert pending is not None
    assert pending["train_state"] == "pending"
    assert (await queue(world, uniqueness=uniqueness)).ids == first.ids

    await world.database.run(claim_pending(ask()))

    assert (await queue(world, uniqueness=uniqueness)).ids != first.ids


def test_the_key_of_a_long_input_is_short_and_still_tells_inputs_apart() -> None:
    long_input, other_input = '"' + "x" * 5_000 + '"', '"' + "x" * 4_999 + 'y"'

    keys = {
        uniqueness_key(TRAIN, long_input),
        uniqueness_key(TRAIN, other_input),
        uniqueness_key(TRAIN, '"x"'),
    }

    assert len(keys) == 3
    assert max(map(len, keys)) <= 200
