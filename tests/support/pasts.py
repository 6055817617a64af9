"""The fixtures that give a test its past; a folder's conftest takes them over."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import psycopg
import pytest

from gandy.store.drivers.opening import migrate
from tests.support.history import Past
from tests.support.world import START, open_world

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from tests.support.databases import DatabaseHome, SqliteHome
    from tests.support.postgres import PostgresServer
    from tests.support.world import World

#: The layout as it would be, had the database been migrated when the clock of the tests starts.
DAYS_FROM_THE_START = f"""
DO $$
DECLARE leaf record; begin_on date := '{START.date()}';
BEGIN
    FOR leaf IN SELECT relname FROM pg_class WHERE relname ~ '^(log|history)_[0-9]{{8}}$' LOOP
        EXECUTE format('DROP TABLE gandy.%I', leaf.relname);
    END LOOP;
    FOR ahead IN 0..33 LOOP
        PERFORM gandy.add_history_day(begin_on + ahead);
    END LOOP;
    UPDATE gandy.history_horizon SET since = begin_on, until = begin_on + 34;
END $$
"""  # noqa: S608 the date of a constant


def prepare(url: str) -> None:
    """Migrate, and begin the days of history with the clock of the tests."""
    migrate(url)
    if not url.startswith("sqlite"):
        with psycopg.connect(url) as connection:
            connection.execute(DAYS_FROM_THE_START.encode())


@pytest.fixture
def migrated_url(database_home: DatabaseHome) -> Iterator[str]:
    """A fresh database of each kind in turn, whose days begin when the clock does."""
    with database_home.database(database_home.template("past", prepare)) as url:
        yield url


@pytest.fixture
def past(world: World) -> Past:
    """A database with a past."""
    return Past(world)


@pytest.fixture
async def sqlite_past(sqlite_home: SqliteHome) -> AsyncIterator[Past]:
    """A past on SQLite alone, for what only it has."""
    async with _past_in(sqlite_home) as found:
        yield found


@pytest.fixture
async def postgres_past(postgres_server: PostgresServer) -> AsyncIterator[Past]:
    """A past on PostgreSQL alone, for what only it has."""
    async with _past_in(postgres_server) as found:
        yield found


@asynccontextmanager
async def _past_in(home: DatabaseHome) -> AsyncIterator[Past]:
    with home.database(home.template("past", prepare)) as url:
        world = await open_world(url)
        yield Past(world)
        await world.database.close()
