"""The queue of SQLite, built again: its rows, its next id and the refused values stay as they were."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from gandy.store.drivers import migrate as migrations
from gandy.store.drivers.opening import migrate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gandy.store.drivers.migrate import Migration
    from gandy.store.statements import Dialect
    from tests.support.databases import SqliteHome

COMPARED = next(
    each.version
    for each in migrations.load_migrations("sqlite")
    if each.name.endswith("values_by_comparison")
)
AT = "2026-01-05T00:00:00.000000Z"
ENTRY = {
    "owner": "app",
    "train_name": "sync",
    "manifest_group_id": 1,
    "origin": "ad_hoc",
    "status": "queued",
    "train_state": None,
    "gate": "open",
    "reason": None,
    "cancellation_reason": None,
    "due_at": AT,
    "scheduled_at": AT,
    "created_at": AT,
}
INSERT = f"INSERT INTO work_queue ({', '.join(ENTRY)}) VALUES ({', '.join(':' + name for name in ENTRY)})"  # noqa: S608 our own names
ALLOWED = [
    *({"status": status} for status in ("queued", "waiting", "cancelled")),
    {"status": "dispatched", "train_state": "pending"},
    *({"gate": gate} for gate in ("open", "time", "manifest", "train")),
    *(
        {"origin": origin}
        for origin in ("schedule", "dependent", "trigger", "retry", "ad_hoc", "dormant", "requeue", "local")
    ),
    *(
        {"status": "skipped", "reason": reason}
        for reason in (
            "excluded",
            "misfired",
            "coalesced",
            "active",
            "already_queued",
            "dead_letter",
            "disabled",
            "clock",
            "error",
        )
    ),
    *(
        {"cancellation_reason": reason}
        for reason in ("operator", "timeout", "shutdown", "lease_lost", "caller", "run")
    ),
]
REFUSED = [
    *(
        {name: "other"}
        for name in ("status", "gate", "origin", "reason", "cancellation_reason", "train_state")
    ),
    *({name: "2026-01-05 00:00:00"} for name in ("due_at", "scheduled_at", "created_at")),
    {"status": "skipped"},
    {"status": "dispatched"},
]


@pytest.fixture
def file(sqlite_home: SqliteHome) -> Iterator[sqlite3.Connection]:
    """An empty file of the newest version."""
    with sqlite_home.database() as url:
        migrate(url)
        with closing(_open(url)) as connection:
            yield connection


def test_rows_stay_and_no_id_is_used_again(sqlite_home: SqliteHome, monkeypatch: pytest.MonkeyPatch) -> None:
    load = migrations.load_migrations

    def earlier(dialect: Dialect) -> tuple[Migration, ...]:
        return tuple(each for each in load(dialect) if each.version < COMPARED)

    with sqlite_home.database() as url:
        with monkeypatch.context() as patch:
            patch.setattr(migrations, "load_migrations", earlier)
            migrate(url)
        with closing(_open(url)) as connection:
            for changed in ALLOWED:
                connection.execute(INSERT, {**ENTRY, **changed})
            connection.execute("DELETE FROM work_queue WHERE id = (SELECT max(id) FROM work_queue)")
            before = _rows(connection)
        migrate(url)
        with closing(_open(url)) as connection:
            after = _rows(connection)
            added = connection.execute(INSERT, ENTRY).lastrowid

    assert after == before
    assert len(after) == len(ALLOWED) - 1
    assert added == len(ALLOWED) + 1


@pytest.mark.parametrize("changed", ALLOWED, ids=str)
def test_every_value_of_a_state_is_accepted(file: sqlite3.Connection, changed: dict[str, str]) -> None:
    assert file.execute(INSERT, {**ENTRY, **changed}).rowcount == 1


@pytest.mark.parametrize("changed", REFUSED, ids=str)
def test_any_other_value_is_refused(file: sqlite3.Connection, changed: dict[str, str]) -> None:
    with pytest.raises(sqlite3.IntegrityError, match="CHECK constraint failed"):
        file.execute(INSERT, {**ENTRY, **changed})


def test_an_entry_is_checked_without_building_a_table_of_allowed_values(file: sqlite3.Connection) -> None:
    operations = [row[1] for row in file.execute(f"EXPLAIN {INSERT}", ENTRY)]

    assert operations.count("OpenEphemeral") == 0
    assert "Insert" in operations


def _open(url: str) -> sqlite3.Connection:
    return sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)


def _rows(connection: sqlite3.Connection) -> list[dict[str, object]]:
    found = connection.execute("SELECT * FROM work_queue ORDER BY id")
    names = [column[0] for column in found.description]
    return [dict(zip(names, row, strict=True)) for row in found]
