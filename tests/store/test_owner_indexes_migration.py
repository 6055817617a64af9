"""The tables of a database of the version before get the indexes that new tables have."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import psycopg
import pytest

from gandy.store.drivers import migrate as migrations
from gandy.store.drivers.opening import migrate

if TYPE_CHECKING:
    from collections.abc import Callable

    from gandy.store.drivers.migrate import Migration
    from gandy.store.statements import Dialect
    from tests.support.databases import SqliteHome

OWNED = next(
    each.version for each in migrations.load_migrations("sqlite") if each.name.endswith("owner_indexes")
)
INDEXES = "SELECT tablename, indexdef FROM pg_indexes WHERE schemaname = 'gandy' AND tablename LIKE %s"


@pytest.fixture
def before(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Migrate a database to the version before."""

    def migrate_to_before(url: str) -> None:
        load = migrations.load_migrations

        def earlier(dialect: Dialect) -> tuple[Migration, ...]:
            return tuple(each for each in load(dialect) if each.version < OWNED)

        with monkeypatch.context() as patch:
            patch.setattr(migrations, "load_migrations", earlier)
            migrate(url)

    return migrate_to_before


def test_old_partitions_get_the_indexes_of_new_ones(postgres_url: str, before: Callable[[str], None]) -> None:
    before(postgres_url)
    with psycopg.connect(postgres_url, autocommit=True) as link:
        link.execute("SELECT gandy.add_history_day('2026-01-05'), gandy.add_history_piece('2026-01-05', 1)")
        old = columns_of(link, "history\\_20260105%")
    migrate(postgres_url)
    with psycopg.connect(postgres_url, autocommit=True) as link:
        link.execute("SELECT gandy.add_history_day('2026-01-06')")
        (new,) = columns_of(link, "history\\_20260106").values()
        after = columns_of(link, "history\\_20260105%") | columns_of(link, "history\\_rowwise")

    assert {"(name, start_time)" in each for each in old.values()} == {True}
    assert len(after) == 3
    assert {
        table: new - indexes - {"(id)"} for table, indexes in after.items() if new - indexes - {"(id)"}
    } == {}
    assert not any("(name, start_time)" in indexes for indexes in after.values())


def test_the_index_of_trains_is_led_by_the_owner(
    sqlite_home: SqliteHome, before: Callable[[str], None]
) -> None:
    with sqlite_home.database() as url:
        before(url)
        migrate(url)
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as file:
            columns = [row[2] for row in file.execute("PRAGMA index_info(ix_history_name)")]

    assert columns == ["owner", "name", "start_time"]


def columns_of(link: psycopg.Connection, tables: str) -> dict[str, set[str]]:
    """Return what each index of some tables holds."""
    found: dict[str, set[str]] = {}
    for table, definition in link.execute(INDEXES, [tables]).fetchall():
        found.setdefault(table, set()).add(re.sub(r".* USING btree ", "", definition))
    return found
