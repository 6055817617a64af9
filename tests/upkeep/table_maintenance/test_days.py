"""The days of history on PostgreSQL: made ahead, dropped when over, whatever was cut short before."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from datetime import date, timedelta
from typing import TYPE_CHECKING

import psycopg
import pytest

from gandy.store.partitions import read_history
from tests.conftest import DATABASES
from tests.support.world import SPANS, START, manifest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.databases import DatabaseHome
    from tests.support.history import Past

TODAY = START.date()


@pytest.fixture(params=["postgres", *(["postgres-old"] if "postgres-old" in DATABASES else [])])
def database_home(request: pytest.FixtureRequest) -> DatabaseHome:
    """Each PostgreSQL in turn: only it has days."""
    name = "postgres_server" if request.param == "postgres" else "old_postgres_server"
    home: DatabaseHome = request.getfixturevalue(name)
    return home


def days(past: Past, parent: str = "history") -> list[date]:
    rows = past.world.rows(
        "SELECT to_date(right(c.relname, 8), 'YYYYMMDD') AS day FROM pg_inherits i "
        "JOIN pg_class c ON c.oid = i.inhrelid JOIN pg_class p ON p.oid = i.inhparent "
        "WHERE p.relname = ? AND c.relname ~ '_[0-9]{8}$' ORDER BY 1",
        parent,
    )
    return [date.fromisoformat(str(row["day"])) for row in rows]


def leaves(past: Past) -> int:
    return past.count("pg_class", "relkind = 'r' AND relname ~ '^(log|history)_[0-9]{8}(_[0-9]+)*$'")


def horizon(past: Past) -> tuple[date, date]:
    (row,) = past.world.rows("SELECT since, until FROM history_horizon")
    return date.fromisoformat(str(row["since"])), date.fromisoformat(str(row["until"]))


def history_row(past: Past, **columns: object) -> dict[str, object]:
    """A row of the current day."""
    now = past.world.clock.now
    instants = dict.fromkeys(("created_at", "start_time", "end_time", "keep_until"), now)
    return {"owner": "shop", "name": "SendMail", "bucket": past.day(0), **instants, **columns}


def span(first: date, count: int) -> list[date]:
    return [first + timedelta(days=number) for number in range(count)]


@contextmanager
def reader(past: Past) -> Iterator[None]:
    """Somebody who reads history in a long transaction."""
    with psycopg.connect(past.world.url) as link:
        link.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        link.execute("SELECT count(*) FROM gandy.metadata, gandy.log")
        yield
        link.rollback()


async def test_with_every_day_one_is_made_and_one_is_dropped_with_all_that_lies_in_it(past: Past) -> None:
    run = past.run("SendMail", bucket=past.day(0), lines=3)
    kept = past.run("SendMail", bucket=past.day(1), lines=2)
    assert days(past) == days(past, "log") == span(TODAY, 34)
    idle = await past.table_maintenance()
    assert (idle.days_made, idle.days_dropped) == (0, 0)
    assert run in past.ids("metadata")

    past.world.advance(days=1)
    result = await past.table_maintenance()

    assert (result.days_made, result.days_dropped) == (1, 2)
    assert (result.rows["metadata"], result.rows["log"]) == (
        2,
        3,
    )  # the run, and the record of the idle cycle
    assert past.ids("metadata", "output IS NULL") == {kept}
    assert days(past) == days(past, "log") == span(TODAY + timedelta(days=1), 34)
    assert horizon(past) == (TODAY + timedelta(days=1), TODAY + timedelta(days=35))
    assert leaves(past) == 68


async def test_days_are_made_as_far_ahead_as_runs_are_kept(past: Past) -> None:
    result = await past.table_maintenance(completed=timedelta(days=39, hours=1))

    assert result.days_made == 10
    assert days(past) == span(TODAY, 44)
    assert horizon(past) == (TODAY, TODAY + timedelta(days=44))


async def test_after_long_neglect_the_days_begin_anew_without_a_gap(past: Past) -> None:
    past.world.advance(days=100)

    result = await past.table_maintenance()

    today = TODAY + timedelta(days=100)
    assert (result.days_made, result.days_dropped) == (34, 68)
    assert days(past) == span(today, 34)
    assert horizon(past) == (today, today + timedelta(days=34))


async def test_a_run_whose_day_has_no_partition_is_kept_by_row_and_the_check_up_knows(past: Past) -> None:
    world = past.world
    await world.seed(manifest("short"), manifest("long", keep_for=timedelta(days=90)))
    await world.cycle()
    await world.succeed()

    rows = world.rows(
        "SELECT x.external_id, r.bucket::text AS bucket FROM metadata r "
        "JOIN manifest x ON x.id = r.manifest_id"
    )
    assert {row["external_id"]: row["bucket"] for row in rows} == {
        "short": str(TODAY + SPANS.completed),
        "long": "-infinity",
    }
    state = await world.database.read(read_history())
    assert state is not None
    assert (state.days_ahead, state.past_leaves, state.kept_by_row) == (34, 0, 1)
    world.advance(days=90, seconds=1)
    await past.table_maintenance()
    assert past.count("metadata", "manifest_id IS NOT NULL") == 0


async def test_an_unfinished_run_is_in_no_day(past: Past) -> None:
    run = past.run("SendMail", state="in_progress")
    with pytest.raises(psycopg.errors.CheckViolation):
        past.insert("history", **history_row(past, train_state="in_progress"))
    past.world.advance(days=1)

    result = await past.table_maintenance()

    assert result.days_dropped == 2
    assert run in past.ids("metadata")


async def test_a_detach_that_gives_way_to_a_reader_is_finished_by_a_later_cycle(past: Past) -> None:
    past.run("SendMail", bucket=past.day(0))
    past.world.advance(days=1)
    with reader(past):
        result = await past.table_maintenance()
        assert result.days_dropped == 0
        assert past.count("pg_inherits", "inhdetachpending") > 0
        assert result.days_made == 1

    result = await past.table_maintenance()

    assert result.days_dropped == 2
    assert leaves(past) == 68
    assert past.count("pg_inherits", "inhdetachpending") == 0


async def test_what_was_detached_and_never_dropped_is_dropped(past: Past) -> None:
    past.run("SendMail", bucket=past.day(0))
    name = f"history_{TODAY:%Y%m%d}"
    past.world.rows(f"ALTER TABLE history DETACH PARTITION {name}")
    past.world.advance(days=1)

    result = await past.table_maintenance()

    assert result.days_dropped == 2
    assert past.count("pg_class", f"relname = '{name}'") == 0


async def test_another_server_that_changes_the_layout_is_left_to_it(past: Past) -> None:
    past.world.advance(days=1)
    with psycopg.connect(past.world.url, autocommit=True) as link:
        link.execute("SELECT pg_advisory_lock(hashtext('gandy_history'))")
        result = await past.table_maintenance()
        assert (result.days_made, result.days_dropped) == (0, 0)
        # By hand: a connection is closed at once, and its backend lets go of the lock a moment later.
        link.execute("SELECT pg_advisory_unlock(hashtext('gandy_history'))")

    result = await past.table_maintenance()

    assert (result.days_made, result.days_dropped) == (1, 2)


async def test_work_goes_on_while_a_day_is_being_dropped(past: Past) -> None:
    past.world.advance(days=1)
    await past.world.seed(manifest("report"))
    await past.world.cycle()
    with reader(past):
        await past.table_maintenance()
        assert past.count("pg_inherits", "inhdetachpending") > 0

        assert await past.world.succeed() == 1

    assert past.count("metadata", "name = 'MakeReport'") == 1


async def test_a_stop_between_two_days_leaves_the_rest_to_the_next_cycle(past: Past) -> None:
    past.world.advance(days=3)
    answers = iter([False] * 5 + [True] * 1000)
    past.is_stopping = lambda: next(answers)

    first = await past.table_maintenance()
    past.is_stopping = lambda: False
    second = await past.table_maintenance()

    assert first.days_made + second.days_made == 3
    assert 0 < first.days_dropped < 6
    assert first.days_dropped + second.days_dropped == 6
    assert days(past) == span(TODAY + timedelta(days=3), 34)


async def test_only_the_days_of_the_declared_retentions_are_made(past: Past) -> None:
    past.retention = replace(
        past.retention, failed=timedelta(days=3), cancelled=timedelta(days=3), completed=timedelta(days=3)
    )
    past.world.advance(days=30)

    result = await past.table_maintenance()

    assert result.days_made == 3
    assert horizon(past)[1] == TODAY + timedelta(days=37)
