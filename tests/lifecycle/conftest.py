"""An empty application database of each kind."""

from __future__ import annotations

import pytest

from tests.lifecycle.ground import Ground


@pytest.fixture
def ground(database_url: str) -> Ground:
    """An empty database, on PostgreSQL and on SQLite in turn."""
    return Ground(database_url)


@pytest.fixture
def postgres(postgres_url: str) -> Ground:
    """An empty PostgreSQL database."""
    return Ground(postgres_url)


@pytest.fixture
def sqlite(sqlite_url: str) -> Ground:
    """An empty SQLite database."""
    return Ground(sqlite_url)
