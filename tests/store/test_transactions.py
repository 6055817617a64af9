from __future__ import annotations

import asyncio
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from gandy.errors import DatabaseUnreachableError, GandyError, RowConflictError
from gandy.settings import DatabaseSettings
from gandy.store.dispatching import dispatch
from gandy.store.drivers.opening import open_database
from gandy.store.manifests import read_now
from gandy.store.overriding import ensure_groups
from gandy.store.queueing import enqueue
from tests.store.work import ONE, ask, count, queue, run_statement, second_connection
from tests.store.writing import write_many
from tests.support.world import OWNER, START

if TYPE_CHECKING:
    from pathlib import Path

    from gandy.store.drivers.database import Database, Transaction
    from gandy.store.queueing import EnqueueRequest
    from gandy.store.statements import Operation
    from tests.support.world import World


async def test_operations_of_one_transaction_commit_together(world: World) -> None:
    async with world.database.transaction() as transaction:
        await transaction.run(enqueue(ONE))
        assert count(world, "work_queue") == 0
        await transaction.run(enqueue(ONE))

    assert count(world, "work_queue") == 2


async def test_what_raises_in_a_transaction_leaves_nothing_behind(world: World) -> None:
    async def write_and_raise() -> None:
        async with world.database.transaction() as transaction:
            await transaction.run(enqueue(ONE))
            raise LookupError

    with pytest.raises(LookupError):
        await write_and_raise()
    await queue(world)

    assert count(world, "work_queue") == 1


async def test_an_operation_that_raises_half_way_is_undone(world: World) -> None:
    def write_and_raise() -> Operation[None]:
        yield from enqueue(ONE)
        raise LookupError

    with pytest.raises(LookupError):
        await world.database.run(write_and_raise())

    assert count(world, "work_queue") == 0


async def test_a_cancelled_transaction_is_undone_and_the_next_one_works(world: World) -> None:
    begun = asyncio.Event()

    async def write_and_wait() -> None:
        async with world.database.transaction() as transaction:
            await transaction.run(enqueue(ONE))
            begun.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(write_and_wait())
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    await queue(world)
    assert count(world, "work_queue") == 1


async def test_a_transaction_cancelled_while_it_begins_blocks_nobody(world: World) -> None:
    async def begin() -> None:
        async with world.database.transaction():
            await asyncio.Event().wait()

    for turns in range(6):
        task = asyncio.create_task(begin())
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await queue(world)

    assert count(world, "work_queue") == 6


async def test_a_savepoint_undoes_only_what_happened_inside_it(world: World) -> None:
    async def write_inside(transaction: Transaction) -> None:
        async with transaction.savepoint():
            await transaction.run(enqueue(ONE))
            raise LookupError

    async with world.database.transaction() as transaction:
        await transaction.run(enqueue(ONE))
        with pytest.raises(LookupError):
            await write_inside(transaction)
        async with transaction.savepoint():
            await transaction.run(enqueue(ONE))

    assert count(world, "work_queue") == 2


async def test_a_refused_row_in_a_savepoint_spares_the_transaction(world: World) -> None:
    async with world.database.transaction() as transaction:
        await transaction.run(enqueue(ONE))
        with pytest.raises(RowConflictError):
            async with transaction.savepoint():
                await transaction.run(enqueue(_asking(inputs=["not json"])))
        await transaction.run(enqueue(ONE))

    assert count(world, "work_queue") == 2


async def test_a_row_that_a_constraint_refuses_is_a_conflict(world: World) -> None:
    with pytest.raises(RowConflictError):
        await queue(world, priority=99)

    assert count(world, "work_queue") == 0


async def test_nested_savepoints_undo_the_inner_one_alone(world: World) -> None:
    async with world.database.transaction() as transaction, transaction.savepoint():
        await transaction.run(enqueue(ONE))
        with pytest.raises(RowConflictError):
            async with transaction.savepoint():
                await transaction.run(enqueue(_asking(priority=99)))

    assert count(world, "work_queue") == 1


async def test_the_clock_stands_still_within_a_transaction_and_moves_between_them(world: World) -> None:
    async with world.database.transaction() as transaction:
        before = await transaction.run(read_now())
        world.advance(hours=1)
        within = await transaction.run(read_now())
    after = await world.database.run(read_now())

    assert (before, within, after) == (START, START, START + timedelta(hours=1))


async def test_every_way_to_a_connection_sees_the_same_clock(world: World) -> None:
    session = world.database.session()
    world.advance(days=40)

    seen = {
        await session.run(read_now()),
        await world.database.read(read_now()),
        await world.database.run(read_now()),
    }
    await session.close()

    assert seen == {START + timedelta(days=40)}


async def test_without_a_manual_clock_the_databases_own_is_read(world: World) -> None:
    database = open_database(DatabaseSettings(url=world.url))
    await database.open()
    first = await database.run(read_now())
    second = await database.run(read_now())
    await database.close()

    assert first.tzinfo is not None
    assert START < first <= second


async def test_a_reader_is_not_held_up_by_an_open_transaction(world: World) -> None:
    await queue(world)
    async with world.database.transaction() as transaction:
        await transaction.run(enqueue(ONE))
        groups = await world.database.read(run_statement("ready_groups", owner=OWNER, worker_id=None))

    assert len(groups) == 1


async def test_many_calls_at_once_are_all_done(world: World) -> None:
    await world.database.run(ensure_groups(OWNER, []))

    await asyncio.gather(*(queue(world) for _ in range(40)))

    assert count(world, "work_queue") == 40


async def test_two_processes_write_at_once_and_nothing_is_lost(migrated_url: str) -> None:
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(2, mp_context=context) as processes:
        loop = asyncio.get_running_loop()
        ids = await asyncio.gather(
            *(loop.run_in_executor(processes, write_many, migrated_url, 50) for _ in range(2))
        )

    assert len({*ids[0], *ids[1]}) == 100


async def test_a_schema_that_is_behind_is_refused_where_nobody_may_migrate(database_url: str) -> None:
    database = open_database(DatabaseSettings(url=database_url))
    if database.dialect == "sqlite":  # an embedded file has no other operator
        await database.open()
        assert await database.run(run_statement("schema_version"))
        await database.close()
        return
    with pytest.raises(GandyError, match="gandy migrate"):
        await database.open()
    await database.close()


async def test_a_reading_operation_cannot_write_on_sqlite(sqlite_url: str) -> None:
    database = open_database(DatabaseSettings(url=sqlite_url))
    await database.open()

    with pytest.raises(GandyError, match="readonly"):
        await database.read(enqueue(ONE))

    assert await database.run(dispatch(ask())) is not None
    await database.close()


async def test_a_folder_that_is_not_there_is_said_so(tmp_path: Path) -> None:
    database = open_database(DatabaseSettings(url=f"sqlite:///{tmp_path}/missing/gandy.db"))

    with pytest.raises(DatabaseUnreachableError):
        await database.open()
    await database.close()


async def test_a_deadlock_is_busy_and_not_unreachable(world: World) -> None:
    if world.database.dialect == "sqlite":  # one writer at a time cannot deadlock
        await asyncio.gather(queue(world), queue(world))
        assert count(world, "work_queue") == 2
        return
    await world.database.run(ensure_groups(OWNER, ["one", "two"]))
    other = await second_connection(world)

    async def lock_both(database: Database, first: str, second: str) -> None:
        async with database.transaction() as transaction:
            await transaction.run(run_statement("lock_group", owner=OWNER, name=first))
            await met.wait()
            await transaction.run(run_statement("lock_group", owner=OWNER, name=second))

    met = asyncio.Barrier(2)
    ends = await asyncio.gather(
        lock_both(world.database, "one", "two"), lock_both(other, "two", "one"), return_exceptions=True
    )
    await other.close()

    assert sorted(type(end).__name__ for end in ends) == ["NoneType", "RowBusyError"]


def _asking(**options: Any) -> EnqueueRequest:  # noqa: ANN401
    return replace(ONE, **options)
