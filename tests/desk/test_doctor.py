from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gandy.desk.doctor import CHECKS, Doctor
from gandy.desk.explain import explain_manifest
from gandy.model.schedule import Dependent, EdgeKind, Manual
from gandy.settings import DatabaseSettings, Settings
from gandy.store.drivers.opening import migrate
from gandy.store.queueing import EnqueueRequest, enqueue
from gandy.store.workers import LeaseRenewal, WorkerRegistration, register_worker, renew_lease
from tests.support.world import OWNER, OWNERS, WORKER, manifest

if TYPE_CHECKING:
    from datetime import datetime

    from gandy.desk.findings import Finding
    from tests.support.databases import DatabaseHome
    from tests.support.world import World


@pytest.fixture
async def healthy(world: World) -> World:
    """A database whose days of history begin with the clock of the test, and a worker that is alive."""
    if world.database.supports_partitions:
        world.rows(
            "UPDATE history_horizon SET since = date '2026-01-05', until = date '2026-02-20' RETURNING since"
        )
        world.rows("SELECT add_history_day(date '2026-02-04')")  # where a run goes that fails today
    worker = WorkerRegistration(
        id=WORKER, owner=OWNER, host="here", pid=7, version="1.0", slots=4, trains=["send_invoice"]
    )
    await world.database.run(register_worker(worker, 3600.0))
    return world


async def examine(world: World, host_now: datetime | None = None) -> list[Finding]:
    settings = replace(Settings(), database=DatabaseSettings(url=world.url))
    now = host_now or world.clock.now
    report = await Doctor(settings, owners=OWNERS).examine(clock=world.clock, host_now=lambda: now)
    assert report.checked == CHECKS
    return list(report.findings)


async def found(world: World) -> list[tuple[str, str]]:
    return [(finding.level, finding.check) for finding in await examine(world)]


async def park(world: World) -> None:
    request = EnqueueRequest(
        owner=OWNER, train="send_invoice", inputs=["1"], input_type_name="int", max_retries=1
    )
    await world.database.run(enqueue(request))
    assert await world.fail() == 1


async def test_a_healthy_installation_has_no_findings(healthy: World) -> None:
    assert await examine(healthy) == []


async def test_a_dependent_whose_parent_is_no_longer_declared_is_named(healthy: World) -> None:
    parents = [manifest(name, schedule=Manual()) for name in ("a", "b")]
    merge = manifest("merge", schedule=Dependent("a", "b", on=EdgeKind.END))
    await healthy.seed(*parents, merge)
    await healthy.seed(parents[0], merge)

    (finding,) = await examine(healthy)

    assert (finding.level, finding.check) == ("warning", "dependents")
    assert "merge (shop) follows b, which is no longer declared" in finding.what
    assert "declare b again" in finding.to_do
    explained = await explain_manifest(healthy.database, "merge", OWNERS)
    assert "its parent b is no longer declared, so it has no new runs" in explained.holding_back
    await healthy.seed(*parents, merge)
    assert await examine(healthy) == []


async def test_a_database_without_workers_runs_nothing(healthy: World) -> None:
    healthy.advance(hours=2)

    assert await found(healthy) == [("problem", "workers"), ("warning", "workers")]


async def test_a_junction_that_holds_the_interpreter_near_the_lease_is_named(healthy: World) -> None:
    renewal = LeaseRenewal(
        id=WORKER, lease_seconds=3600.0, busy=1, stall_seconds=6.0, stalled_junction="crunch"
    )
    await healthy.database.run(renew_lease(renewal))

    (finding,) = await examine(healthy)

    assert (finding.level, finding.check) == ("warning", "workers")
    assert "junction crunch" in finding.what
    assert "process=True" in finding.to_do


async def test_a_junction_that_blocks_the_event_loop_for_long_is_named(healthy: World) -> None:
    renewal = LeaseRenewal(
        id=WORKER, lease_seconds=3600.0, busy=1, stall_seconds=2.5, stalled_junction="crunch"
    )
    await healthy.database.run(renew_lease(renewal))

    (finding,) = await examine(healthy)

    assert (finding.level, finding.check) == ("warning", "workers")
    assert "junction crunch" in finding.what
    assert "2s500ms" in finding.what


@pytest.mark.parametrize("gone", ["stopped", "lost", "unknown", "silent"])
async def test_runs_that_no_living_process_holds_are_named_with_what_to_do(healthy: World, gone: str) -> None:
    healthy.know_worker("worker-7")
    request = EnqueueRequest(owner=OWNER, train="send_invoice", inputs=["1", "2"], input_type_name="int")
    await healthy.database.run(enqueue(request))
    runs = await healthy.claim(worker_id="worker-7")
    assert await examine(healthy) == []
    if gone == "unknown":
        healthy.rows("DELETE FROM worker WHERE id = 'worker-7'")
    elif gone == "silent":
        healthy.rows("UPDATE worker SET lease_expires_at = ? WHERE id = 'worker-7'", healthy.stamp())
    else:
        healthy.rows("UPDATE worker SET state = ? WHERE id = 'worker-7'", gone)

    (finding,) = [each for each in await examine(healthy) if each.check == "runs"]

    assert finding.level == "problem"
    assert finding.what.startswith("2 runs in progress without a live process")
    assert all(str(run.id) in finding.what for run in runs)
    assert f"gandy runs fail {runs[0].id}" in finding.to_do


async def test_clocks_that_differ_are_told_with_their_direction(healthy: World) -> None:
    (ahead,) = await examine(healthy, healthy.clock.now - timedelta(minutes=3))
    (behind,) = await examine(healthy, healthy.clock.now + timedelta(days=1))

    assert "3m ahead of" in ahead.what
    assert "1d behind" in behind.what
    assert await examine(healthy, healthy.clock.now + timedelta(seconds=2)) == []


async def test_a_missing_index_is_named(healthy: World) -> None:
    healthy.rows("DROP INDEX ix_work_queue_future")

    (finding,) = await examine(healthy)

    assert (finding.level, finding.check) == ("problem", "indexes")
    assert "ix_work_queue_future" in finding.what


async def test_runs_that_should_be_gone_are_counted(healthy: World) -> None:
    await park(healthy)
    healthy.rows("DELETE FROM dead_letter")
    healthy.rows("DELETE FROM history WHERE train_state = 'failed'")
    bucket, value = ("bucket, ", "'-infinity', ") if healthy.database.supports_partitions else ("", "")
    healthy.rows(
        f"INSERT INTO history ({bucket}id, owner, name, train_state, created_at, start_time, "  # noqa: S608
        f"end_time, keep_until) VALUES ({value}900, 'shop', 'x', 'completed', ?, ?, ?, ?)",
        *["2026-01-01T00:00:00.000000Z"] * 4,
    )
    healthy.rows("DELETE FROM work_queue")

    (finding,) = await examine(healthy)

    assert finding.check == "retention"
    assert finding.what == "1 run kept beyond their retention, since 2026-01-01 00:00Z"


async def test_days_without_partitions_and_runs_kept_by_row_are_told(healthy: World) -> None:
    if not healthy.database.supports_partitions:
        assert await found(healthy) == []
        return
    healthy.rows("UPDATE history_horizon SET until = date '2026-01-06' RETURNING until")
    await park(healthy)
    healthy.rows("DELETE FROM dead_letter")

    first, second = await examine(healthy)

    assert "partitions for 1 days" in first.what
    assert second.what == "1 run kept by row, because their day had no partition"


async def test_trains_that_nobody_knows_are_named(healthy: World) -> None:
    request = EnqueueRequest(owner=OWNER, train="lost_train", inputs=["1", "2"], input_type_name="int")
    await healthy.database.run(enqueue(request))
    healthy.rows("UPDATE work_queue SET gate = 'train'")

    (finding,) = await examine(healthy)

    assert (finding.level, finding.check) == ("problem", "trains")
    assert finding.what.startswith("2 entries of train lost_train (shop)")


async def test_letters_that_wait_and_failures_that_wrote_none_are_told(healthy: World) -> None:
    await park(healthy)
    healthy.rows(
        "INSERT INTO service_state (owner, key, value, updated_at) VALUES "
        "('shop', 'letters_not_written:send_invoice', '12', ?)",
        "2026-01-05T11:00:00.000000Z",
    )

    waiting, lost = await examine(healthy)

    assert (waiting.level, lost.level) == ("warning", "problem")
    assert waiting.what.startswith("1 dead letter of train send_invoice")
    assert lost.what.startswith("12 failures of train send_invoice")


async def test_references_that_lead_nowhere_are_told(healthy: World) -> None:
    await healthy.seed(manifest())
    await healthy.cycle()
    assert len(await healthy.claim()) == 1
    assert await examine(healthy) == []
    healthy.rows("DELETE FROM work_queue WHERE train_state = 'in_progress'")

    (stuck,) = await examine(healthy)

    assert "report (run " in stuck.what


async def test_a_run_that_its_manifest_does_not_know_of_is_told(healthy: World) -> None:
    await healthy.seed(manifest())
    await healthy.cycle()
    await healthy.claim()
    healthy.rows("UPDATE manifest SET active_run_id = NULL")

    (finding,) = await examine(healthy)

    assert "do not refer to" in finding.what


async def test_an_empty_database_and_none_at_all_end_the_check_early(database_home: DatabaseHome) -> None:
    with database_home.database() as url:
        report = await Doctor(
            replace(Settings(), database=DatabaseSettings(url=url)), owners=OWNERS
        ).examine()

    (finding,) = report.findings
    assert (finding.check, finding.to_do) == ("schema", "run: gandy migrate")
    assert report.checked == ("database", "schema")


async def test_a_database_that_does_not_answer_is_the_only_finding() -> None:
    url = "postgresql://nobody@127.0.0.1:1/nothing"

    report = await Doctor(replace(Settings(), database=DatabaseSettings(url=url)), owners=OWNERS).examine()

    assert [finding.check for finding in report.findings] == ["database"]


def make_loose_file(url: str) -> None:
    migrate(url)
    Path(url.removeprefix("sqlite:///")).chmod(0o666)


async def test_a_file_that_everybody_may_write_is_a_problem(sqlite_url: str) -> None:
    await asyncio.to_thread(make_loose_file, sqlite_url)

    report = await Doctor(
        replace(Settings(), database=DatabaseSettings(url=sqlite_url)), owners=OWNERS
    ).examine()

    assert ("problem", "file") in [(finding.level, finding.check) for finding in report.findings]
