"""What an application sends to its database, as its driver sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gandy.store.drivers import sqlite
from gandy.store.drivers.postgres import PostgresTransaction
from gandy.store.drivers.sqlite_steps import execute_step

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from gandy.store.statements import Rows, Step


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> list[Step]:
    """Every statement that an application runs from here on."""
    seen: list[Step] = []
    on_postgres = PostgresTransaction._execute

    async def remembering(self: PostgresTransaction, step: Step) -> Rows:
        seen.append(step)
        return await on_postgres(self, step)

    def remembering_too(connection: sqlite3.Connection, step: Step) -> Rows:
        seen.append(step)
        return execute_step(connection, step)

    monkeypatch.setattr(PostgresTransaction, "_execute", remembering)
    monkeypatch.setattr(sqlite, "execute_step", remembering_too)
    return seen


def make_scratch_tables(connection: sqlite3.Connection, parts: Sequence[str]) -> None:
    """Make the temporary tables in which the parts of a statement collect a set."""
    for part in parts:
        if "CREATE TEMP TABLE" in part:
            connection.execute(part)


def machine_steps(connection: sqlite3.Connection, step: Step) -> int:
    """Count what SQLite's machine does for a statement, in hundreds of its instructions."""
    hundreds = 0

    def count() -> int:
        nonlocal hundreds
        hundreds += 1
        return 0

    connection.set_progress_handler(count, 100)
    execute_step(connection, step)
    connection.set_progress_handler(None, 0)
    return hundreds
