"""The settings of retries and schedules: each changes what happens, and a word of the job stands over it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from gandy import Gandy, every
from gandy.testing import Harness
from tests.support.world import World

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gandy.app.keywords import ScheduleKeywords

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def failing_app(**retry: object) -> Gandy:
    app = Gandy("shop", retry={"jitter": 0, **retry})

    @app.train(name="fail")
    async def fail(count: int) -> None:
        raise ValueError(count)

    @app.train(name="own", max_retries=2, retry_delay=MINUTE)
    async def own(count: int) -> None:
        raise ValueError(count)

    return app


async def pauses(app: Gandy, train: str = "fail") -> list[timedelta]:
    """Enqueue a job that fails, and give the pauses before its attempts until it is parked."""
    found: list[timedelta] = []
    async with Harness(app, now=NOW) as harness:
        world = World(app.settings.database.url, harness.clock, app.database)
        await app.enqueue(app.registry.get(train).source, 1)
        while not await harness.run_until_idle():
            (row,) = world.rows("SELECT scheduled_at FROM work_queue WHERE status = 'queued'")
            found.append(world.instant(row["scheduled_at"]) - harness.clock.now)
            harness.clock.advance(found[-1])
    return found


@pytest.mark.parametrize(
    ("retry", "expected"),
    [
        ({}, [5, 10]),
        ({"max_retries": 1}, []),
        ({"max_retries": 4}, [5, 10, 20]),
        ({"delay": "1m"}, [1, 2]),
        ({"longest_delay": "6m"}, [5, 6]),
        ({"delay": "2h"}, [120, 120]),
    ],
    ids=str,
)
async def test_a_setting_of_retries_changes_the_attempts(
    retry: Mapping[str, object], expected: list[int]
) -> None:
    assert await pauses(failing_app(**retry)) == [count * MINUTE for count in expected]


async def test_what_the_train_says_stands_over_the_settings() -> None:
    assert await pauses(failing_app(max_retries=5, delay="9m"), "own") == [MINUTE]


async def test_jitter_adds_up_to_its_share() -> None:
    (first, _) = await pauses(failing_app(jitter=1))

    assert 5 * MINUTE < first < 10 * MINUTE


@pytest.mark.parametrize(("window", "is_parked"), [("15m", False), ("30s", True)])
async def test_the_park_window_says_how_long_a_frequent_job_may_fail(window: str, *, is_parked: bool) -> None:
    app = failing_app(park_window=window)
    app.schedule("often", app.registry.get("fail").source, 1, every(seconds=15))
    letters: list[object] = []
    async with Harness(app, now=NOW) as harness:
        for _ in range(5):
            await harness.tick("manifest-manager")
            letters.append(await harness.run_until_idle())
            harness.clock.advance(timedelta(seconds=15))

    assert any(letters) is is_parked


@pytest.mark.parametrize(
    ("schedule", "own", "expected"),
    [
        ({}, {}, ("fire_once_now", 60.0, 3)),
        ({"misfire": "do_nothing", "misfire_threshold": "5m"}, {}, ("do_nothing", 300.0, 3)),
        (
            {"misfire": "do_nothing", "misfire_threshold": "5m"},
            {"misfire": "catch_up", "misfire_threshold": MINUTE, "max_retries": 7},
            ("catch_up", 60.0, 7),
        ),
    ],
    ids=["default", "settings", "own"],
)
async def test_a_schedule_takes_from_the_settings_what_it_does_not_say(
    schedule: Mapping[str, object], own: ScheduleKeywords, expected: tuple[str, float, int]
) -> None:
    app = Gandy("shop", schedule=schedule)

    @app.train
    async def sell(count: int) -> int:
        return count

    app.schedule("declared", sell, 1, every(hours=1), **own)
    async with Harness(app, now=NOW) as harness:
        await app.seed()
        await app.add_schedule("added", sell, 1, every(hours=1), **own)
        world = World(app.settings.database.url, harness.clock, app.database)
        rows = world.rows("SELECT misfire_policy, misfire_threshold_seconds, max_retries FROM manifest")

    assert [tuple(row.values()) for row in rows] == [expected, expected]
