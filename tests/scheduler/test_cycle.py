from __future__ import annotations

import json
import re
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from gandy.errors import TriggerInputConflictError
from gandy.model.manifest import GroupDeclaration
from gandy.model.run import EndedBy, TrainState
from gandy.model.schedule import Cron, Manual, Once
from gandy.scheduler.manager import ManifestManagerTrain
from gandy.store.drivers.sqlite_values import to_text
from gandy.store.queueing import trigger
from tests.support.world import OWNER, START, WORKER, manifest

if TYPE_CHECKING:
    from tests.support.world import World


def test_the_route_is_the_seven_junctions_in_their_order() -> None:
    assert [step.name for step in ManifestManagerTrain.definition.plan.steps] == [
        "load_manifests",
        "cancel_timed_out_jobs",
        "reap_stale_pending_metadata",
        "reap_stale_in_progress_metadata",
        "reap_failed_jobs",
        "determine_jobs_to_queue",
        "create_work_queue_entries",
    ]


async def test_fifteen_of_a_small_group_are_in_the_first_cycle_beside_five_thousand(world: World) -> None:
    crowd = [
        manifest(f"cache-{number}", group="cache", schedule=Cron("0 13 * * *")) for number in range(5_000)
    ]
    few = [manifest(f"delta-{number}", group="delta", schedule=Cron("0 13 * * *")) for number in range(15)]
    await world.seed(*crowd, *few)
    world.advance(hours=1)

    first = await world.cycle()

    assert (first.queued, first.left_over) == (200, 4_815)
    assert first.wants_another
    queued = {
        row["external_id"]
        for row in world.rows(
            "SELECT m.external_id FROM work_queue q JOIN manifest m ON m.id = q.manifest_id"
        )
    }
    assert {declared.external_id for declared in few} <= queued
    cycles, result = 1, first
    while result.wants_another:
        # Slowly: the last ones come up long after the misfire threshold, and are no misfires.
        world.advance(seconds=10)
        result = await world.cycle()
        cycles += 1
    assert cycles == 26
    assert world.rows("SELECT status, count(*) AS n FROM work_queue GROUP BY status") == [
        {"status": "queued", "n": 5_015}
    ]


async def test_no_limit_takes_everything_at_once(world: World) -> None:
    await world.seed(*(manifest(f"m-{number}") for number in range(450)))

    assert (await world.cycle(max_entries_per_cycle=None)).queued == 450


async def test_entries_of_one_cycle_have_external_ids_of_their_own(world: World) -> None:
    await world.seed(*(manifest(f"m-{number}") for number in range(20)))

    await world.cycle()

    rows = world.rows("SELECT external_id FROM work_queue")
    assert len({str(row["external_id"]) for row in rows}) == 20


async def test_groups_of_higher_priority_get_what_is_left_over(world: World) -> None:
    groups = (GroupDeclaration(name="low"), GroupDeclaration(name="high", priority=20))
    await world.seed(
        *(manifest(f"{group}-{number}", group=group) for group in ("low", "high") for number in range(10)),
        groups=groups,
    )

    await world.cycle(max_entries_per_cycle=11)

    rows = world.rows(
        "SELECT g.name, count(*) AS n FROM work_queue q JOIN manifest_group g ON g.id = q.manifest_group_id "
        "GROUP BY g.name ORDER BY g.name"
    )
    assert [(row["name"], row["n"]) for row in rows] == [("high", 6), ("low", 5)]


async def test_an_outage_in_the_middle_of_a_backlog_is_no_excuse_for_what_came_due_meanwhile(
    world: World,
) -> None:
    await world.seed(*(manifest(f"m-{number}", schedule=Cron("0 * * * *")) for number in range(4)))
    world.advance(hours=1)
    assert (await world.cycle(max_entries_per_cycle=2)).left_over == 2
    await world.succeed()
    world.advance(hours=3, minutes=30)
    while (await world.cycle(max_entries_per_cycle=2)).wants_another:
        await world.succeed()

    misfired = world.rows("SELECT count(*) AS n FROM work_queue WHERE reason = 'misfired'")
    assert misfired[0]["n"] == 4, "each missed occurrences while nobody evaluated"


async def test_a_bad_manifest_gets_its_own_error_and_the_others_are_queued(world: World) -> None:
    await world.seed(*(manifest(f"m-{number}") for number in range(9)), manifest("bad"))
    bad_id = world.manifest("bad")["id"]
    refuse_entries_of(world, bad_id)

    result = await world.cycle()

    assert (result.queued, result.errors) == (9, 1)
    (row,) = world.entries("bad")
    assert (row["status"], row["reason"]) == ("skipped", "error")
    assert row["error"]
    assert (await world.cycle()).is_idle, "the bad one has moved on"


def refuse_entries_of(world: World, manifest_id: int) -> None:
    if world.url.startswith("sqlite"):
        world.rows(
            "CREATE TRIGGER refuse BEFORE INSERT ON work_queue "
            f"WHEN new.manifest_id = {manifest_id} AND new.status = 'queued' "
            "BEGIN SELECT RAISE(ABORT, 'refused by the test'); END"
        )
    else:
        world.rows(
            "ALTER TABLE work_queue ADD CONSTRAINT refused_by_the_test "
            f"CHECK (manifest_id <> {manifest_id} OR status <> 'queued')"
        )


async def test_a_manifest_at_its_limit_is_parked_once_and_not_queued_in_the_same_cycle(world: World) -> None:
    await world.seed(manifest(max_retries=1))
    await world.cycle()
    await world.fail()
    world.advance(minutes=5)

    result = await world.cycle()

    assert (result.parked, result.queued) == ((), 0)
    assert world.verdicts() == [("dispatched", None, 1)]
    (letter,) = world.rows("SELECT * FROM dead_letter")
    assert letter["status"] == "awaiting_intervention"
    assert letter["metadata_id"] == world.manifest()["last_failed_run_id"]
    assert letter["train_name"] == "MakeReport"
    assert (
        json.loads(letter["input"]) == {"month": 1}
        if isinstance(letter["input"], str)
        else letter["input"] == {"month": 1}
    )
    assert "ValueError: no" in letter["reason"]
    world.advance(minutes=5)
    assert (await world.cycle()).parked == ()
    assert len(world.rows("SELECT 1 FROM dead_letter")) == 1


async def test_a_job_that_is_never_retried_is_never_parked(world: World) -> None:
    await world.seed(manifest(is_retried=False, max_retries=1))
    await world.cycle()
    await world.fail()
    world.advance(minutes=5)

    result = await world.cycle()

    assert (result.parked, result.queued) == ((), 1)


async def test_a_disabled_manifest_is_parked_all_the_same(world: World) -> None:
    await world.seed(manifest(max_retries=1))
    await world.cycle()
    runs = await world.claim()
    await world.seed(manifest(max_retries=1, is_enabled=False))
    await world.finish(*runs, state=TrainState.FAILED)

    assert len(world.rows("SELECT 1 FROM dead_letter")) == 1


def add_worker(world: World, *, lease: timedelta, trains: tuple[str, ...] = ("MakeReport",)) -> None:
    now = world.clock.now
    is_sqlite = world.url.startswith("sqlite")
    started, ends = (to_text(now), to_text(now + lease)) if is_sqlite else (now, now + lease)
    world.rows(
        "INSERT INTO worker (id, owner, host, pid, version, started_at, last_seen_at, lease_expires_at, "
        "slots, trains) VALUES (?, ?, 'h', 1, '0', ?, ?, ?, 10, ?)",
        WORKER,
        OWNER,
        started,
        started,
        ends,
        json.dumps(trains) if is_sqlite else list(trains),
    )


async def test_a_lost_workers_run_is_failed_and_retried_at_once_without_counting(world: World) -> None:
    await world.seed(manifest())
    add_worker(world, lease=timedelta(seconds=12))
    await world.cycle()
    (run,) = await world.claim()
    world.advance(seconds=13)

    assert (await world.cycle()).silent_workers == 1
    result = await world.cycle(trusts_leases=True)

    assert result.reaped == 1
    (row,) = world.rows("SELECT * FROM metadata WHERE id = ?", run.id)
    assert (row["train_state"], row["failure_exception"]) == ("failed", "WorkerLost")
    assert world.manifest()["failure_count"] == 0
    assert len(await world.claim(worker_id="another")) == 1


async def test_expired_leases_are_not_believed_before_the_database_has_answered_for_a_while(
    world: World,
) -> None:
    await world.seed(manifest())
    add_worker(world, lease=timedelta(seconds=12))
    await world.cycle()
    await world.claim()
    world.advance(minutes=10)

    result = await world.cycle()

    assert (result.reaped, result.silent_workers) == (0, 1)


async def test_a_run_reaped_now_counts_now(world: World) -> None:
    await world.seed(manifest(max_retries=1, schedule=Cron("0 13 * * *")))
    world.advance(hours=1)
    await world.cycle()
    await world.claim()
    world.advance(minutes=61)

    result = await world.cycle()

    assert (result.reaped, len(result.parked)) == (1, 1)


async def test_a_long_timeout_protects_a_run_from_the_age_limit(world: World) -> None:
    await world.seed(manifest(timeout=timedelta(hours=3), schedule=Cron("0 13 * * *")))
    world.advance(hours=1)
    await world.cycle()
    await world.claim()
    world.advance(hours=3, minutes=39)
    assert (await world.cycle()).reaped == 0
    world.advance(minutes=2)

    assert (await world.cycle()).reaped == 1


async def test_a_pending_run_is_stale_only_where_no_live_worker_knows_its_train(world: World) -> None:
    await world.seed(manifest(schedule=Once(at=START)))
    await world.cycle()
    await world.claim(worker_id=None)
    add_worker(world, lease=timedelta(hours=1))
    world.advance(minutes=30)
    assert (await world.cycle()).reaped == 0, "it merely waits behind busy workers"
    world.rows("UPDATE worker SET trains = ?", "[]" if world.url.startswith("sqlite") else [])

    assert (await world.cycle()).reaped == 1
    assert world.manifest()["failure_count"] == 1


async def test_a_trigger_queues_at_once_and_a_second_one_returns_the_waiting_entry(world: World) -> None:
    await world.seed(manifest(schedule=Manual()))
    later = await world.database.run(trigger("report", delay=timedelta(hours=1), owner=OWNER))
    assert later.is_new

    sooner = await world.database.run(trigger("report", delay=timedelta(minutes=5), owner=OWNER))

    assert (sooner.id, sooner.is_new) == (later.id, False)
    assert sooner.scheduled_at == START + timedelta(minutes=5)
    again = await world.database.run(trigger("report", delay=timedelta(hours=9), owner=OWNER))
    assert again.scheduled_at == START + timedelta(minutes=5)


async def test_a_trigger_with_another_input_is_refused_and_names_the_waiting_entry(world: World) -> None:
    await world.seed(manifest(schedule=Manual()))
    waiting = await world.database.run(trigger("report", owner=OWNER))
    await world.database.run(trigger("report", input_json='{ "month" : 1 }', owner=OWNER))

    with pytest.raises(TriggerInputConflictError, match=str(waiting.id)):
        await world.database.run(trigger("report", input_json='{"month":2}', owner=OWNER))


async def test_a_trigger_runs_a_disabled_manifest_in_a_disabled_group(world: World) -> None:
    group = GroupDeclaration(name="off", is_enabled=False)
    await world.seed(manifest(schedule=Manual(), is_enabled=False, group="off"), groups=(group,))

    await world.database.run(trigger("report", owner=OWNER))

    assert len(await world.claim()) == 1


async def test_a_trigger_of_a_running_manifest_waits_for_its_end(world: World) -> None:
    await world.seed(manifest(schedule=Manual()))
    await world.database.run(trigger("report", owner=OWNER))
    runs = await world.claim()
    await world.database.run(trigger("report", owner=OWNER))
    assert await world.claim() == []

    await world.finish(*runs)

    assert len(await world.claim()) == 1


async def test_an_instant_that_comes_while_a_trigger_waits_is_settled_as_already_queued(world: World) -> None:
    await world.seed(manifest())
    await world.database.run(trigger("report", delay=timedelta(hours=1), owner=OWNER))

    result = await world.cycle()

    assert result.queued == 0
    assert ("skipped", "already_queued", 1) in world.verdicts()


async def test_once_waits_until_the_entry_that_waits_has_run(world: World) -> None:
    await world.seed(manifest(schedule=Once(at=START + timedelta(minutes=1))))
    await world.database.run(trigger("report", owner=OWNER))
    world.advance(minutes=1)
    assert (await world.cycle()).queued == 0
    await world.succeed()

    assert (await world.cycle()).queued == 1


async def test_a_cycle_that_did_something_is_recorded_and_an_idle_one_once_a_minute(world: World) -> None:
    await world.seed(manifest())
    await world.cycle()
    for _ in range(3):
        world.advance(seconds=5)
        await world.cycle()
    assert len(recorded(world)) == 2
    world.advance(seconds=61)
    await world.cycle()
    await world.cycle()

    runs = recorded(world)
    assert len(runs) == 3
    assert {run["train_state"] for run in runs} == {"completed"}


async def test_a_cycle_that_failed_leaves_nothing_but_its_record(world: World) -> None:
    await world.seed(manifest())
    world.rows("DROP VIEW manifest_dispatch")

    with pytest.raises(Exception, match="manifest_dispatch"):
        await world.cycle()

    (run,) = recorded(world)
    assert (run["train_state"], run["failure_junction"]) == ("failed", "load_manifests")
    assert world.entries() == []
    restore_view(world)


def restore_view(world: World) -> None:
    """Put the view back, for the check that follows every test."""
    from gandy.store.drivers.migrate import load_migrations  # noqa: PLC0415 only this test breaks the schema

    dialect = "sqlite" if world.url.startswith("sqlite") else "postgres"
    scripts = [each.sql for each in load_migrations(dialect)]
    script = next(each for each in reversed(scripts) if "VIEW" in each and "manifest_dispatch AS" in each)
    view = re.search(r"CREATE (?:OR REPLACE )?VIEW (?:gandy\.)?manifest_dispatch AS.*?;", script, re.DOTALL)
    assert view is not None
    world.rows(view[0])


def recorded(world: World) -> list[dict[str, object]]:
    return world.rows("SELECT * FROM metadata WHERE name = 'ManifestManagerTrain' ORDER BY id")


async def test_interrupted_runs_are_retried_at_once_and_not_counted(world: World) -> None:
    await world.seed(manifest())
    await world.cycle()
    await world.finish(*await world.claim(), state=TrainState.FAILED, ended_by=EndedBy.SHUTDOWN)

    assert world.manifest()["failure_count"] == 0
    assert len(await world.claim()) == 1
