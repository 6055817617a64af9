"""What holds an entry back, and what lets it in again, also when two connections do it at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING

import pytest

from gandy.model.run import Activation
from gandy.model.schedule import DormantDependent
from gandy.store.dispatching import dispatch
from gandy.store.finishing import finish_runs
from gandy.store.queueing import trigger
from gandy.store.reaping import put_back
from tests.store.work import (
    RULES,
    WORKER,
    add_entry,
    ask,
    ended,
    entry,
    failed,
    gates,
    is_somebody_listening,
    is_somebody_waiting,
    queue,
    second_connection,
)
from tests.support.waiting import eventually
from tests.support.world import OWNER, manifest

if TYPE_CHECKING:
    from gandy.model.run import ClaimedRun
    from tests.support.world import World


async def test_an_entry_of_an_active_manifest_waits_and_is_let_in_by_the_end_of_the_run(world: World) -> None:
    run = await _active(world)
    waiting = add_entry(world)

    held = await world.database.run(dispatch(ask()))
    assert (held.ids, held.held, gates(world)) == ((), 1, ["manifest"])
    await world.database.run(finish_runs([ended(run)], RULES))

    assert gates(world) == ["open"]
    assert (await world.database.run(dispatch(ask()))).ids == (waiting,)


async def test_at_most_one_run_of_a_manifest_is_active(world: World) -> None:
    run = await _active(world)
    add_entry(world)

    await world.database.run(dispatch(ask()))
    await world.database.run(dispatch(ask(worker_id=None)))

    assert world.manifest()["active_run_id"] == run.id
    assert len(world.rows("SELECT id FROM metadata WHERE train_state IN ('pending', 'in_progress')")) == 1


async def test_an_entry_of_a_disabled_manifest_waits_until_it_is_enabled(world: World) -> None:
    await world.seed(manifest(is_enabled=False))
    waiting = add_entry(world, origin="schedule")

    assert (await world.database.run(dispatch(ask()))).held == 1
    await world.seed(manifest(is_enabled=True))

    assert (await world.database.run(dispatch(ask()))).ids == (waiting,)


async def test_an_operators_trigger_runs_a_disabled_manifest_all_the_same(world: World) -> None:
    await world.seed(manifest(is_enabled=False))
    triggered = add_entry(world, origin="trigger")

    assert (await world.database.run(dispatch(ask()))).ids == (triggered,)


@pytest.mark.pair("orphaning", "interval")
async def test_an_entry_of_an_orphaned_manifest_waits_until_it_is_declared_again(world: World) -> None:
    await world.seed(manifest(), manifest("other"))
    waiting = add_entry(world, origin="schedule")
    await world.seed(manifest("other"))
    assert world.manifest()["orphaned_at"] is not None

    assert (await world.database.run(dispatch(ask()))).ids == ()
    assert gates(world) == ["manifest"]
    await world.seed(manifest(), manifest("other"))

    assert (await world.database.run(dispatch(ask()))).ids == (waiting,)


@pytest.mark.pair("orphaning", "interval")
async def test_the_retry_of_an_orphaned_manifest_waits_too(world: World) -> None:
    await world.seed(manifest("other"))
    run = await _active(world)
    await world.seed(manifest("other"))

    await world.database.run(finish_runs([failed(run)], RULES))

    assert gates(world) == ["manifest"]


@pytest.mark.parametrize("gate", ["open", "manifest"])
async def test_a_waiting_entry_serves_as_the_retry_and_is_not_held_for_ever(world: World, gate: str) -> None:
    run = await _active(world)
    waiting = add_entry(world, gate=gate)

    result = await world.database.run(finish_runs([failed(run)], RULES))

    assert result.retried == 0
    assert gates(world) == ["open"]
    assert (await world.database.run(dispatch(ask()))).ids == (waiting,)


async def test_what_is_put_back_gives_way_to_an_entry_that_waits(world: World) -> None:
    run = await _active(world)
    waiting = add_entry(world, gate="manifest")

    assert await world.database.run(put_back([run.id], WORKER)) == 1

    assert (entry(world, run.id)["status"], entry(world, run.id)["reason"]) == ("skipped", "already_queued")
    assert (await world.database.run(dispatch(ask()))).ids == (waiting,)


async def test_the_end_of_a_run_tells_the_workers_that_the_waiting_entry_is_ready(world: World) -> None:
    run = await _active(world)
    add_entry(world, gate="manifest")
    if world.database.dialect == "sqlite":  # other processes see the file change instead
        await world.database.run(finish_runs([ended(run)], RULES))
        assert gates(world) == ["open"]
        return
    listener = world.database.notifications()
    assert isinstance(listener, AsyncGenerator)
    heard = asyncio.ensure_future(anext(listener))
    await eventually(lambda: is_somebody_listening(world), "somebody listens")

    await world.database.run(finish_runs([ended(run)], RULES))

    assert await heard == f"work:{OWNER}"
    await listener.aclose()


async def test_a_hold_and_the_end_of_the_run_at_once_leave_the_entry_ready(world: World) -> None:
    run = await _active(world)
    add_entry(world)
    if world.database.dialect == "sqlite":
        await world.database.run(dispatch(ask()))
        await world.database.run(finish_runs([ended(run)], RULES))
        assert gates(world) == ["open"]
        return
    other = await second_connection(world)
    async with world.database.transaction() as transaction:
        held = await transaction.run(dispatch(ask(worker_id="worker-2")))
        assert held.held == 1
        finishing = asyncio.create_task(other.run(finish_runs([ended(run)], RULES)))
        await eventually(lambda: is_somebody_waiting(world), "the finish waits for the manifest")
    assert (await finishing).refused == ()
    await other.close()

    assert gates(world) == ["open"]


async def test_an_entry_that_meets_the_finishing_transaction_is_neither_held_nor_run_twice(
    world: World,
) -> None:
    run = await _active(world)
    waiting = add_entry(world)
    if world.database.dialect == "sqlite":
        await world.database.run(finish_runs([ended(run)], RULES))
        assert (await world.database.run(dispatch(ask()))).ids == (waiting,)
        return
    other = await second_connection(world)
    async with world.database.transaction() as transaction:
        await transaction.run(finish_runs([ended(run)], RULES))
        meanwhile = await other.run(dispatch(ask(worker_id="worker-2")))
    assert meanwhile.ids == ()
    assert gates(world) == ["open"]
    assert (await other.run(dispatch(ask(worker_id="worker-2")))).ids == (waiting,)
    await other.close()


async def test_a_trigger_that_meets_the_finishing_transaction_is_ready_afterwards(world: World) -> None:
    run = await _active(world)
    if world.database.dialect == "sqlite":
        waiting = await world.database.run(trigger("report", owner=OWNER))
        assert gates(world) == ["manifest"]
        await world.database.run(finish_runs([ended(run)], RULES))
        assert (await world.database.run(dispatch(ask()))).ids == (waiting.id,)
        return
    other = await second_connection(world)
    async with world.database.transaction() as transaction:
        await transaction.run(finish_runs([ended(run)], RULES))
        triggering = asyncio.create_task(other.run(trigger("report", owner=OWNER)))
        await eventually(lambda: is_somebody_waiting(world), "the trigger waits for the manifest")
    triggered = await triggering
    await other.close()

    assert gates(world) == ["open"]
    assert (await world.database.run(dispatch(ask()))).ids == (triggered.id,)


async def test_the_end_of_a_run_that_meets_the_triggering_transaction_lets_the_trigger_in(
    world: World,
) -> None:
    run = await _active(world)
    if world.database.dialect == "sqlite":
        await world.database.run(trigger("report", owner=OWNER))
        await world.database.run(finish_runs([failed(run)], RULES))
        assert gates(world) == ["open"]
        return
    other = await second_connection(world)
    async with world.database.transaction() as transaction:
        triggered = await transaction.run(trigger("report", owner=OWNER))
        finishing = asyncio.create_task(other.run(finish_runs([failed(run)], RULES)))
        await eventually(lambda: is_somebody_waiting(world), "the finish waits for the manifest")
    result = await finishing
    await other.close()

    assert result.retried == 0
    assert gates(world) == ["open"]
    assert (await world.database.run(dispatch(ask()))).ids == (triggered.id,)


async def test_two_workers_never_run_one_manifest_at_once(world: World) -> None:
    await world.seed(manifest())
    waiting = add_entry(world)
    if world.database.dialect == "sqlite":
        assert (await world.database.run(dispatch(ask()))).ids == (waiting,)
        return
    other = await second_connection(world)
    async with world.database.transaction() as transaction:
        first = await transaction.run(dispatch(ask()))
        second = await other.run(dispatch(ask(worker_id="worker-2")))
    third = await other.run(dispatch(ask(worker_id="worker-2")))
    await other.close()

    assert (first.ids, second.ids, third.ids) == ((waiting,), (), ())


async def test_put_back_and_a_reapers_finish_at_once_do_not_deadlock(world: World) -> None:
    run = await _active(world)
    if world.database.dialect == "sqlite":
        assert await world.database.run(put_back([run.id], WORKER)) == 1
        return
    other = await second_connection(world)
    async with world.database.transaction() as transaction:
        await transaction.run(put_back([run.id], WORKER))
        reaping = asyncio.create_task(other.run(finish_runs([failed(run)], RULES)))
        await eventually(lambda: is_somebody_waiting(world), "the reaper waits for the manifest")
    result = await reaping
    await other.close()

    assert result.refused == (run.id,)
    assert gates(world) == ["open"]


@pytest.mark.parametrize("is_parent_first", [True, False])
async def test_an_activation_and_the_end_of_the_dependents_run_at_once_leave_it_ready(
    world: World, is_parent_first: bool
) -> None:
    parent, child = await _family_active(world)
    ends = [ended(parent, activations=(Activation("child"),)), ended(child)]
    first, second = ends if is_parent_first else reversed(ends)
    if world.database.dialect == "sqlite":
        await world.database.run(finish_runs([first], RULES))
        await world.database.run(finish_runs([second], RULES))
        assert gates(world) == ["open"]
        return
    other = await second_connection(world)
    async with world.database.transaction() as transaction:
        await transaction.run(finish_runs([first], RULES))
        waiting = asyncio.create_task(other.run(finish_runs([second], RULES)))
        await eventually(lambda: is_somebody_waiting(world), "the second waits for the dependent")
    await waiting
    await other.close()

    assert gates(world) == ["open"]


async def test_ends_are_written_in_the_order_of_ids_so_that_two_never_deadlock(world: World) -> None:
    await queue(world, None, None)
    first, second = (await world.database.run(dispatch(ask()))).runs
    if world.database.dialect == "sqlite":
        await world.database.run(finish_runs([ended(second), ended(first)], RULES))
        return
    other = await second_connection(world)
    async with world.database.transaction() as transaction:
        await transaction.run(finish_runs([ended(first)], RULES))
        waiting = asyncio.create_task(other.run(finish_runs([ended(second), ended(first)], RULES)))
        await eventually(lambda: is_somebody_waiting(world), "the second finisher waits for the first run")
        free = world.rows("SELECT id FROM work_queue WHERE id = ? FOR UPDATE SKIP LOCKED", second.id)
    result = await waiting
    await other.close()

    assert [row["id"] for row in free] == [second.id]
    assert (set(result.finished), result.refused) == ({second.id}, (first.id,))


async def _family_active(world: World) -> tuple[ClaimedRun, ClaimedRun]:
    await world.seed(manifest(), manifest("child", schedule=DormantDependent("report")))
    add_entry(world, "report", origin="schedule")
    add_entry(world, "child", origin="dormant")
    world.advance(seconds=1)
    runs = {run.manifest: run for run in (await world.database.run(dispatch(ask()))).runs}
    return runs["report"], runs["child"]


async def _active(world: World) -> ClaimedRun:
    """A manifest that is running."""
    await world.seed(*[manifest()], *([manifest("other")] if _has(world, "other") else []))
    entry_id = add_entry(world, origin="schedule")
    world.advance(seconds=1)  # another instant for whatever is queued next
    (run,) = (await world.database.run(dispatch(ask()))).runs
    assert run.id == entry_id
    assert world.manifest()["active_run_id"] == run.id
    return run


def _has(world: World, external_id: str) -> bool:
    return bool(world.rows("SELECT id FROM manifest WHERE external_id = ?", external_id))
