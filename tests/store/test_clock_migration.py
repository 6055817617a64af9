"""The migration that makes the queue again keeps every row and never gives an id twice."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

from gandy.store.drivers.migrate import load_migrations
from gandy.store.drivers.opening import migrate

if TYPE_CHECKING:
    from pathlib import Path

INSTANT = "2026-03-01T12:00:00.000000Z"
ROW = f"""INSERT INTO work_queue (
    owner, train_name, manifest_group_id, status, reason, origin, due_at, scheduled_at, created_at)
VALUES ('shop', 'sell', 1, 'skipped', %s, 'schedule', '{INSTANT}', '{INSTANT}', '{INSTANT}') RETURNING id"""  # noqa: S608


def test_rows_of_the_queue_are_kept_and_ids_go_on(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "old.db", isolation_level=None)) as database:
        for migration in load_migrations("sqlite"):
            if migration.name.endswith("_clock"):
                break
            database.executescript(migration.sql)
            version = (migration.version, migration.compatible_from)
            database.execute("INSERT INTO schema_version (version, compatible_from) VALUES (?, ?)", version)
        for reason in ("'misfired'", "'error'"):
            database.execute(ROW % reason).fetchone()
        before = database.execute("SELECT * FROM work_queue WHERE reason = 'misfired'").fetchall()
        database.execute("DELETE FROM work_queue WHERE reason = 'error'")
        indexes = _indexes(database)

    migrate(f"sqlite:///{tmp_path / 'old.db'}")

    with closing(sqlite3.connect(tmp_path / "old.db", isolation_level=None)) as database:
        after = database.execute("SELECT * FROM work_queue WHERE reason = 'misfired'").fetchall()
        next_id = database.execute(ROW % "'clock'").fetchone()[0]
        made = _indexes(database)
        assert database.execute("SELECT * FROM manifest_dispatch").fetchall() == []
    assert after == before
    assert next_id == before[0][0] + 2
    assert made == indexes


def _indexes(database: sqlite3.Connection) -> list[tuple[str, str]]:
    of_the_queue = "type = 'index' AND tbl_name = 'work_queue' AND sql <> ''"
    found = database.execute(f"SELECT name, sql FROM sqlite_master WHERE {of_the_queue} ORDER BY name")  # noqa: S608
    return list(found.fetchall())
