"""A database of the version before keeps its queue, its ids and its order when entries learn to wait."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from gandy.model.run import Activation
from gandy.model.schedule import DormantDependent, Manual
from gandy.store.drivers import migrate as migrations
from gandy.store.drivers.opening import migrate
from gandy.store.queueing import trigger
from tests.support.world import OWNER, manifest, open_world

if TYPE_CHECKING:
    from gandy.store.drivers.migrate import Migration
    from gandy.store.statements import Dialect

WAITING = next(
    each.version for each in migrations.load_migrations("sqlite") if each.name.endswith("waiting_entries")
)
GROUP = """INSERT INTO manifest_group (owner, name, created_at, updated_at)
    VALUES ('old', 'default', 'INSTANT', 'INSTANT')"""
ENTRY = """INSERT INTO work_queue (owner, train_name, input, manifest_group_id, status, reason, origin,
                                   due_at, scheduled_at, created_at)
    SELECT 'old', 'Sell', '{"n": 1}', id, 'STATUS', 'misfired', 'ad_hoc', 'INSTANT', 'INSTANT', 'INSTANT'
    FROM manifest_group"""
STATUSES = ("queued", "dispatched", "cancelled", "skipped")


@pytest.fixture
def old_url(database_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A database as the code before made it, with entries of every status."""
    load = migrations.load_migrations

    def earlier(dialect: Dialect) -> tuple[Migration, ...]:
        return tuple(each for each in load(dialect) if each.version < WAITING)

    with monkeypatch.context() as patch:
        patch.setattr(migrations, "load_migrations", earlier)
        migrate(database_url)
    for text in (GROUP, *(ENTRY.replace("STATUS", status) for status in STATUSES)):
        _rows(database_url, text.replace("INSTANT", "2026-01-05T12:00:00.000000Z"))
    return database_url


def _rows(url: str, text: str) -> list[tuple[Any, ...]]:
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)) as file:
            return file.execute(text).fetchall()
    with psycopg.connect(url, options="-c search_path=gandy", autocommit=True) as link:
        cursor = link.execute(text.encode())
        return cursor.fetchall() if cursor.description else []


async def test_the_queue_of_the_version_before_is_kept_and_entries_can_wait(old_url: str) -> None:
    columns = "id, owner, train_name, CAST(input AS text), status, reason, origin, rank, due_at, external_id"
    before = _rows(old_url, f"SELECT {columns} FROM work_queue ORDER BY id")  # noqa: S608 written here
    assert len(before) == len(STATUSES)

    migrate(old_url)

    kept = [row for row in before if row[4] != "dispatched"]  # a later version ends an entry with its run
    assert _rows(old_url, f"SELECT {columns} FROM work_queue ORDER BY id") == kept  # noqa: S608 the same
    world = await open_world(old_url)
    await world.seed(
        manifest("p", schedule=Manual(), train="P"), manifest("c", schedule=DormantDependent("p"))
    )
    entry = await world.database.run(trigger("p", owner=OWNER))
    assert entry.id > before[-1][0], "an id is never given twice"
    (run,) = await world.claim("P")
    await world.finish(run, activations=(Activation("c", "1"), Activation("c", "2")))
    assert [row["status"] for row in world.entries("c")] == ["queued", "waiting"]
    await world.cycle()
    await world.database.close()
