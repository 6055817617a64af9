from __future__ import annotations

from datetime import UTC, datetime, time, timedelta
from typing import TYPE_CHECKING

import pytest

from gandy.model.exclusion import TimeWindow
from gandy.model.run import EndedBy, TrainState
from gandy.model.schedule import Cron, Interval, Manual, MisfirePolicy, Once
from tests.support.world import START, manifest

if TYPE_CHECKING:
    from tests.support.world import World

HOURLY = Cron("0 * * * *")


async def test_an_interval_is_queued_with_everything_the_manifest_says(world: World) -> None:
    await world.seed(manifest(priority=7))

    result = await world.cycle()

    (entry,) = world.entries()
    assert (result.queued, result.looked_at, result.left_over) == (1, 1, 0)
    assert (entry["status"], entry["gate"], entry["origin"], entry["priority"]) == (
        "queued",
        "open",
        "schedule",
        7,
    )
    assert (entry["train_name"], entry["input_type_name"], entry["attempt"]) == ("MakeReport", "Month", 1)
    assert world.instant(entry["due_at"]) == START
    assert world.instant(world.manifest()["next_scheduled_run"]) == START + timedelta(minutes=5)


async def test_a_slow_run_does_not_shift_the_following_ones(world: World) -> None:
    await world.seed(manifest())
    await world.cycle()
    await world.claim()
    world.advance(minutes=5, seconds=42)
    await world.cycle()

    assert world.verdicts() == [("dispatched", None, 1), ("skipped", "active", 1)]
    assert world.instant(world.manifest()["next_scheduled_run"]) == START + timedelta(minutes=10)


async def test_a_new_cron_does_not_fire_at_deploy(world: World) -> None:
    await world.seed(manifest(schedule=HOURLY))

    result = await world.cycle()

    assert (result.queued, result.is_idle) == (0, True)
    assert result.next_look == timedelta(hours=1)


async def test_nothing_due_is_nothing_looked_at(world: World) -> None:
    await world.seed(*(manifest(f"m-{number}", schedule=HOURLY) for number in range(50)))

    assert (await world.cycle()).looked_at == 0


async def test_a_second_cycle_at_the_same_instant_queues_nothing_twice(world: World) -> None:
    await world.seed(manifest())
    await world.cycle()

    assert (await world.cycle()).is_idle
    assert len(world.entries()) == 1


async def test_jitter_is_kept_in_the_entry_and_holds_it_back(world: World) -> None:
    await world.seed(manifest(variance=timedelta(minutes=2)))

    await world.cycle()

    (entry,) = world.entries()
    scheduled_at = world.instant(entry["scheduled_at"])
    assert START < scheduled_at <= START + timedelta(minutes=2)
    assert entry["gate"] == "time"
    assert await world.claim() == []


@pytest.mark.pair("exclusion", "interval")
async def test_an_excluded_instant_is_skipped_with_its_reason(world: World) -> None:
    noon = TimeWindow(time(12), time(14))
    await world.seed(manifest(schedule=HOURLY, exclusions=(noon,)))
    world.advance(hours=1)
    await world.cycle()
    world.advance(hours=1)
    await world.cycle()

    assert world.verdicts() == [("skipped", "excluded", 1), ("queued", None, 1)]


async def test_consecutive_skips_with_one_reason_are_one_row(world: World) -> None:
    await world.seed(manifest(schedule=Cron("* * * * *")))
    world.advance(minutes=1)
    await world.cycle()
    await world.claim()
    for _ in range(3):
        world.advance(minutes=1)
        await world.cycle()

    assert world.verdicts() == [("dispatched", None, 1), ("skipped", "active", 3)]
    row = world.entries()[-1]
    assert world.instant(row["due_at"]) == START + timedelta(minutes=2)
    assert world.instant(row["due_until"]) == START + timedelta(minutes=4)


async def test_missed_occurrences_become_one_run_with_the_latest_instant(world: World) -> None:
    await world.seed(manifest(schedule=HOURLY))
    world.advance(hours=5, minutes=30)

    await world.cycle()

    assert world.verdicts() == [("skipped", "misfired", 4), ("queued", None, 1)]
    assert world.instant(world.entries()[-1]["due_at"]) == START + timedelta(hours=5)


@pytest.mark.pair("misfire", "interval")
async def test_do_nothing_waits_for_the_next_occurrence(world: World) -> None:
    await world.seed(manifest(schedule=HOURLY, misfire_policy=MisfirePolicy.DO_NOTHING))
    world.advance(hours=5, minutes=30)

    await world.cycle()

    assert world.verdicts() == [("skipped", "misfired", 5)]
    assert world.instant(world.manifest()["next_scheduled_run"]) == START + timedelta(hours=6)


async def test_catch_up_runs_the_missed_ones_oldest_first_and_one_at_a_time(world: World) -> None:
    await world.seed(manifest(schedule=HOURLY, misfire_policy=MisfirePolicy.CATCH_UP))
    world.advance(hours=3, minutes=30)
    ran = []
    for _ in range(5):
        await world.cycle()
        runs = await world.claim()
        ran += [run.due_at for run in runs]
        await world.finish(*runs)

    assert ran == [START + timedelta(hours=hour) for hour in (1, 2, 3)]


async def test_catch_up_after_two_weeks_off_is_capped_at_a_hundred(world: World) -> None:
    await world.seed(manifest(schedule=HOURLY, misfire_policy=MisfirePolicy.CATCH_UP))
    world.advance(days=14)

    await world.cycle()

    statuses = world.verdicts()
    assert statuses[0][:2] == ("skipped", "misfired")
    assert statuses[0][2] == 14 * 24 - 101
    assert statuses[1] == ("queued", None, 1)


async def test_a_manual_manifest_is_never_due(world: World) -> None:
    await world.seed(manifest(schedule=Manual()))
    world.advance(days=400)

    assert (await world.cycle()).is_idle


async def test_once_runs_once_and_is_finished_not_disabled(world: World) -> None:
    await world.seed(manifest(schedule=Once(at=START + timedelta(hours=1))))
    world.advance(hours=30)  # however late: there is no next one to wait for
    await world.cycle()
    assert await world.succeed() == 1
    world.advance(days=1)
    await world.cycle()

    row = world.manifest()
    assert row["completed_at"] is not None
    assert row["is_enabled"]
    assert row["next_look_at"] is None
    assert await world.claim() == []


async def test_once_waits_for_a_guard_instead_of_being_lost(world: World) -> None:
    await world.seed(manifest(schedule=Once(at=START + timedelta(hours=1))))
    world.rows("UPDATE manifest SET active_run_id = 77")
    world.advance(hours=1)
    assert (await world.cycle()).queued == 0
    assert world.manifest()["next_look_at"] is None
    world.rows("UPDATE manifest SET active_run_id = NULL, next_look_at = next_scheduled_run")

    assert (await world.cycle()).queued == 1


async def test_success_resets_the_failure_count(world: World) -> None:
    await world.seed(manifest(max_retries=3, retry_delay=timedelta(seconds=1)))
    for _ in range(4):
        await world.cycle()
        assert await world.fail() == 1
        world.advance(seconds=1)
        assert await world.succeed() == 1
        world.advance(minutes=5)

    assert world.manifest()["failure_count"] == 0
    assert world.rows("SELECT * FROM dead_letter") == []


@pytest.mark.pair("dead letter", "interval")
async def test_max_retries_zero_still_runs_once_and_then_parks(world: World) -> None:
    await world.seed(manifest(max_retries=0))
    first = await world.cycle()
    assert (first.queued, first.parked) == (1, ())
    assert await world.fail() == 1

    assert len(world.rows("SELECT 1 FROM dead_letter")) == 1


async def test_a_failure_does_not_delay_the_next_occurrence_of_a_shorter_period(world: World) -> None:
    await world.seed(manifest(retry_delay=timedelta(minutes=40)))
    await world.cycle()
    await world.fail()
    world.advance(minutes=5)

    await world.cycle()

    assert len(await world.claim()) == 1
    assert [(status, reason) for status, reason, _ in world.verdicts()] == [
        ("dispatched", None),
        ("dispatched", None),
    ]


async def test_a_cancelled_run_uses_its_occurrence_up(world: World) -> None:
    await world.seed(manifest())
    await world.cycle()
    await world.finish(*await world.claim(), state=TrainState.CANCELLED, ended_by=EndedBy.OPERATOR)
    world.advance(seconds=5)
    await world.cycle()

    assert await world.claim() == []


async def test_a_timed_out_run_is_not_due_again_five_seconds_later(world: World) -> None:
    await world.seed(manifest(timeout=timedelta(minutes=1)))
    await world.cycle()
    runs = await world.claim()
    world.advance(minutes=2)
    assert (await world.cycle()).timed_out == (runs[0].id,)
    await world.finish(*runs, state=TrainState.FAILED, ended_by=EndedBy.TIMEOUT)
    world.advance(seconds=5)
    await world.cycle()

    assert await world.claim() == []
    assert world.manifest()["failure_count"] == 1


@pytest.mark.pair("disable", "interval")
async def test_a_disabled_manifest_gets_one_row_when_it_is_enabled_again(world: World) -> None:
    declared = manifest(schedule=HOURLY)
    await world.seed(manifest(schedule=HOURLY, is_enabled=False))
    world.advance(hours=3, minutes=30)
    assert (await world.cycle()).queued == 0
    await world.seed(declared)

    await world.cycle()

    assert world.verdicts() == [("skipped", "disabled", 3)]
    world.advance(minutes=30)
    assert (await world.cycle()).queued == 1


@pytest.mark.pair("orphaning", "interval")
async def test_an_orphaned_manifest_makes_no_new_runs(world: World) -> None:
    await world.seed(manifest("stays", schedule=Manual()), manifest("goes"))
    await world.seed(manifest("stays", schedule=Manual()))

    assert (await world.cycle()).queued == 0
    assert (await world.cycle()).looked_at == 0


async def test_a_schedule_that_cannot_be_read_is_that_manifests_problem_alone(world: World) -> None:
    await world.seed(manifest("bad"), manifest("worse"), manifest("worst"), manifest("good"))
    world.rows("UPDATE manifest SET interval_seconds = 0.001 WHERE external_id = 'bad'")
    world.rows(
        "UPDATE manifest SET timezone = 'Mars/Olympus', exclusions = '[{\"days\": [\"sat\"]}]' "
        "WHERE external_id = 'worse'"
    )
    world.rows(
        "UPDATE manifest SET schedule_type = 'cron', cron_expression = '0 0 30 2 *', interval_seconds = NULL "
        "WHERE external_id = 'worst'"
    )

    result = await world.cycle()

    assert (result.queued, result.errors) == (1, 3)
    for name in ("bad", "worse", "worst"):
        assert world.verdicts(name) == [("skipped", "error", 1)]
        assert world.entries(name)[0]["error"]
    assert (await world.cycle()).is_idle, "a schedule that cannot be read does not spin"


@pytest.mark.pair("DST", "cron")
async def test_the_instants_around_a_change_of_the_clocks_are_each_decided_once(world: World) -> None:
    await world.seed(manifest(schedule=Cron("30 2 * * *", "Europe/Berlin")))
    decided = []
    world.clock.advance(datetime(2026, 3, 28, 12, tzinfo=UTC) - START)
    await world.cycle()
    await world.succeed()
    for _ in range(48):
        world.advance(hours=1)
        await world.cycle()
        runs = await world.claim()
        decided += [run.due_at for run in runs]
        await world.finish(*runs)

    assert decided == [datetime(2026, 3, 29, 1, tzinfo=UTC), datetime(2026, 3, 30, 0, 30, tzinfo=UTC)]


async def test_interval_anchors_survive_a_night_off(world: World) -> None:
    await world.seed(manifest(schedule=Interval(timedelta(minutes=7))))
    await world.cycle()
    await world.succeed()
    world.advance(hours=8)
    await world.cycle()

    following = world.instant(world.manifest()["next_scheduled_run"])
    assert (following - START) % timedelta(minutes=7) == timedelta(0)
    assert world.clock.now < following <= world.clock.now + timedelta(minutes=7)
