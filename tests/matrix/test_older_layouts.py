"""What an older version of Gandy stored goes on after the migration, each kind that it had."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import pytest

from gandy.store.drivers import migrate as migrations
from gandy.store.drivers.opening import migrate
from tests.matrix.stage import GROUP, PERIOD, START, staged
from tests.store.test_live_runs_migration import execute

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gandy.store.drivers.migrate import Migration
    from gandy.store.statements import Dialect

#: The last version in which a dependent had one parent, and followed its successes.
OLDER: Final = 13
DUE: Final = f"'{START + PERIOD:%Y-%m-%dT%H:%M:%S.000000Z}'"
NOW: Final = f"'{START:%Y-%m-%dT%H:%M:%S.000000Z}'"
#: The columns of each kind, and its schedule as it was declared.
KINDS: Final[Mapping[str, tuple[Mapping[str, str], Mapping[str, object]]]] = {
    "manual": ({"schedule_type": "'none'"}, {"type": "none"}),
    "cron": (
        {"schedule_type": "'cron'", "cron_expression": "'*/5 * * * *'", "next_scheduled_run": DUE},
        {"type": "cron", "expression": "*/5 * * * *", "timezone": "UTC"},
    ),
    "interval": (
        {"schedule_type": "'interval'", "interval_seconds": "300", "next_scheduled_run": DUE},
        {"type": "interval", "every": 300.0, "timezone": "UTC"},
    ),
    "once": (
        {"schedule_type": "'once'", "scheduled_at": DUE, "next_scheduled_run": DUE},
        {"type": "once", "at": (START + PERIOD).isoformat(), "delay": None, "timezone": "UTC"},
    ),
    "success": (
        {"schedule_type": "'dependent'", "depends_on_manifest_id": "1", "parent_success_seen": "3"},
        {"type": "dependent", "parent": "first"},
    ),
    "dormant": (
        {"schedule_type": "'dormant_dependent'", "depends_on_manifest_id": "1"},
        {"type": "dormant_dependent", "parent": "first"},
    ),
}


@pytest.fixture
def older_url(database_url: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A database of that version, with a parent that succeeded three times and a subject."""
    with monkeypatch.context() as patch:
        patch.setattr(migrations, "load_migrations", earlier(migrations.load_migrations))
        migrate(database_url)
    for id_, name in ((1, "default"), (2, GROUP)):
        insert(database_url, "manifest_group", {"id": str(id_), "owner": "'shop'", "name": f"'{name}'"})
    parent = manifest("first", "parent", {"schedule_type": "'none'", "success_count": "3"}, {"type": "none"})
    insert(database_url, "manifest", {**parent, "id": "1"})
    if kind == "ad-hoc":
        insert(database_url, "work_queue", WAITING)
    else:
        columns, schedule = KINDS[kind]
        insert(database_url, "manifest", {**manifest("subject", "subject", columns, schedule), "id": "2"})
    for table in ("manifest_group", "manifest", "work_queue"):
        if not database_url.startswith("sqlite"):
            execute(database_url, f"SELECT setval(pg_get_serial_sequence('{table}', 'id'), 100)")
    return database_url


def earlier(load: Any) -> Any:  # noqa: ANN401 a cached function
    def load_earlier(dialect: Dialect) -> tuple[Migration, ...]:
        return tuple(each for each in load(dialect) if each.version <= OLDER)

    return load_earlier


WAITING: Final = {
    "owner": "'shop'",
    "train_name": "'subject'",
    "input": "'\"asked\"'",
    "input_type_name": "'str'",
    "manifest_group_id": "2",
    "status": "'queued'",
    "origin": "'ad_hoc'",
    "priority": "0",
    "due_at": NOW,
    "scheduled_at": NOW,
    "attempt": "1",
}


def manifest(
    external_id: str, train: str, columns: Mapping[str, str], schedule: Mapping[str, object]
) -> dict[str, str]:
    """The columns of a manifest, and what that version noted of its declaration."""
    declared = {"train": train, "input_type": "str", "schedule": schedule, "batch": None}
    return {
        "external_id": f"'{external_id}'",
        "owner": "'shop'",
        "name": f"'{train}'",
        "manifest_group_id": "2" if train == "subject" else "1",
        "properties": "'\"declared\"'",
        "declared": f"'{json.dumps(declared)}'",
        "next_look_at": columns.get("next_scheduled_run", "NULL"),
        **columns,
    }


def insert(url: str, table: str, values: Mapping[str, str]) -> None:
    values = {**values, "created_at": NOW, **({} if table == "work_queue" else {"updated_at": NOW})}
    own_id = "" if url.startswith("sqlite") else "OVERRIDING SYSTEM VALUE"
    columns, literals = ", ".join(values), ", ".join(values.values())
    execute(url, f"INSERT INTO {table} ({columns}) {own_id} VALUES ({literals})")  # noqa: S608 written here


@pytest.mark.pair("layout migration", "manual cron interval once success dormant ad-hoc")
async def test_it_runs_once_when_it_is_next_due(older_url: str, kind: str) -> None:
    migrate(older_url)

    async with staged(older_url, kind) as stage:
        if kind != "ad-hoc":
            assert await stage.work() == []
            await stage.make_due()

        assert len(await stage.work()) == 1
        await stage.advance(timedelta(minutes=1))
        assert await stage.work() == []
