"""Jobs that fail for a while, on each database: when they run again, and when they are parked."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from gandy.model.run import RunEnd, TrainState
from gandy.model.schedule import Cron, Interval, MisfirePolicy
from gandy.settings import RetrySettings
from gandy.store.finishing import FinishRules, finish_runs
from gandy.store.queueing import trigger
from tests.support.world import OWNER, PUNCTUAL, SPANS, START, WORKER, World, manifest
from tests.unit.rules.outage import Job, Story, as_written

if TYPE_CHECKING:
    from gandy.model.run import ClaimedRun

FIVE_SECONDS = Interval(timedelta(seconds=5))


async def outage(world: World, job: Job, *, until: int) -> Story:
    """Fail every run at the instant that it is ready, from event to event."""
    await world.seed(
        manifest(
            schedule=Interval(timedelta(seconds=job.period)),
            retry_delay=timedelta(seconds=job.delay),
            max_retries=job.limit,
            misfire_policy=job.misfire,
            misfire_threshold=timedelta(days=1),
        )
    )
    story = Story()
    while _seconds(world) <= until:
        await world.cycle()
        if world.rows("SELECT 1 FROM dead_letter"):
            story.parked = _seconds(world)
            break
        if await world.fail():
            story.runs.append(_seconds(world))
        else:
            world.clock.advance(_next_event(world) - world.clock.now)
    for row in [each for each in world.entries() if each["reason"] == "already_queued"]:
        first, last = (world.instant(row[name]) for name in ("due_at", "due_until"))
        story.skipped.extend(_span(at) for at in _instants(first, last, job.period))
    return story


@pytest.mark.parametrize(
    "job",
    [
        Job(period=60, delay=300, limit=3),
        Job(period=60, delay=300, limit=1, misfire=MisfirePolicy.CATCH_UP),
        Job(period=420, delay=300, limit=4),
        Job(period=420, delay=300, limit=4, misfire=MisfirePolicy.CATCH_UP),
        Job(period=120, delay=60, limit=5, misfire=MisfirePolicy.DO_NOTHING),
        Job(period=300, delay=0, limit=3),
        Job(period=900, delay=7_200, limit=2),
    ],
    ids=str,
)
async def test_an_outage_goes_as_the_rule_is_written(world: World, job: Job) -> None:
    assert await outage(world, job, until=8_000) == as_written(job, until=8_000)


async def test_seconds_of_an_outage_neither_silence_nor_park_a_frequent_job(
    world: World,
) -> None:
    await world.seed(manifest(schedule=FIVE_SECONDS))
    for _ in range(5):
        assert (await world.cycle()).parked == ()
        assert await world.fail() == 1
        world.advance(seconds=5)
    await world.cycle()

    assert await world.succeed() == 1
    assert world.manifest()["failure_count"] == 0
    assert world.rows("SELECT * FROM dead_letter") == []


async def test_a_success_begins_a_new_count_of_the_minutes(world: World) -> None:
    await world.seed(manifest(schedule=FIVE_SECONDS))
    for ends in (world.fail, world.succeed, *[world.fail] * 3):
        await world.cycle()
        assert await ends() == 1
        world.advance(minutes=4)

    assert (await world.cycle()).parked == (), "twenty minutes after the first failure of all"


async def test_a_cron_that_pauses_for_the_night_is_retried_in_it(world: World) -> None:
    await world.seed(manifest(schedule=Cron("* 12 * * *")))
    world.advance(minutes=59)
    await world.cycle()
    assert await world.fail() == 1

    (retry,) = world.rows("SELECT * FROM work_queue WHERE status = 'queued'")
    assert world.instant(retry["scheduled_at"]) == START + timedelta(minutes=64)


async def test_what_the_run_asks_for_is_kept_however_short_the_period(world: World) -> None:
    await world.seed(manifest(schedule=FIVE_SECONDS))
    await world.cycle()
    await _fail(world, *await world.claim(), retry_after=timedelta(minutes=2))
    for _ in range(3):
        world.advance(seconds=5)
        await world.cycle()
        assert await world.claim() == []

    world.advance(seconds=105)
    assert len(await world.claim()) == 1
    assert world.verdicts()[1:] == [("dispatched", None, 1), ("skipped", "already_queued", 3)]


async def test_another_input_than_the_schedules_is_tried_again_itself(world: World) -> None:
    await world.seed(manifest(schedule=FIVE_SECONDS))
    await world.cycle()
    await world.succeed()
    await world.database.run(trigger("report", owner=OWNER, delay=timedelta(0), input_json='{"month":12}'))
    assert await world.fail() == 1

    (retry,) = world.rows("SELECT * FROM work_queue WHERE status = 'queued'")
    assert (retry["origin"], retry["attempt"]) == ("retry", 2)
    assert str(retry["input"]).replace(" ", "").replace("'", '"') == '{"month":12}'


async def test_jobs_that_fail_together_do_not_come_back_together(world: World) -> None:
    names = [f"report-{number}" for number in range(30)]
    await world.seed(*[manifest(name, schedule=Interval(timedelta(hours=1))) for name in names])
    await world.cycle()
    await _fail(world, *await world.claim(), settings=RetrySettings())

    pauses = {
        world.instant(row["scheduled_at"]) - START
        for row in world.rows("SELECT scheduled_at FROM work_queue WHERE status = 'queued'")
    }
    assert len(pauses) == len(names)
    assert timedelta(minutes=5) <= min(pauses) < max(pauses) <= timedelta(minutes=5.5)


@pytest.mark.parametrize("schedule", [FIVE_SECONDS, Interval(timedelta(hours=1))], ids=["short", "long"])
async def test_what_is_given_up_on_is_parked_with_its_first_failure(world: World, schedule: Interval) -> None:
    await world.seed(manifest(schedule=schedule, max_retries=5))
    await world.cycle()
    (run,) = await world.claim()
    await _fail(world, run, gives_up=True)

    (letter,) = world.rows("SELECT * FROM dead_letter")
    assert (letter["metadata_id"], letter["status"]) == (run.id, "awaiting_intervention")
    assert world.rows("SELECT * FROM work_queue WHERE status = 'queued'") == []
    world.clock.advance(schedule.every)
    await world.cycle()
    assert await world.claim() == []


async def _fail(
    world: World,
    *runs: ClaimedRun,
    settings: RetrySettings = PUNCTUAL,
    **said: Any,  # noqa: ANN401 any field of an end
) -> None:
    ends = [
        RunEnd(
            id=run.id,
            train=run.train,
            worker_id=WORKER,
            fence=run.fence,
            state=TrainState.FAILED,
            manifest_id=run.manifest_id,
        )._replace(**said)
        for run in runs
    ]
    await world.database.run(finish_runs(ends, FinishRules(OWNER, SPANS, 10, retry=settings)))


def _next_event(world: World) -> datetime:
    queued = world.rows("SELECT scheduled_at FROM work_queue WHERE status = 'queued'")
    instants = [world.instant(row["scheduled_at"]) for row in queued]
    instants.append(world.instant(world.manifest()["next_scheduled_run"]))
    return min(at for at in instants if at > world.clock.now)


def _instants(first: datetime, last: datetime, period: int) -> list[datetime]:
    count = (last - first) // timedelta(seconds=period)
    return [first + number * timedelta(seconds=period) for number in range(count + 1)]


def _seconds(world: World) -> int:
    return _span(world.clock.now)


def _span(at: datetime) -> int:
    return (at - START) // timedelta(seconds=1)
