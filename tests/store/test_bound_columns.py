"""The columns of a batch: array literals of PostgreSQL, bound values of SQLite."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar, Self

import psycopg
import pytest

from gandy.store.drivers.opening import migrate
from gandy.store.drivers.postgres_values import array_literal, bind
from gandy.store.drivers.sqlite_steps import execute_step
from gandy.store.drivers.sqlite_values import StatementClock
from gandy.store.statements import batch, batch_of

if TYPE_CHECKING:
    from tests.support.databases import SqliteHome
    from tests.support.postgres import PostgresServer

TEXTS = [
    ["a", "b"],
    ['say "a"', "back\\slash", '","', "{}", "NULL", "", " "],
    ["same", "other", "same"],
    ["é", "\n", "a,b"],
    ["one"],
]


@pytest.mark.parametrize("texts", TEXTS)
def test_texts_come_back_as_they_were(postgres_server: PostgresServer, texts: list[str]) -> None:
    with postgres_server.database() as url, psycopg.connect(url) as connection:
        found = connection.execute("SELECT %s::text[]", [array_literal(texts)]).fetchone()

    assert found == (texts,)


def test_a_text_that_no_column_can_hold_is_not_taken_for_two() -> None:
    assert array_literal(["a\x00b", "c"]) == '{"a\x00b","c"}'


def test_a_column_without_values_is_empty_unless_all_are() -> None:
    names = ("id", "input", "unique_key")
    some = batch_of("queue_work", names, [(None, "1", None), (None, None, None)])
    none = batch_of("queue_work", names, [(None, None, None), (None, None, None)])

    assert bind(some) == {"id": "{}", "input": '{"1",NULL}', "unique_key": "{}"}
    assert bind(none) == {"id": "{NULL,NULL}", "input": "{}", "unique_key": "{}"}


class WatchedCursor(sqlite3.Cursor):
    """Remembers the values that were bound."""

    bound: ClassVar[list[tuple[object, ...]]] = []

    def execute(self, statement: str, values: Any = (), /) -> Self:  # noqa: ANN401 - as its parent
        self.bound.append(tuple(values))
        return super().execute(statement, values)


def test_a_null_that_all_rows_share_is_not_bound(sqlite_home: SqliteHome) -> None:
    shared = {
        "group": "default",
        "owner": "app",
        "train_name": "sync",
        "input_type_name": None,
        "priority": None,
    }
    options = {"max_retries": None, "is_retried": None, "retry_delay_seconds": None, "timeout_seconds": None}
    jobs = [(None, "1", None), (None, None, None), (None, "2", "key")]
    step = batch_of(
        "queue_work",
        ("id", "input", "unique_key"),
        jobs,
        delay_seconds=0.0,
        wake="work:app",
        **shared,
        **options,
    )
    with sqlite_home.database() as url:
        migrate(url)
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)) as file:
            StatementClock(lambda: datetime(2026, 1, 5, tzinfo=UTC)).register(file)
            execute_step(file, batch("ensure_groups", [{"name": "default"}], owner="app"))
            WatchedCursor.bound.clear()
            ids = [row.id for row in execute_step(file.cursor(WatchedCursor), step)]
            stored = file.execute("SELECT id, input, unique_key, max_retries FROM work_queue").fetchall()

    assert [len(values) for values in WatchedCursor.bound[:3]] == [7, 7, 7]
    assert stored == [(ids[0], "1", None, None), (ids[1], None, None, None), (ids[2], "2", "key", None)]
