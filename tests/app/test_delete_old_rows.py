"""Batched deletion that queues itself again, inside an application."""

from __future__ import annotations

import asyncio
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from gandy import DeleteOldRows, OldRows, cron
from gandy.clock import ManualClock
from gandy.errors import JobFailedError, MissingVariableError, PayloadError
from gandy.lifecycle.database.target import open_target
from gandy.lifecycle.state.lease import give_back, take_lease
from gandy.lifecycle.state.setup import ensure_tables
from gandy.rules.ending import SUSPECT_AFTER_LOSSES
from gandy.store.drivers.opening import migrate
from tests.app.old_data import OLD, deleted, make_app, make_data, outputs, queued
from tests.lifecycle.ground import NOW, Ground

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gandy import Gandy
    from tests.support.postgres import PostgresServer


@pytest.fixture
def migrated_postgres_url(postgres_server: PostgresServer) -> Iterator[str]:
    template = postgres_server.template("migrated", lambda url: (migrate(url), None)[1])
    with postgres_server.database(template) as url:
        yield url


async def work_off(app: Gandy) -> None:
    assert await app.work(asyncio.Event(), until_idle=True) == 0


@contextmanager
def another_start(ground: Ground) -> Iterator[None]:
    """Somebody deletes from the same table, on a connection of his own, for as long as the block runs."""
    with open_target(ground.url, clock=ManualClock(NOW)) as session:
        ensure_tables(session)
        lease = take_lease(session, "delete_old_rows.data")
        assert lease is not None
        yield
        give_back(session, lease)


async def test_it_deletes_data_that_is_over_three_months_old(migrated_url: str) -> None:
    ground = make_data(migrated_url, expired=1)
    async with make_app(migrated_url) as app:
        done = await app.run(DeleteOldRows, OLD)

    assert ground.ids("data") == [1000]
    assert (done.deleted, done.next_job) == (1, None)


async def test_it_queues_itself_again_if_more_is_to_delete(migrated_url: str) -> None:
    ground = make_data(migrated_url, expired=2)
    async with make_app(migrated_url) as app:
        done = await app.run(DeleteOldRows, replace(OLD, limit=1))

    assert (done.deleted, done.next_job is not None) == (1, True)
    assert queued(ground) == [("DeleteOldRows", "ad_hoc", "delete-old-rows")]


async def test_the_chain_goes_on_with_the_same_arguments_until_nothing_old_is_left(migrated_url: str) -> None:
    ground = make_data(migrated_url, expired=23)
    async with make_app(migrated_url) as app:
        await app.enqueue(DeleteOldRows, replace(OLD, limit=5))
        await work_off(app)

    assert deleted(ground) == [5, 5, 5, 5, 3]
    assert ground.ids("data") == [1000]
    assert queued(ground) == []


async def test_a_run_whose_workers_died_still_reaches_the_application_it_belongs_to(
    migrated_url: str,
) -> None:
    ground = make_data(migrated_url, expired=3)
    async with make_app(migrated_url) as app:
        job = await app.enqueue(DeleteOldRows, replace(OLD, limit=2))
        schema = "gandy." if ground.kind == "postgresql" else ""
        suspected = f"SET losses = {SUSPECT_AFTER_LOSSES} WHERE id = {job.id}"
        ground.run(f"UPDATE {schema}work_queue {suspected}")
        await work_off(app)

    assert [state for state, _ in outputs(ground)] == ["completed", "completed"]
    assert deleted(ground) == [2, 1]


async def test_exactly_as_many_rows_as_the_limit_take_one_more_run_that_finds_nothing(
    migrated_url: str,
) -> None:
    ground = make_data(migrated_url, expired=5)
    async with make_app(migrated_url) as app:
        await app.enqueue(DeleteOldRows, replace(OLD, limit=5))
        await work_off(app)

    assert deleted(ground) == [5, 0]


async def test_a_second_start_while_one_runs_completes_with_nothing_deleted_and_queues_nothing(
    migrated_url: str,
) -> None:
    ground = make_data(migrated_url, expired=5)
    async with make_app(migrated_url) as app:
        with another_start(ground):
            done = await app.run(DeleteOldRows, replace(OLD, limit=5))

    assert (done.deleted, done.is_second_start, done.next_job) == (0, True, None)
    assert [state for state, _ in outputs(ground)] == ["completed"]
    assert queued(ground) == []
    assert len(ground.ids("data")) == 6


async def test_two_that_start_at_once_delete_every_row_once(migrated_url: str) -> None:
    ground = make_data(migrated_url, expired=40)
    async with make_app(migrated_url) as app:
        both = await asyncio.gather(*(app.run(DeleteOldRows, replace(OLD, limit=100)) for _ in range(2)))

    assert sum(done.deleted for done in both) == 40
    assert sorted(done.deleted for done in both) == [0, 40]
    assert ground.ids("data") == [1000]


async def test_only_one_copy_waits_however_often_it_is_asked_for(migrated_url: str) -> None:
    ground = make_data(migrated_url, expired=3)
    async with make_app(migrated_url) as app:
        first = await app.enqueue(DeleteOldRows, OLD)
        again = await app.enqueue(DeleteOldRows, OLD)
        other = await app.enqueue(DeleteOldRows, replace(OLD, limit=7))

    assert (first.id, again.is_new, other.is_new) == (again.id, False, True)
    assert len(queued(ground)) == 2


async def test_a_copy_that_waits_is_the_one_that_a_run_queues(migrated_url: str) -> None:
    ground = make_data(migrated_url, expired=3)
    async with make_app(migrated_url) as app:
        waiting = await app.enqueue(DeleteOldRows, replace(OLD, limit=1))
        done = await app.run(DeleteOldRows, replace(OLD, limit=1))

    assert done.next_job == waiting.id
    assert len(queued(ground)) == 1


async def test_its_group_lets_one_run_at_a_time(migrated_url: str) -> None:
    ground = make_data(migrated_url, expired=3)
    app = make_app(migrated_url)
    app.schedule("old-data", DeleteOldRows, OLD, cron("0 * * * *"))
    async with app:
        await app.seed()
    schema = "gandy." if ground.kind == "postgresql" else ""
    caps = ground.rows(f"SELECT max_active_jobs FROM {schema}manifest_group WHERE name = 'delete-old-rows'")  # noqa: S608

    assert caps == [(1,)]


async def test_what_the_application_says_of_the_group_stands_over_its_usual_cap(migrated_url: str) -> None:
    app = make_app(migrated_url)
    app.group("delete-old-rows", max_active_jobs=3)

    assert [group.max_active_jobs for group in app.declarations.groups] == [3]


async def test_a_scheduled_one_goes_on_by_triggering_its_own_manifest(migrated_url: str) -> None:
    ground = make_data(migrated_url, expired=12)
    app = make_app(migrated_url)
    app.schedule("old-data", DeleteOldRows, replace(OLD, limit=5), cron("0 * * * *"))
    async with app:
        await app.seed()
        await app.trigger("old-data")
        await work_off(app)
    schema = "gandy." if ground.kind == "postgresql" else ""
    ad_hoc = ground.rows(f"SELECT id FROM {schema}metadata WHERE manifest_id IS NULL")  # noqa: S608

    assert deleted(ground) == [5, 5, 2]
    assert ad_hoc == []


async def test_a_chain_that_was_triggered_with_another_limit_keeps_it(migrated_url: str) -> None:
    ground = make_data(migrated_url, expired=9)
    app = make_app(migrated_url)
    app.schedule("old-data", DeleteOldRows, OLD, cron("0 * * * *"))
    async with app:
        await app.seed()
        await app.trigger("old-data", input=replace(OLD, limit=4))
        await work_off(app)

    assert deleted(ground) == [4, 4, 1]


async def test_a_manifest_that_was_switched_off_meanwhile_ends_its_chain(migrated_url: str) -> None:
    ground = make_data(migrated_url, expired=9)
    app = make_app(migrated_url)
    app.schedule("old-data", DeleteOldRows, replace(OLD, limit=4), cron("0 * * * *"), enabled=False)
    async with app:
        await app.seed()
        await app.trigger("old-data")
        await work_off(app)

    assert deleted(ground) == [4]
    assert queued(ground) == []


async def test_a_cascade_does_not_count_against_the_limit(migrated_url: str) -> None:
    ground = make_data(migrated_url, expired=3)
    ground.run(
        "CREATE TABLE part (id {key}, data_id bigint REFERENCES data (id) ON DELETE CASCADE)",
        "CREATE INDEX by_data ON part (data_id)",
    )
    ground.fill("part", [(n, n % 3 + 1) for n in range(9)])
    async with make_app(migrated_url) as app:
        old = replace(OLD, limit=4, children={"part.data_id": "cascade"})
        done = await app.run(DeleteOldRows, old)

    assert (done.deleted, done.children, done.next_job) == (3, {"part": 9}, None)


async def test_a_failed_run_is_neither_retried_nor_parked(migrated_url: str) -> None:
    ground = make_data(migrated_url, expired=3)
    ground.run("CREATE TABLE part (id {key}, data_id bigint REFERENCES data (id))")
    async with make_app(migrated_url) as app:
        job = await app.enqueue(DeleteOldRows, OLD)
        await work_off(app)
        with pytest.raises(JobFailedError, match="part"):
            await job.result(timeout=5)

    assert [state for state, _ in outputs(ground)] == ["failed"]
    assert queued(ground) == []


async def test_another_database_is_named_by_a_variable(
    migrated_url: str, sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = make_data(sqlite_url, expired=2)
    old = replace(OLD, database_env="OLD_DATA_URL")
    async with make_app(migrated_url) as app:
        with pytest.raises(MissingVariableError, match="OLD_DATA_URL"):
            await app.run(DeleteOldRows, old)
        monkeypatch.setenv("OLD_DATA_URL", sqlite_url)
        done = await app.run(DeleteOldRows, old)

    assert (done.deleted, elsewhere.ids("data")) == (2, [1000])


async def test_locked_rows_are_passed_over_and_do_not_end_the_chain_early(
    migrated_postgres_url: str,
) -> None:
    ground = make_data(migrated_postgres_url, expired=8)
    async with make_app(migrated_postgres_url) as app:
        with closing(ground.connect()) as holder:
            holder.execute("BEGIN")
            holder.execute("SELECT FROM data WHERE id = 8 FOR UPDATE")  # the oldest one
            done = await app.run(DeleteOldRows, replace(OLD, limit=5))
            holder.execute("ROLLBACK")
        assert (done.deleted, done.next_job is not None) == (5, True)
        await work_off(app)

    assert ground.ids("data") == [1000]


async def test_a_sqlite_file_that_somebody_holds_fails_the_run_and_the_next_one_does_its_work(
    migrated_url: str, sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ground = make_data(sqlite_url, expired=8)
    monkeypatch.setenv("OLD_DATA_URL", sqlite_url)
    old = replace(OLD, database_env="OLD_DATA_URL")
    async with make_app(migrated_url) as app:
        with closing(ground.connect()) as holder:
            holder.execute("BEGIN IMMEDIATE")
            with pytest.raises(Exception, match="locked"):
                await app.run(DeleteOldRows, old)
            holder.execute("ROLLBACK")
        assert len(ground.ids("data")) == 9
        done = await app.run(DeleteOldRows, old)

    assert (done.deleted, ground.ids("data")) == (8, [1000])


def test_what_makes_no_sense_is_refused_where_it_is_declared() -> None:
    with pytest.raises(ValueError, match="limit must be at least 1"):
        OldRows(table="data", column="minute", keep_for=timedelta(days=1), limit=0)
    with pytest.raises(ValueError, match="children"):
        OldRows(table="data", column="minute", keep_for=timedelta(days=1), children={"part": "cascade"})


def test_durations_are_read_as_people_write_them() -> None:
    codec = DeleteOldRows.definition.input
    written = '{"table": "data", "column": "minute", "keep_for": "90d"}'

    assert codec.decode(written) == OLD
    assert codec.decode(codec.encode(OLD)) == OLD
    with pytest.raises(PayloadError, match="keep_for"):
        codec.decode('{"table": "data", "column": "minute", "keep_for": "soon"}')
