from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager, closing
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeAlias

import asyncpg
import psycopg
import pytest
from psycopg.adapt import Loader
from psycopg.rows import dict_row
from psycopg.types.string import StrDumper

from gandy import NO_TIMEOUT
from gandy.errors import BorrowedConnectionError, RowConflictError
from gandy.store.drivers.opening import migrate
from tests.app import lenders
from tests.app.lenders import Lent, LentAsync
from tests.app.shop import double, make_shop

if TYPE_CHECKING:
    from psycopg.abc import Buffer

    from gandy.app.keywords import EnqueueKeywords

SyncLender: TypeAlias = Callable[[str], AbstractContextManager[Lent]]
AsyncLender: TypeAlias = Callable[[str], AbstractAsyncContextManager[LentAsync]]

BOTH: list[SyncLender] = [
    lenders.sqlalchemy_connection,
    lenders.sqlalchemy_session,
    lenders.django_connection,
]
ON_SQLITE: list[SyncLender] = [lenders.plain_sqlite, lenders.sqlite_between_begin_and_commit]
ON_POSTGRES: list[SyncLender] = [lenders.plain_psycopg]
ASYNC: list[AsyncLender] = [
    lenders.async_psycopg,
    lenders.sqlalchemy_async_connection,
    lenders.sqlalchemy_async_session,
    lenders.plain_asyncpg,
    lenders.pooled_asyncpg,
    lenders.sqlalchemy_connection_on_asyncpg,
    lenders.sqlalchemy_session_on_asyncpg,
]


def queued(url: str) -> list[str]:
    """The inputs that somebody else sees in the queue."""
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(lenders.path_of(url))) as connection:
            return [row[0] for row in connection.execute("SELECT input FROM work_queue ORDER BY id")]
    with psycopg.connect(url) as postgres:
        return [row[0] for row in postgres.execute("SELECT input::text FROM gandy.work_queue ORDER BY id")]


@pytest.fixture
def migrated_sqlite(sqlite_url: str) -> str:
    migrate(sqlite_url)
    return sqlite_url


def enqueue_and_end(lender: SyncLender, url: str) -> None:
    app = make_shop(url)
    with lender(url) as lent:
        job = app.sync.enqueue(double, 21, connection=lent.connection)
        assert job.id > 0
        assert queued(url) == []
        lent.rollback()
        assert queued(url) == []

        app.sync.enqueue_many(double, [1, 2], connection=lent.connection)
        lent.commit()
        assert queued(url) == ["1", "2"]


@pytest.mark.parametrize("lender", BOTH)
def test_work_is_queued_when_the_callers_transaction_commits(lender: SyncLender, migrated_url: str) -> None:
    enqueue_and_end(lender, migrated_url)


@pytest.mark.parametrize("lender", ON_SQLITE)
def test_work_is_queued_with_a_transaction_of_sqlite3(lender: SyncLender, migrated_sqlite: str) -> None:
    if lender is lenders.sqlite_between_begin_and_commit:
        app = make_shop(migrated_sqlite)
        with lender(migrated_sqlite) as lent:
            app.sync.enqueue(double, 21, connection=lent.connection)
            lent.rollback()
        with lender(migrated_sqlite) as lent:
            app.sync.enqueue(double, 5, connection=lent.connection)
            assert queued(migrated_sqlite) == []
            lent.commit()
        assert queued(migrated_sqlite) == ["5"]
    else:
        enqueue_and_end(lender, migrated_sqlite)


@pytest.mark.parametrize("lender", ON_POSTGRES)
def test_work_is_queued_with_a_transaction_of_psycopg(lender: SyncLender, postgres_url: str) -> None:
    migrate(postgres_url)
    enqueue_and_end(lender, postgres_url)


@pytest.mark.parametrize("lender", ASYNC)
async def test_work_is_queued_with_an_awaited_transaction(lender: AsyncLender, postgres_url: str) -> None:
    migrate(postgres_url)
    app = make_shop(postgres_url)
    async with lender(postgres_url) as lent:
        await app.enqueue(double, 21, connection=lent.connection)
        assert queued(postgres_url) == []
        await lent.rollback()
        assert queued(postgres_url) == []

        await app.enqueue(double, 4, connection=lent.connection)
        await lent.commit()
        assert queued(postgres_url) == ["4"]


async def test_the_async_face_takes_a_sync_connection_too(migrated_url: str) -> None:
    app = make_shop(migrated_url)
    with lenders.sqlalchemy_connection(migrated_url) as lent:
        await app.enqueue(double, 3, connection=lent.connection)
        lent.commit()

    assert queued(migrated_url) == ["3"]


async def test_a_job_of_the_callers_transaction_has_a_result_like_any_other(migrated_url: str) -> None:
    app = make_shop(migrated_url)
    with lenders.sqlalchemy_session(migrated_url) as lent:
        job = await app.enqueue(double, 21, connection=lent.connection)
        lent.commit()

    async with app.running(services=("worker",)):
        assert await job.result(timeout=20) == 42


def test_a_connection_that_commits_by_itself_commits_the_whole_job(migrated_sqlite: str) -> None:
    app = make_shop(migrated_sqlite)
    with closing(sqlite3.connect(lenders.path_of(migrated_sqlite), isolation_level=None)) as connection:
        app.sync.enqueue(double, 8, connection=connection)
        assert not connection.in_transaction

    assert queued(migrated_sqlite) == ["8"]


def test_a_psycopg_connection_that_commits_by_itself_commits_the_whole_job(postgres_url: str) -> None:
    migrate(postgres_url)
    app = make_shop(postgres_url)
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        app.sync.enqueue(double, 8, connection=connection)
        assert queued(postgres_url) == ["8"]

        with connection.transaction(force_rollback=True):
            app.sync.enqueue(double, 9, connection=connection)
        assert queued(postgres_url) == ["8"]


def test_the_callers_own_rows_keep_their_shape(migrated_sqlite: str) -> None:
    app = make_shop(migrated_sqlite)
    with closing(sqlite3.connect(lenders.path_of(migrated_sqlite))) as connection:
        connection.row_factory = sqlite3.Row
        app.sync.enqueue(double, 8, connection=connection)

        assert connection.row_factory is sqlite3.Row
        assert dict(connection.execute("SELECT 1 AS one").fetchone()) == {"one": 1}


class ShoutingLoader(Loader):
    """A loader of the caller's, which changes what it reads."""

    def load(self, data: Buffer) -> str:
        return bytes(data).decode().upper() + "!"


class ShoutingDumper(StrDumper):
    """A dumper of the caller's, which changes what it writes."""

    def dump(self, obj: str) -> bytes:
        return obj.upper().encode()


TYPES = ("text", "int8", "int4", "bool", "json", "timestamptz")


def convert(connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> None:
    for name in TYPES:
        connection.adapters.register_loader(name, ShoutingLoader)
    connection.adapters.register_dumper(str, ShoutingDumper)


@pytest.mark.parametrize("unique_for", [None, timedelta(hours=1)])
async def test_a_callers_own_adapters_change_no_job(postgres_url: str, unique_for: timedelta | None) -> None:
    migrate(postgres_url)
    app = make_shop(postgres_url)
    with psycopg.connect(postgres_url) as connection:
        convert(connection)
        first = app.sync.enqueue(double, 1, unique_for=unique_for, connection=connection)
        app.sync.enqueue_many(double, [2, 3], unique_for=unique_for, connection=connection)
        shown = connection.execute("SELECT 'shown'::text").fetchone()
    async with await psycopg.AsyncConnection.connect(postgres_url) as waited:
        convert(waited)
        again = await app.enqueue(double, 1, unique_for=unique_for, connection=waited)
        await app.enqueue_many(double, [4, 5], unique_for=unique_for, connection=waited)

    assert shown == ("SHOWN!",), "the caller's own statements are read as before"
    assert (again.id == first.id) is bool(unique_for)
    assert sorted(set(queued(postgres_url))) == ["1", "2", "3", "4", "5"]


@pytest.mark.parametrize("unique_for", [None, timedelta(hours=1)])
def test_jobs_with_an_input_pass_a_session_that_refuses_nulls_in_arrays(
    postgres_url: str, unique_for: timedelta | None
) -> None:
    migrate(postgres_url)
    app = make_shop(postgres_url)
    with psycopg.connect(postgres_url, options="-c array_nulls=off") as connection:
        app.sync.enqueue(double, 1, unique_for=unique_for, connection=connection)
        app.sync.enqueue_many(double, [2, 3], unique_for=unique_for, connection=connection)

    assert queued(postgres_url) == ["1", "2", "3"]


def as_shouted(text: bytes) -> str:
    return text.decode().upper() + "!"


@pytest.mark.parametrize("factory", [bytes, as_shouted], ids=["bytes", "function"])
@pytest.mark.parametrize("unique_for", [None, timedelta(hours=1)])
def test_a_callers_own_text_factory_changes_no_job(
    migrated_sqlite: str, unique_for: timedelta | None, factory: Callable[[bytes], str | bytes]
) -> None:
    app = make_shop(migrated_sqlite)
    with closing(sqlite3.connect(lenders.path_of(migrated_sqlite))) as connection:
        connection.text_factory = factory
        first = app.sync.enqueue(double, 1, unique_for=unique_for, connection=connection)
        again = app.sync.enqueue(double, 1, unique_for=unique_for, connection=connection)
        app.sync.enqueue_many(double, [2, 3], unique_for=unique_for, connection=connection)
        connection.commit()
        shown = connection.execute("SELECT 'shown'").fetchone()

    assert shown == (factory(b"shown"),)
    assert (again.id == first.id) is bool(unique_for)
    assert sorted(set(queued(migrated_sqlite))) == ["1", "2", "3"]


def test_the_callers_own_postgres_rows_keep_their_shape(postgres_url: str) -> None:
    migrate(postgres_url)
    app = make_shop(postgres_url)
    with psycopg.connect(postgres_url, row_factory=dict_row) as connection:
        app.sync.enqueue(double, 8, connection=connection)

        assert connection.execute("SELECT '{\"a\": 1}'::json AS it").fetchone() == {"it": {"a": 1}}


def test_a_refused_job_leaves_the_callers_work_alone(migrated_sqlite: str) -> None:
    app = make_shop(migrated_sqlite)
    with closing(sqlite3.connect(lenders.path_of(migrated_sqlite))) as connection:
        connection.execute("CREATE TABLE mine (id INTEGER)")
        connection.execute("INSERT INTO mine VALUES (1)")
        connection.execute(
            "CREATE TEMP TRIGGER refuse BEFORE INSERT ON work_queue BEGIN SELECT raise(ABORT, 'no'); END"
        )
        with pytest.raises((sqlite3.IntegrityError, RowConflictError)):
            app.sync.enqueue(double, 8, connection=connection)
        connection.commit()

        assert connection.execute("SELECT id FROM mine").fetchall() == [(1,)]
    assert queued(migrated_sqlite) == []


async def test_an_asyncpg_connection_without_a_transaction_commits_the_whole_job(postgres_url: str) -> None:
    migrate(postgres_url)
    app = make_shop(postgres_url)
    connection = await asyncpg.connect(postgres_url)
    await app.enqueue(double, 8, connection=connection)
    assert queued(postgres_url) == ["8"]

    await connection.close()


async def test_every_option_of_a_job_passes_an_asyncpg_connection(postgres_url: str) -> None:
    migrate(postgres_url)
    app = make_shop(postgres_url)
    connection = await asyncpg.connect(postgres_url)
    await connection.set_type_codec("json", encoder=repr, decoder=repr, schema="pg_catalog")
    options: EnqueueKeywords = {
        "group": "new",
        "priority": 7,
        "delay": timedelta(minutes=1),
        "max_retries": 4,
        "retry": False,
        "retry_delay": timedelta(seconds=1.5),
        "timeout": NO_TIMEOUT,
        "unique_for": timedelta(hours=1),
        "connection": connection,
    }
    first = await app.enqueue(double, 8, **options)
    again = await app.enqueue(double, 8, **options)

    assert again.id == first.id
    assert not again.is_new
    assert queued(postgres_url) == ["8"]
    await connection.close()


async def test_a_job_that_postgresql_refuses_is_one_error_on_every_driver(postgres_url: str) -> None:
    migrate(postgres_url)
    app = make_shop(postgres_url)
    with psycopg.connect(postgres_url, autocommit=True) as admin:
        admin.execute("ALTER TABLE gandy.work_queue ADD CONSTRAINT no_eights CHECK (input::text <> '8')")
    connection = await asyncpg.connect(postgres_url)
    with pytest.raises(RowConflictError, match="no_eights"):
        await app.enqueue(double, 8, connection=connection)
    await app.enqueue(double, 9, connection=connection)
    await connection.close()

    assert queued(postgres_url) == ["9"]


async def test_an_asyncpg_connection_to_a_database_without_tables_is_refused(postgres_url: str) -> None:
    app = make_shop(postgres_url)
    async with lenders.plain_asyncpg(postgres_url) as lent:
        with pytest.raises(BorrowedConnectionError, match="no Gandy tables"):
            await app.enqueue(double, 1, connection=lent.connection)


def test_what_is_no_connection_is_refused_with_the_kinds_that_are(migrated_sqlite: str) -> None:
    app = make_shop(migrated_sqlite)
    with pytest.raises(BorrowedConnectionError, match=r"psycopg 3 connection .* asyncpg connection"):
        app.sync.enqueue(double, 1, connection="sqlite3")


def test_a_connection_to_another_kind_of_database_is_refused(migrated_sqlite: str, postgres_url: str) -> None:
    app = make_shop(migrated_sqlite)
    with (
        psycopg.connect(postgres_url) as connection,
        pytest.raises(BorrowedConnectionError, match=r"leads to PostgreSQL, .* in SQLite"),
    ):
        app.sync.enqueue(double, 1, connection=connection)


def test_a_database_without_tables_is_refused(database_url: str) -> None:
    app = make_shop(database_url)
    lender: Any = lenders.plain_sqlite if database_url.startswith("sqlite") else lenders.plain_psycopg
    with lender(database_url) as lent, pytest.raises(BorrowedConnectionError, match="no Gandy tables"):
        app.sync.enqueue(double, 1, connection=lent.connection)


async def test_an_async_connection_is_for_the_async_face(postgres_url: str) -> None:
    migrate(postgres_url)
    app = make_shop(postgres_url)
    for lender in ASYNC:
        async with lender(postgres_url) as lent:
            with pytest.raises(BorrowedConnectionError, match="is async"):
                app.sync.enqueue(double, 1, connection=lent.connection)
