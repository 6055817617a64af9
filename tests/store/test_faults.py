"""Every error of a driver is one of Gandy's, whichever way a statement goes: a fault, or one item's own."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import psycopg
import pytest
from psycopg import pq

from gandy.errors import (
    DatabaseBusyError,
    DatabaseFaultError,
    DatabaseFullError,
    DatabaseReadOnlyError,
    DatabaseRefusedError,
    DatabaseUnreachableError,
    GandyError,
    RowBusyError,
    RowConflictError,
)
from gandy.settings import DatabaseSettings
from gandy.store.drivers import sqlite
from gandy.store.drivers.opening import migrate, open_database, open_link
from gandy.store.drivers.postgres_values import translate
from gandy.store.queueing import EnqueueRequest, enqueue
from tests.store.work import ONE, TRAIN, count
from tests.support.waiting import eventually
from tests.support.world import OWNER, World, open_world

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
    from pathlib import Path

    from gandy.store.statements import Operation
    from tests.support.databases import SqliteHome
    from tests.support.postgres import PostgresServer

STATES: dict[type[GandyError], tuple[str, ...]] = {
    DatabaseUnreachableError: (
        *("08006", "08P01", "25P03", "25P04", "28P01", "3D000", "53300"),
        *("57P01", "57P02", "57P03", "57P05", "58030"),
    ),
    DatabaseBusyError: ("57014", "25001"),
    RowBusyError: ("40001", "40P01", "55P03"),
    DatabaseReadOnlyError: ("25006",),
    DatabaseFullError: ("53100", "53200", "53400"),
    DatabaseRefusedError: ("42501", "42P01", "42703", "3F000", "0A000"),
    RowConflictError: (
        *("22003", "22008", "22021", "22P05", "23502", "23503", "23505", "23514", "27000", "54000"),
        *("P0001", "P0002", "XX000", "GX001", "99999"),
    ),
}
BIG = EnqueueRequest(owner=OWNER, train=TRAIN, inputs=['"' + "x" * 2_000_000 + '"'], input_type_name="Item")
TOLD_TO_FAIL = """
CREATE TABLE told (state text);
CREATE FUNCTION fail_as_told() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE told text := (SELECT state FROM gandy.told);
BEGIN
    IF told IS NOT NULL THEN RAISE EXCEPTION 'told to' USING ERRCODE = told; END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER fail BEFORE INSERT ON work_queue FOR EACH ROW EXECUTE FUNCTION fail_as_told()
"""


class Ways:
    """Every way that an operation goes to the database."""

    def __init__(self, world: World) -> None:
        self._database = world.database
        self._session = world.database.session()
        self._link = open_link(DatabaseSettings(url=world.url), clock=world.clock)

    def all(self) -> dict[str, Callable[[Operation[Any]], Awaitable[object]]]:
        return {
            "pool": self._database.run,
            "apart": self._database.run_apart,
            "session": self._session.run,
            "transaction": self._in_transaction,
            "savepoint": self._in_savepoint,
            "link": self._by_link,
        }

    async def close(self) -> None:
        self._link.close()
        await self._session.close()

    async def outcomes(
        self, operation: Callable[[], Operation[Any]]
    ) -> dict[str, type[BaseException] | None]:
        """What each way raises; None where it went through."""
        return {name: await _outcome(way(operation())) for name, way in self.all().items()}

    async def _in_transaction(self, operation: Operation[Any]) -> None:
        async with self._database.transaction() as transaction:
            await transaction.run(operation)

    async def _in_savepoint(self, operation: Operation[Any]) -> None:
        """Raise what came out of the savepoint itself, before the transaction around it translates it."""
        inner: list[Exception] = []
        try:
            async with self._database.transaction() as transaction:
                try:
                    async with transaction.savepoint():
                        await transaction.run(operation)
                except Exception as error:
                    inner.append(error)
                    raise
        except Exception:
            if inner:
                raise inner[0] from None
            raise  # it was not reached

    async def _by_link(self, operation: Operation[Any]) -> None:
        self._link.run(operation)


async def _outcome(call: Awaitable[object]) -> type[BaseException] | None:
    try:
        await call
    except Exception as error:  # noqa: BLE001 - whatever it is, it is compared
        return type(error)
    return None


def _everywhere(kind: type[GandyError] | None) -> dict[str, type[GandyError] | None]:
    return dict.fromkeys(("pool", "apart", "session", "transaction", "savepoint", "link"), kind)


@pytest.fixture
async def postgres_world(postgres_server: PostgresServer) -> AsyncIterator[World]:
    template = postgres_server.template("migrated", lambda url: (migrate(url), None)[1])
    with postgres_server.database(template) as url:
        world = await open_world(url)
        yield world
        await world.database.close()


@pytest.fixture
async def ways(postgres_world: World) -> AsyncIterator[Ways]:
    ways = Ways(postgres_world)
    yield ways
    await ways.close()


async def test_every_sqlstate_is_a_fault_or_an_items_own_by_every_way(
    postgres_world: World, ways: Ways
) -> None:
    postgres_world.rows(TOLD_TO_FAIL)
    wanted = {state: kind for kind, states in STATES.items() for state in states}
    postgres_world.rows("INSERT INTO told VALUES (NULL)")
    found: dict[str, object] = {}
    for state in wanted:
        postgres_world.rows("UPDATE told SET state = ?", state)
        found[state] = await ways.outcomes(lambda: enqueue(ONE))

    assert found == {state: _everywhere(kind) for state, kind in wanted.items()}
    postgres_world.rows("UPDATE told SET state = NULL")
    assert await ways.outcomes(lambda: enqueue(ONE)) == _everywhere(None)


async def test_a_read_only_primary_is_waited_out_by_every_way(postgres_world: World) -> None:
    name = urlsplit(postgres_world.url).path[1:]
    postgres_world.rows(f'ALTER DATABASE "{name}" SET default_transaction_read_only = on')
    world = await open_world(postgres_world.url)
    ways = Ways(world)
    assert await ways.outcomes(lambda: enqueue(ONE)) == _everywhere(DatabaseReadOnlyError)

    with psycopg.connect(world.url, autocommit=True) as link:
        link.execute("SET default_transaction_read_only = off")
        link.execute(f'ALTER DATABASE "{name}" RESET default_transaction_read_only'.encode())

    # The pool replaces what it gives up at once; a new connection may still be one of then, for one call.
    rounds = [await ways.outcomes(lambda: enqueue(ONE)) for _ in range(8)]
    await ways.close()

    assert rounds[-1] == _everywhere(None), "no connection of then is kept"
    outcomes = [outcome for each in rounds for outcome in each.values()]
    assert set(outcomes) <= {None, DatabaseReadOnlyError}
    assert count(world, "work_queue") == outcomes.count(None)
    await world.database.close()


@pytest.mark.parametrize(
    ("limit", "expected"), [("statement_timeout", DatabaseBusyError), ("lock_timeout", RowBusyError)]
)
async def test_a_timeout_of_a_statement_is_busy_by_every_way(
    postgres_world: World, limit: str, expected: type[GandyError]
) -> None:
    name = urlsplit(postgres_world.url).path[1:]
    postgres_world.rows(f'ALTER DATABASE "{name}" SET {limit} = 150')
    world = await open_world(postgres_world.url)
    ways = Ways(world)
    with psycopg.connect(world.url, options=f"-c {limit}=0") as holder:
        holder.execute("LOCK TABLE gandy.work_queue")
        assert await ways.outcomes(lambda: enqueue(ONE)) == _everywhere(expected)

    await ways.close()
    await world.database.close()
    postgres_world.rows(f'ALTER DATABASE "{name}" RESET {limit}')


async def test_a_backend_that_was_ended_is_unreachable_by_every_way(
    postgres_world: World, ways: Ways
) -> None:
    postgres_world.rows(TOLD_TO_FAIL)
    postgres_world.rows(
        "CREATE OR REPLACE FUNCTION fail_as_told() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NEW; END $$"
    )
    assert await ways.outcomes(lambda: enqueue(ONE)) == _everywhere(DatabaseUnreachableError)

    postgres_world.rows("DROP TRIGGER fail ON work_queue")
    assert await ways.outcomes(lambda: enqueue(ONE)) == _everywhere(None)


HANGING_UP: dict[int, bytes | None] = {pq.DiagnosticField.SEVERITY_NONLOCALIZED: b"FATAL"}
MADE_BY_HAND: list[tuple[psycopg.Error, type[GandyError]]] = [
    (psycopg.Error("lost synchronization with server"), DatabaseUnreachableError),
    (psycopg.DatabaseError("server closed the connection unexpectedly"), DatabaseUnreachableError),
    (psycopg.InternalError("unexpected poll status"), DatabaseUnreachableError),
    (psycopg.InterfaceError("the cursor is closed"), DatabaseUnreachableError),
    (psycopg.OperationalError("the connection is lost"), DatabaseUnreachableError),
    (psycopg.errors.InternalError_("out of order", info=HANGING_UP), DatabaseUnreachableError),
    (psycopg.errors.UniqueViolation("one too many", info=HANGING_UP), DatabaseUnreachableError),
    (psycopg.errors.DiskFull("no space left", info=HANGING_UP), DatabaseFullError),
    (psycopg.errors.InternalError_("out of order"), RowConflictError),
    (psycopg.DataError("text fields cannot contain NUL bytes"), RowConflictError),
    (psycopg.IntegrityError("refused"), RowConflictError),
    (psycopg.NotSupportedError("no such format"), RowConflictError),
    (psycopg.ProgrammingError("cannot adapt type"), RowConflictError),
]


@pytest.mark.parametrize(("error", "kind"), MADE_BY_HAND, ids=[repr(error) for error, _ in MADE_BY_HAND])
def test_an_error_that_tells_of_a_lost_connection_is_no_items_own(
    error: psycopg.Error, kind: type[GandyError]
) -> None:
    assert type(translate(error, "here")) is kind


async def test_a_transaction_that_idled_for_too_long_is_unreachable(postgres_world: World) -> None:
    async def idle() -> None:
        async with postgres_world.database.transaction() as transaction:
            await transaction.run(enqueue(ONE))
            await eventually(_is_hung_up, "the server hangs up")
            await transaction.run(enqueue(ONE))

    async def _is_hung_up() -> bool:
        return not postgres_world.rows(
            "SELECT 1 AS one FROM pg_stat_activity "
            "WHERE datname = current_database() AND state = 'idle in transaction'"
        )

    name = urlsplit(postgres_world.url).path[1:]
    postgres_world.rows(f'ALTER DATABASE "{name}" SET idle_in_transaction_session_timeout = 50')
    postgres_world.rows(
        "SELECT pg_terminate_backend(pid, 5000) AS ended FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    with pytest.raises(DatabaseUnreachableError):
        await idle()
    postgres_world.rows(f'ALTER DATABASE "{name}" RESET idle_in_transaction_session_timeout')
    await postgres_world.database.run(enqueue(ONE))
    assert count(postgres_world, "work_queue") == 1


@pytest.mark.parametrize(
    ("options", "kind"), [("CONNECTION LIMIT 0", DatabaseUnreachableError), ("", DatabaseRefusedError)]
)
async def test_a_role_without_rights_or_connections_is_a_fault(
    postgres_world: World, options: str, kind: type[DatabaseFaultError]
) -> None:
    role = f"few_{urlsplit(postgres_world.url).path[1:]}"
    postgres_world.rows(f'CREATE ROLE "{role}" LOGIN {options}')
    parts = urlsplit(postgres_world.url)
    url = parts._replace(netloc=f"{role}@{parts.netloc.rpartition('@')[2]}").geturl()
    database = open_database(DatabaseSettings(url=url))
    try:
        assert await _outcome(database.open()) is kind
        assert await _outcome(database.session().run(enqueue(ONE))) is kind
        with closing(open_link(DatabaseSettings(url=url))) as link, pytest.raises(kind):
            link.run(enqueue(ONE))
        with pytest.raises(kind):
            migrate(url)
    finally:
        postgres_world.rows(f'DROP ROLE "{role}"')


@pytest.fixture
def sqlite_file(sqlite_home: SqliteHome) -> Iterator[str]:
    template = sqlite_home.template("migrated", lambda url: (migrate(url), None)[1])
    with sqlite_home.database(template) as url:
        yield url


@pytest.mark.parametrize(
    ("pragma", "kind"),
    [
        pytest.param("PRAGMA query_only = on", DatabaseReadOnlyError, id="read-only"),
        pytest.param("PRAGMA max_page_count = 1", DatabaseFullError, id="full"),
    ],
)
async def test_a_file_that_takes_no_writes_is_waited_out_by_every_way(
    sqlite_file: str, pragma: str, kind: type[GandyError]
) -> None:
    connect = sqlite.connect

    def connect_badly(path: Path, *how: Any) -> sqlite.Connection:  # noqa: ANN401
        connection = connect(path, *how)
        connection.execute(pragma)
        return connection

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sqlite, "connect", connect_badly)
        world = await open_world(sqlite_file)
        ways = Ways(world)
        assert await ways.outcomes(lambda: enqueue(BIG)) == _everywhere(kind)

    assert await ways.outcomes(lambda: enqueue(BIG)) == _everywhere(None), "no connection of then is kept"
    assert count(world, "work_queue") == len(_everywhere(None))
    await ways.close()
    await world.database.close()


async def test_a_file_that_another_process_holds_is_waited_for_and_said_to_be_held(
    sqlite_file: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sqlite, "_QUIET_SECONDS", 0.01)
    monkeypatch.setattr(sqlite, "_BUSY_SECONDS", 0.02)
    world = await open_world(sqlite_file)
    ways = Ways(world)
    with closing(sqlite3.connect(sqlite_file.removeprefix("sqlite:///"), isolation_level=None)) as holder:
        holder.execute("BEGIN IMMEDIATE")
        for _ in range(2):
            outcomes = await ways.outcomes(lambda: enqueue(ONE))
            assert outcomes == _everywhere(DatabaseBusyError)
        holder.execute("ROLLBACK")

    said = [each for each in caplog.messages if "another process holds the database file" in each]
    assert len(said) == 2 * len(outcomes), "it is said again each time"
    await ways.close()
    await world.database.close()


async def test_a_locked_file_is_busy_by_every_way(sqlite_file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "_BUSY_SECONDS", 0.02)
    world = await open_world(sqlite_file)
    ways = Ways(world)
    with closing(sqlite3.connect(sqlite_file.removeprefix("sqlite:///"), isolation_level=None)) as holder:
        holder.execute("BEGIN IMMEDIATE")
        assert await ways.outcomes(lambda: enqueue(ONE)) == _everywhere(DatabaseBusyError)
        holder.execute("ROLLBACK")

    assert await ways.outcomes(lambda: enqueue(ONE)) == _everywhere(None)
    await ways.close()
    await world.database.close()


@pytest.mark.parametrize(
    ("damage", "kind"),
    [
        pytest.param("ALTER TABLE work_queue RENAME TO gone", DatabaseRefusedError, id="no such table"),
        pytest.param(
            "ALTER TABLE work_queue RENAME COLUMN priority TO gone", DatabaseRefusedError, id="no such column"
        ),
        pytest.param(
            "CREATE TRIGGER fail BEFORE INSERT ON work_queue BEGIN SELECT RAISE(ABORT, 'told to'); END",
            RowConflictError,
            id="a trigger",
        ),
        pytest.param(
            "CREATE TRIGGER fail BEFORE INSERT ON work_queue BEGIN SELECT json('{'); END",
            RowConflictError,
            id="a function refuses its value",
        ),
    ],
)
async def test_what_a_file_refuses_is_told_apart_by_every_way(
    sqlite_file: str, damage: str, kind: type[GandyError]
) -> None:
    world = await open_world(sqlite_file)
    ways = Ways(world)
    world.rows(damage)

    assert await ways.outcomes(lambda: enqueue(ONE)) == _everywhere(kind)
    await ways.close()
    await world.database.close()


async def test_a_file_that_is_no_database_is_unreachable(tmp_path: Path) -> None:
    file = tmp_path / "notes.db"
    file.write_text("these are notes, and none of them is a table\n" * 100)

    assert (
        await _outcome(open_database(DatabaseSettings(url=f"sqlite:///{file}")).open())
        is DatabaseUnreachableError
    )


async def test_a_mistake_in_an_operation_is_no_error_of_the_database(world: World) -> None:
    def mistaken() -> Operation[None]:
        yield from enqueue(ONE)
        raise LookupError

    ways = Ways(world)
    assert set((await ways.outcomes(mistaken)).values()) == {LookupError}
    assert count(world, "work_queue") == 0
    await ways.close()


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 10**25])
async def test_a_number_past_64_bits_is_refused_by_name(world: World, number: int) -> None:
    ways = Ways(world)
    request = EnqueueRequest(owner=OWNER, train=TRAIN, inputs=[None], input_type_name="Item", priority=number)

    assert await ways.outcomes(lambda: enqueue(request)) == _everywhere(RowConflictError)
    with pytest.raises(RowConflictError, match=str(number)):
        await world.database.run(enqueue(request))
    await ways.close()


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("caf\udce9", {"caf\ufffd"}),
        ("\ud83d\ude00", {"\U0001f600"}),
        ("a\udce9\x00b", {"a\ufffd\ufffdb"}),
        ("a\x00b", {"a\ufffdb", "a\x00b"}),  # SQLite holds it as it is
        ("plain", {"plain"}),
    ],
)
async def test_text_that_cannot_be_held_is_made_storable_by_every_way(
    world: World, text: str, stored: set[str]
) -> None:
    ways = Ways(world)

    def write() -> Operation[Any]:
        return enqueue(
            EnqueueRequest(
                owner=OWNER,
                train=TRAIN,
                inputs=[json.dumps(text, ensure_ascii=False)],
                input_type_name=text,
            )
        )

    assert await ways.outcomes(write) == _everywhere(None)
    rows = world.rows("SELECT input_type_name AS name FROM work_queue")
    assert {row["name"] for row in rows} <= stored
    await ways.close()
