"""Batched deletion with requeue: what one run deletes, and whether the next is queued."""

from __future__ import annotations

from contextlib import closing
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from gandy.clock import ManualClock
from gandy.errors import RuleRefusedError
from gandy.lifecycle import SweepOptions, Table, older_than
from gandy.lifecycle.database.dialect import LockPatience
from gandy.lifecycle.database.target import open_target
from gandy.lifecycle.entry import DeletedRows, delete_old_rows
from gandy.lifecycle.state.lease import take_lease
from gandy.lifecycle.state.setup import ensure_tables
from tests.lifecycle.ground import NOW, ago

if TYPE_CHECKING:
    from tests.lifecycle.ground import Ground

TABLE = Table("data", [older_than("minute", keep_for="90d")])
BY = SweepOptions(clock=ManualClock(NOW))


def make(ground: Ground, expired: int, retained: int = 1) -> None:
    ground.run("CREATE TABLE data (id {key}, minute {instant})", "CREATE INDEX by_minute ON data (minute)")
    ground.fill("data", [(n, ago(days=90, hours=1, seconds=n)) for n in range(1, expired + 1)])
    ground.fill("data", [(1000 + n, ago(days=89, hours=23)) for n in range(retained)])


def delete(ground: Ground, limit: int = 500, table: Table = TABLE) -> DeletedRows:
    return delete_old_rows(table, ground.url, limit=limit, options=BY)


def test_expired_rows_go_and_retained_ones_stay(ground: Ground) -> None:
    make(ground, 1)

    done = delete(ground)

    assert ground.ids("data") == [1000]
    assert (done.deleted, done.has_more) == (1, False)


def test_reaching_the_limit_asks_for_another_run(ground: Ground) -> None:
    make(ground, 2)

    assert delete(ground, limit=1).has_more
    assert len(ground.ids("data")) == 2


def test_exactly_as_many_rows_as_the_limit_ask_for_one_more_run_that_ends_it(ground: Ground) -> None:
    make(ground, 5)

    runs = [delete(ground, limit=5) for _ in range(2)]

    assert [(run.deleted, run.has_more) for run in runs] == [(5, True), (0, False)]


def test_a_chain_of_runs_deletes_everything(ground: Ground) -> None:
    make(ground, 23)
    runs = [delete(ground, limit=5)]
    while runs[-1].has_more:
        runs.append(delete(ground, limit=5))

    assert [run.deleted for run in runs] == [5, 5, 5, 5, 3]
    assert ground.ids("data") == [1000]


def test_a_second_start_while_one_runs_deletes_nothing_and_asks_for_nothing(ground: Ground) -> None:
    make(ground, 5)
    with open_target(ground.url, clock=ManualClock(NOW)) as session:
        ensure_tables(session)
        assert take_lease(session, "delete_old_rows.data") is not None

        second = delete(ground, limit=5)

    assert (second.deleted, second.has_more, second.is_second_start) == (0, False, True)
    assert len(ground.ids("data")) == 6


def test_a_cascade_does_not_change_the_count(ground: Ground) -> None:
    make(ground, 3)
    ground.run(
        "CREATE TABLE part (id {key}, data_id bigint REFERENCES data (id) ON DELETE CASCADE)",
        "CREATE INDEX by_data ON part (data_id)",
    )
    ground.fill("part", [(n, n % 3 + 1) for n in range(9)])
    table = Table("data", TABLE.rules, children={"part.data_id": "cascade"})

    done = delete(ground, limit=5, table=table)

    assert (done.deleted, done.children, done.has_more) == (3, {"part": 9}, False)


def test_rows_that_are_locked_are_passed_over_and_do_not_end_the_chain_early(postgres: Ground) -> None:
    make(postgres, 8)
    impatient = SweepOptions(clock=ManualClock(NOW), patience=LockPatience(lock=timedelta(milliseconds=20)))
    with closing(postgres.connect()) as holder:
        holder.execute("BEGIN")
        holder.execute("SELECT FROM data WHERE id = 8 FOR UPDATE")
        done = delete_old_rows(TABLE, postgres.url, limit=5, options=impatient)

    assert (done.deleted, done.has_more) == (5, True)
    assert postgres.ids("data") == [1, 2, 8, 1000]


def test_a_table_that_may_not_be_swept_is_an_error(ground: Ground) -> None:
    make(ground, 3)
    ground.run("CREATE TABLE part (id {key}, data_id bigint REFERENCES data (id))")

    with pytest.raises(RuleRefusedError, match=r"part\.data_id"):
        delete(ground)
