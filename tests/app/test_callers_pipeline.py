"""A caller's connection in pipeline mode, in which psycopg returns from a statement before it has run."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import psycopg
import pytest
import sqlalchemy

from gandy.errors import RowConflictError
from gandy.store.drivers.opening import migrate
from tests.app.shop import double, make_shop

HOUR = timedelta(hours=1)
EITHER = pytest.mark.parametrize("unique_for", [None, HOUR], ids=["plain", "unique"])


@pytest.fixture
def url(postgres_url: str) -> str:
    migrate(postgres_url)
    return postgres_url


def queued(url: str) -> Counter[int]:
    """How many entries each input has."""
    with psycopg.connect(url) as connection:
        return Counter(int(row[0]) for row in connection.execute("SELECT input::text FROM gandy.work_queue"))


@EITHER
@pytest.mark.parametrize("autocommit", [False, True])
async def test_every_job_of_a_pipeline_is_queued_once_with_its_id(
    url: str, unique_for: timedelta | None, *, autocommit: bool
) -> None:
    app = make_shop(url)
    connection = await psycopg.AsyncConnection.connect(url, autocommit=autocommit)
    async with connection, connection.pipeline():
        one = await app.enqueue(double, 1, connection=connection, unique_for=unique_for)
        many = await app.enqueue_many(double, range(2, 5002), connection=connection, unique_for=unique_for)

    assert queued(url) == Counter(range(1, 5002))
    assert len({one.id, *(job.id for job in many)}) == 5001


@EITHER
@pytest.mark.parametrize("autocommit", [False, True])
def test_every_job_of_a_blocking_pipeline_is_queued_once(
    url: str, unique_for: timedelta | None, *, autocommit: bool
) -> None:
    app = make_shop(url)
    with psycopg.connect(url, autocommit=autocommit) as connection, connection.pipeline():
        one = app.sync.enqueue(double, 1, connection=connection, unique_for=unique_for)
        many = app.sync.enqueue_many(double, [2, 3], connection=connection, unique_for=unique_for)
        again = app.sync.enqueue(double, 1, connection=connection, unique_for=unique_for)

    expected = Counter([1, 2, 3]) if unique_for else Counter([1, 1, 2, 3])
    assert queued(url) == expected
    assert (again.id == one.id) is bool(unique_for)
    assert len(many) == 2


def test_a_pipeline_of_a_sqlalchemy_connection_is_a_pipeline_too(url: str) -> None:
    app = make_shop(url)
    engine = sqlalchemy.create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    with engine.begin() as connection:
        driver = connection.connection.driver_connection
        assert isinstance(driver, psycopg.Connection)
        with driver.pipeline():
            app.sync.enqueue_many(double, [1, 2], connection=connection, unique_for=HOUR)
    engine.dispose()

    assert queued(url) == Counter([1, 2])


@EITHER
def test_a_pipeline_that_is_rolled_back_queues_nothing(url: str, unique_for: timedelta | None) -> None:
    app = make_shop(url)
    with psycopg.connect(url) as connection:
        with connection.pipeline():
            connection.execute("CREATE TABLE mine (n integer)")
            app.sync.enqueue(double, 1, connection=connection, unique_for=unique_for)
        connection.rollback()

    assert queued(url) == Counter()


async def test_the_callers_own_statements_keep_their_place_in_the_pipeline(url: str) -> None:
    app = make_shop(url)
    async with await psycopg.AsyncConnection.connect(url) as connection:
        async with connection.pipeline():
            await connection.execute("CREATE TEMP TABLE mine (n integer)")
            await connection.execute("INSERT INTO mine VALUES (7)")
            await app.enqueue(double, 1, connection=connection)
            found = await connection.execute("SELECT n FROM mine")
            await connection.execute("INSERT INTO mine VALUES (8)")
        assert await found.fetchall() == [(7,)]

    assert queued(url) == Counter([1])


def test_an_error_of_the_callers_own_statement_is_not_taken_for_one_of_the_job(url: str) -> None:
    app = make_shop(url)
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TEMP TABLE mine (n integer PRIMARY KEY)")
        with connection.pipeline():
            connection.execute("INSERT INTO mine VALUES (1), (1)")
            with pytest.raises(psycopg.errors.UniqueViolation):
                app.sync.enqueue(double, 1, connection=connection)
        connection.rollback()

    assert queued(url) == Counter()


def test_a_transaction_that_the_callers_pipeline_has_just_begun_is_the_jobs(url: str) -> None:
    app = make_shop(url)
    with psycopg.connect(url, autocommit=True) as connection, connection.pipeline():
        connection.execute("BEGIN")
        app.sync.enqueue(double, 1, connection=connection)
        connection.execute("ROLLBACK")
        app.sync.enqueue(double, 2, connection=connection)

    assert queued(url) == Counter([2])


def test_a_job_that_is_refused_in_a_pipeline_is_the_error_of_any_other_refusal(url: str) -> None:
    app = make_shop(url)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("ALTER TABLE gandy.work_queue ADD CONSTRAINT no_eights CHECK (input::text <> '8')")
        with connection.pipeline():
            with pytest.raises(RowConflictError, match="no_eights"):
                app.sync.enqueue(double, 8, connection=connection)
            app.sync.enqueue(double, 9, connection=connection)

    assert queued(url) == Counter([9])
