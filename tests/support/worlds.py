"""The fixtures that give a test its world; a folder's conftest takes them over."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from gandy.scheduler.repair import repair_hints
from gandy.store.drivers.opening import migrate
from tests.support.world import open_world

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from tests.support.databases import DatabaseHome, SqliteHome
    from tests.support.postgres import PostgresServer
    from tests.support.world import World


@pytest.fixture
def migrated_url(database_home: DatabaseHome) -> Iterator[str]:
    """A fresh database with Gandy's tables, of each kind in turn."""
    template = database_home.template("migrated", lambda url: (migrate(url), None)[1])
    with database_home.database(template) as url:
        yield url


@pytest.fixture
async def world(migrated_url: str) -> AsyncIterator[World]:
    """An open database whose clock only the test moves."""
    opened = await open_world(migrated_url)
    opened.links = []
    yield opened
    opened.close_links()
    # A hint that has to be repaired is a bug, whatever the test was about.
    repair = await repair_hints(opened.database, page=100_000, is_requested=True)
    await opened.database.close()
    assert (repair.repaired, repair.healed) == (0, 0)


@pytest.fixture
async def sqlite_world(sqlite_home: SqliteHome) -> AsyncIterator[World]:
    """The same on SQLite alone, for what only it has."""
    async with _world_in(sqlite_home) as opened:
        yield opened


@pytest.fixture
async def postgres_world(postgres_server: PostgresServer) -> AsyncIterator[World]:
    """The same on PostgreSQL alone, for what only it has."""
    async with _world_in(postgres_server) as opened:
        yield opened


@asynccontextmanager
async def _world_in(home: DatabaseHome) -> AsyncIterator[World]:
    template = home.template("migrated", lambda url: (migrate(url), None)[1])
    with home.database(template) as url:
        opened = await open_world(url)
        opened.links = []
        yield opened
        opened.close_links()
        await opened.database.close()
