"""Connections that break: who holds one comes back by itself, with nothing half written."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import closing
from typing import TYPE_CHECKING

import psycopg
import pytest

from gandy.errors import DatabaseUnreachableError, GandyError
from gandy.settings import DatabaseSettings
from gandy.store.drivers import postgres_pool
from gandy.store.drivers.opening import migrate, open_database, open_link
from gandy.store.drivers.postgres import PostgresDatabase
from gandy.store.manifests import read_now
from gandy.store.queueing import enqueue
from tests.store.work import ONE, count, is_somebody_listening, queue, run_statement, second_connection
from tests.support.waiting import eventually
from tests.support.world import OWNER, START, open_world

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from gandy.store.drivers.postgres_pool import Link
    from tests.support.postgres import PostgresServer, StopMode, ThrowawayServer
    from tests.support.world import World


@pytest.fixture
async def postgres_world(postgres_server: PostgresServer) -> AsyncIterator[World]:
    template = postgres_server.template("migrated", lambda url: (migrate(url), None)[1])
    with postgres_server.database(template) as url:
        world = await open_world(url)
        yield world
        await world.database.close()


async def test_a_session_gets_no_connection_whose_backend_was_ended(postgres_world: World) -> None:
    session = postgres_world.database.session()
    await session.run(enqueue(ONE))

    _end_backends(postgres_world)

    await session.run(enqueue(ONE))
    await session.close()
    assert count(postgres_world, "work_queue") == 2


async def test_the_pool_gives_no_connection_whose_backend_was_ended(postgres_world: World) -> None:
    await queue(postgres_world)

    _end_backends(postgres_world)
    await queue(postgres_world)

    assert count(postgres_world, "work_queue") == 2


async def test_a_transaction_whose_backend_was_ended_leaves_nothing(postgres_world: World) -> None:
    async def write_and_lose_the_backend() -> None:
        async with postgres_world.database.transaction() as transaction:
            await transaction.run(enqueue(ONE))
            _end_backends(postgres_world)
            await transaction.run(enqueue(ONE))

    with pytest.raises(DatabaseUnreachableError):
        await write_and_lose_the_backend()
    await queue(postgres_world)

    assert count(postgres_world, "work_queue") == 1


async def test_a_link_whose_backend_was_ended_connects_anew(postgres_world: World) -> None:
    link = open_link(DatabaseSettings(url=postgres_world.url), clock=postgres_world.clock)
    with closing(link):
        assert link.run(read_now()) == START

        _end_backends(postgres_world)

        with pytest.raises(DatabaseUnreachableError):
            link.run(read_now())
        assert link.run(read_now()) == START


async def test_a_listener_whose_backend_was_ended_says_so(postgres_world: World) -> None:
    listener = postgres_world.database.notifications()
    assert isinstance(listener, AsyncGenerator)
    heard = asyncio.ensure_future(anext(listener))
    await eventually(lambda: is_somebody_listening(postgres_world), "somebody listens")

    _end_backends(postgres_world)

    with pytest.raises(DatabaseUnreachableError):
        await heard


@pytest.mark.parametrize("mode", ["fast", "crash"])
async def test_sessions_pools_and_links_survive_a_restart_of_the_server(
    private_postgres_server: ThrowawayServer, mode: StopMode
) -> None:
    with private_postgres_server.database() as url:
        migrate(url)
        world = await open_world(url)
        session, link = world.database.session(), open_link(DatabaseSettings(url=url), clock=world.clock)
        await session.run(enqueue(ONE))
        link.run(read_now())

        await asyncio.to_thread(private_postgres_server.restart, mode)

        await eventually(lambda: _works(lambda: session.run(enqueue(ONE))), "the session is back")
        await eventually(lambda: _works(lambda: world.database.run(enqueue(ONE))), "the pool is back")
        await eventually(lambda: _works(lambda: asyncio.to_thread(link.run, read_now())), "the link is back")
        assert count(world, "work_queue") == 3
        link.close()
        await session.close()
        await world.database.close()


async def test_a_server_that_is_away_is_unreachable_and_found_again(
    private_postgres_server: ThrowawayServer,
) -> None:
    with private_postgres_server.database() as url:
        migrate(url)
        private_postgres_server.stop()
        database = open_database(DatabaseSettings(url=url))
        with pytest.raises(DatabaseUnreachableError):
            await database.open()

        private_postgres_server.start()
        await database.open()
        assert await database.run(run_statement("ping"))
        await database.close()


async def test_a_notification_reaches_who_listens(world: World) -> None:
    other = await second_connection(world)
    listener = world.database.notifications()
    assert isinstance(listener, AsyncGenerator)
    heard = asyncio.ensure_future(anext(listener))

    async def write_until_heard() -> bool:
        await other.run(enqueue(ONE))
        return heard.done()

    await eventually(write_until_heard, "the listener hears")
    await listener.aclose()
    await other.close()

    assert await heard == ("changed" if world.database.dialect == "sqlite" else "work:shop")


async def test_what_was_rolled_back_tells_nobody(postgres_world: World) -> None:
    listener = postgres_world.database.notifications()
    assert isinstance(listener, AsyncGenerator)
    heard = asyncio.ensure_future(anext(listener))
    await eventually(lambda: is_somebody_listening(postgres_world), "somebody listens")

    async def write_and_raise() -> None:
        async with postgres_world.database.transaction() as transaction:
            await transaction.run(enqueue(ONE))
            raise LookupError

    with pytest.raises(LookupError):
        await write_and_raise()
    await postgres_world.database.run(run_statement("notify", payload="later:shop"))

    assert await heard == "later:shop"
    await listener.aclose()


async def _works(call: Callable[[], Awaitable[object]]) -> bool:
    """Try once; a connection that is still broken is made anew by the next call."""
    try:
        await call()
    except (GandyError, psycopg.OperationalError):
        return False
    return True


def _end_backends(world: World) -> None:
    ended = world.rows(
        "SELECT pid, pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid() "
        "AND backend_type = 'client backend'"  # autovacuum ends by itself
    )
    assert ended
    pids = [row["pid"] for row in ended]  # one that ends by itself meanwhile is ended, too
    assert world.rows("SELECT pid FROM pg_stat_activity WHERE pid = ANY (?::int[])", pids) == []


async def test_a_prepared_statement_that_was_lost_is_repeated_without_and_said_once(
    postgres_world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world = postgres_world
    first, other = await _use_two(world, times=8)
    names = await _prepared(first) | await _prepared(other)
    assert len(names) == 2 * len(await _prepared(first)), "no two connections share a name"

    for each in (first, other):
        each.pgconn.exec_(b"DEALLOCATE ALL")  # as a pooler does that has given the connection another backend
    assert set(await _use_two(world, times=1)) == {first, other}

    assert await _prepared(first) == await _prepared(other) == set()
    assert caplog.text.count("prepared statements are off") == 1


def _postgres(world: World) -> PostgresDatabase:
    assert isinstance(world.database, PostgresDatabase)
    return world.database


async def _use_two(world: World, *, times: int) -> list[Link]:
    """Use two connections at once."""
    for _ in range(times):
        async with _postgres(world).transaction() as one, _postgres(world).transaction() as another:
            await one.run(run_statement("ping"))
            await another.run(run_statement("ping"))
    return [one._connection, another._connection]


async def _prepared(connection: Link) -> set[str]:
    rows = await (await connection.execute("SELECT name FROM pg_prepared_statements")).fetchall()
    return {row[0] for row in rows}


async def test_loops_that_take_turns_share_one_connection(postgres_world: World) -> None:
    database = postgres_world.database
    sessions = [database.session() for _ in range(3)]

    for run in (database.run, *(session.run for session in sessions), database.run_apart):
        await run(enqueue(ONE))

    assert _connections(postgres_world) == 1


async def test_callers_at_once_wait_shortly_for_a_connection_before_they_open_one(
    postgres_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_pool, "PATIENCE_SECONDS", 50.0)
    await asyncio.gather(*(postgres_world.database.run(enqueue(ONE)) for _ in range(3)))

    assert _connections(postgres_world) == 1


async def test_connections_that_are_used_no_more_are_closed_but_for_one(
    postgres_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_pool, "KEPT_SECONDS", 0.0)
    await _use_two(postgres_world, times=1)

    async def is_one_left() -> bool:
        return await asyncio.to_thread(_connections, postgres_world) == 1

    await eventually(is_one_left, "the other is closed")


def _connections(world: World) -> int:
    found = world.rows(
        "SELECT count(*) AS open FROM pg_stat_activity WHERE datname = current_database() "
        "AND application_name = 'gandy' AND pid <> pg_backend_pid()"
    )
    return int(found[0]["open"])


async def test_many_callers_at_once_open_connections_up_to_the_limit_and_sessions_pass_by(
    postgres_server: PostgresServer,
) -> None:
    template = postgres_server.template("migrated", lambda url: (migrate(url), None)[1])
    with postgres_server.database(template) as url:
        database = open_database(DatabaseSettings(url=url, pool_size=2))
        await database.open()
        session = database.session()
        async with database.transaction(), database.transaction():
            await session.run(enqueue(ONE))
            waiting = asyncio.ensure_future(database.run(enqueue(ONE)))
            await session.run(enqueue(ONE))
            assert not waiting.done()
        await waiting
        await session.close()
        await database.close()


@pytest.mark.parametrize("is_session", [True, False])
async def test_only_a_loop_prepares_its_statements_at_the_first_use(
    postgres_world: World, monkeypatch: pytest.MonkeyPatch, *, is_session: bool
) -> None:
    database = postgres_world.database
    assert isinstance(database, PostgresDatabase)
    monkeypatch.setattr(database.pooler, "is_found", False)  # a test of this process may have had one there

    async with database.transaction(is_session=is_session) as transaction:
        await transaction.run(run_statement("ready_groups", owner=OWNER, worker_id=None))
        found = await transaction._connection.execute("SELECT statement FROM pg_prepared_statements")
        mode = await transaction._connection.execute("SHOW plan_cache_mode")

        assert bool(await found.fetchall()) is is_session
        assert await mode.fetchone() == ("force_generic_plan",)
