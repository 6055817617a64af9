"""The trail of the version before finds its entries by everything that they changed."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import psycopg
import pytest

from gandy.store.drivers import migrate as migrations
from gandy.store.drivers.opening import migrate
from tests.doors.neighbours import rows

if TYPE_CHECKING:
    from gandy.store.drivers.migrate import Migration
    from gandy.store.statements import Dialect

ANSWERS = next(each.version for each in migrations.load_migrations("sqlite") if each.name.endswith("answers"))
#: The subject, the details and every name by which an entry is found.
TRAIL = (
    ("nightly", None, {"nightly"}),
    ("Sell", {"entry": 7}, {"Sell", "7"}),
    ("2 jobs", {"cancelled": [8], "asked": [9]}, {"2 jobs", "8", "9"}),
    (
        "2 dead letters",
        {"letters": [1, 2], "entries": [10, 11]},
        {"2 dead letters", "dead letter 1", "dead letter 2", "10", "11"},
    ),
    ("etl", {"entries": 3}, {"etl"}),
)


@pytest.fixture
def old_url(database_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A database as the code before made it, with a trail."""
    load = migrations.load_migrations

    def earlier(dialect: Dialect) -> tuple[Migration, ...]:
        return tuple(each for each in load(dialect) if each.version < ANSWERS)

    with monkeypatch.context() as patch:
        patch.setattr(migrations, "load_migrations", earlier)
        migrate(database_url)
    insert = """INSERT INTO audit (at, owner, actor, face, action, subject, detail)
                VALUES ('2026-01-05T12:00:00.000000Z', 'old', 'ada', 'cli', 'did', ?, ?)"""
    values = [(subject, None if detail is None else json.dumps(detail)) for subject, detail, _ in TRAIL]
    if database_url.startswith("sqlite"):
        with closing(sqlite3.connect(database_url.removeprefix("sqlite:///"))) as file, file:
            file.executemany(insert, values)
    else:
        with psycopg.connect(database_url, options="-c search_path=gandy") as link:
            link.cursor().executemany(insert.replace("?", "%s").encode(), values)
    return database_url


def test_old_entries_are_found_by_all_that_they_changed(old_url: str) -> None:
    migrate(old_url)

    found = rows(
        old_url,
        "SELECT a.subject AS deed, s.subject, s.owner FROM audit_subject s JOIN audit a ON a.id = s.audit_id",
    )
    for subject, _, names in TRAIL:
        assert {row["subject"] for row in found if row["deed"] == subject} == names
    assert {row["owner"] for row in found} == {"old"}
