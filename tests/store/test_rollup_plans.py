"""Statistics and samples are read and merged by index, at the price of the answer, beside a large owner."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from gandy.store.drivers.opening import migrate
from gandy.store.drivers.sqlite_steps import statement_parts
from gandy.store.drivers.sqlite_values import StatementClock
from tests.store.volumes import explain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.store.volumes import PlanKind
    from tests.support.databases import SqliteHome
    from tests.support.postgres import PostgresServer

Link = psycopg.Connection[Any]

NOW = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)
FILL = Path(__file__).with_name("rollup_plans.sql").read_text(encoding="utf-8")
SUMS = {
    "completed": [1] * 5,
    "failed": [0] * 5,
    "cancelled": [0] * 5,
    "longest_wait_seconds": [1.0] * 5,
    "longest_seconds": [1.0] * 5,
    "waits": ["1:1 "] * 5,
    "durations": ["1:1 "] * 5,
}
KEYS = {
    "owner": ["shop"] * 5,
    "scope": ["manifest"] * 5,
    "grain": ["hour"] * 5,
    "at": [NOW] * 5,
    "train_name": ["Sell"] * 5,
    "manifest_id": [1, 2, 3, 4, 5],
}
WINDOW = {"owner": "shop", "grain": "hour", "since": NOW - 9 * HOUR, "train": None}
FIRST = {"after_at": None, "after_id": None, "limit": 20}
STATEMENTS: dict[str, dict[str, object]] = {
    "list_train_rollups": WINDOW,
    "rank_manifest_rollups": {**WINDOW, "sort": "failed", "limit": 20, "searched": 100_000},
    "list_manifest_rollups": {**WINDOW, "manifest_ids": [1, 2, 3]},
    "count_ended_by_minute": {"owner": "shop", "since": NOW - HOUR},
    "load_rollups": KEYS,
    "write_rollups": {**KEYS, **SUMS},
    "write_tallies": {
        **SUMS,
        "owner": "shop",
        "worker_id": "worker",
        **{name: KEYS[name] for name in ("train_name", "manifest_id", "at")},
    },
    "find_ended_tallies": {"before": NOW, **FIRST},
    "take_tallies": {"since": NOW - HOUR, "until": NOW - 9 * timedelta(minutes=1), "ids": "{1,2,3}"},
    "find_old_rollups": {"grain": "minute", "before": NOW, **FIRST},
    "delete_old_rollups": {"grain": "minute", "before": NOW - timedelta(minutes=8), "ids": "{1,2,3}"},
    "list_samples": {"owner": "shop", "since": NOW - HOUR, "is_daily": False, "limit": 1_000},
    "write_samples": {
        "owner": "shop",
        "scheduler": "rules",
        "table_name": ["table-1", "table-2"],
        "rows": [1, 2],
        "bytes": [1, 2],
        "lag_seconds": [None, 1.0],
    },
    "find_old_samples": {"is_daily": True, "before": NOW, **FIRST},
    "delete_old_samples": {"is_daily": True, "before": NOW - timedelta(hours=190), "ids": "{1,2,3}"},
}
#: Tallies and rollups of the small owner, with those of the large one in the oldest minute.
MOST_ROWS = 4_500
GROWING = re.compile(r"^SCAN (?:run_tally|run_rollup|table_sample|[trm])\b(?! USING)")


def fill(url: str) -> None:
    migrate(url)
    with psycopg.connect(url, autocommit=True) as connection:
        for part in FILL.split(";\n"):
            connection.execute(part.encode())


@pytest.fixture
def link(postgres_server: PostgresServer) -> Iterator[Link]:
    name = postgres_server.template("rollups", fill)
    with psycopg.connect(
        postgres_server.url(postgres_server._templates[name]), autocommit=True
    ) as connection:
        yield connection


@pytest.mark.postgres
@pytest.mark.xdist_group("rollup-plans")
@pytest.mark.parametrize("kind", ["force_generic_plan", "force_custom_plan"])
@pytest.mark.parametrize("name", STATEMENTS)
def test_no_statement_reads_a_whole_table(link: Link, name: str, kind: PlanKind) -> None:
    plan = explain(link, name, kind, **STATEMENTS[name])

    assert plan.whole_tables_read & {"run_tally", "run_rollup", "table_sample"} == set()
    assert plan.rows_examined <= MOST_ROWS
    assert "Gather" not in {node["Node Type"] for node in plan.nodes()}, "workers cost more than such a read"


@pytest.mark.parametrize("name", STATEMENTS)
def test_no_statement_walks_a_table_of_sqlite(sqlite_home: SqliteHome, name: str) -> None:
    with sqlite_home.database() as url:
        migrate(url)
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
            StatementClock(lambda: NOW).register(connection)
            steps = [
                row[3]
                for part in statement_parts(name)
                for row in connection.execute(f"EXPLAIN QUERY PLAN {part}", _values(part))
            ]

    assert [step for step in steps if GROWING.search(step)] == []


def _values(part: str) -> dict[str, object]:
    names = re.findall(r"(?<![:\w]):([a-z_]\w*)", part)
    return {name: "[]" if name in {"ids", "manifest_ids"} else 1 for name in names}
