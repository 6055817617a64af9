"""What a schedule does while its job fails, seen from outside."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta

import pytest

from gandy import Days, Gandy, Retry, TimeWindow, cron, every
from gandy.testing import Harness

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


async def attempts(app: Gandy, *, step: timedelta, steps: int) -> int:
    """Let time pass in steps; return how often a job was parked."""
    parked = 0
    async with Harness(app, now=NOW) as harness:
        for _ in range(steps):
            ticked = await harness.tick("manifest-manager")
            parked += ticked["dead_lettered"] == 1
            parked += await harness.run_until_idle()
            harness.clock.advance(step)
    return parked


async def test_a_minute_of_an_outage_parks_no_job_of_every_five_seconds() -> None:
    app = Gandy("shop")
    tried: list[int] = []

    @app.train
    async def ping() -> None:
        tried.append(len(tried))
        raise ConnectionError("no answer")

    app.schedule("ping", ping, every(seconds=5))

    assert await attempts(app, step=timedelta(seconds=5), steps=12) == 0
    assert len(tried) == 12, "nor is it silent meanwhile"


async def test_an_instant_does_not_bring_forward_what_the_run_asked_for() -> None:
    app = Gandy("shop")
    tried: list[datetime] = []

    @app.train
    async def poll() -> None:
        tried.append(harness.clock.now)
        raise Retry(after=timedelta(minutes=25))

    app.schedule("poll", poll, every(minutes=10))
    async with Harness(app, now=NOW) as harness:
        for _ in range(3):
            await harness.tick("manifest-manager")
            await harness.run_until_idle()
            harness.clock.advance(timedelta(minutes=10))

    assert tried == [NOW]


@pytest.mark.parametrize(
    ("expression", "exclude"),
    [("0 3 * * *", [TimeWindow(time(2), time(4))]), ("0 3 * * 1-2", [Days.on("mon"), Days.on("tue")])],
)
def test_exclusions_that_leave_no_instant_are_refused(
    expression: str, exclude: list[TimeWindow | Days]
) -> None:
    app = Gandy("shop")

    @app.train
    async def report() -> None:
        return None

    with pytest.raises(ValueError, match="nothing would ever run"):
        app.schedule("report", report, cron(expression), exclude=exclude)


def test_the_usual_words_are_read() -> None:
    readable = []
    for word in ("@daily", "0 22-2 * * *", "0 3 * * FRI-MON"):
        try:
            readable.append(cron(word))
        except ValueError:
            continue

    assert len(readable) == 3


async def test_a_job_whose_retry_is_to_come_is_not_parked() -> None:
    """The park window ends while the attempt that the run asked for is still to come."""
    app = Gandy("shop")
    tried: list[datetime] = []

    @app.train
    async def poll() -> None:
        tried.append(harness.clock.now)
        if len(tried) <= 3:
            raise Retry(after=timedelta(minutes=4))

    app.schedule("poll", poll, every(minutes=1))
    parked = 0
    async with Harness(app, now=NOW) as harness:
        for _ in range(60):
            parked += (await harness.tick("manifest-manager"))["dead_lettered"] == 1
            parked += await harness.run_until_idle()
            harness.clock.advance(timedelta(minutes=1))

    assert parked == 0
    assert len(tried) > 20, "after its success the schedule goes on"


async def test_one_trigger_during_an_outage_does_not_silence_a_dense_schedule() -> None:
    """Its retry pauses by its own failure, not by those of all instants before it."""
    app = Gandy("shop")
    worked: list[datetime] = []

    @app.train
    async def ping(number: int) -> None:
        if harness.clock.now < NOW + timedelta(minutes=12):
            raise ConnectionError(number)
        worked.append(harness.clock.now)

    app.schedule("ping", ping, 1, every(minutes=1))
    async with Harness(app, now=NOW) as harness:
        for minute in range(60):
            if minute == 10:
                await app.trigger("ping", input=7)
            await harness.tick("manifest-manager")
            await harness.run_until_idle()
            harness.clock.advance(timedelta(minutes=1))

    assert worked[0] <= NOW + timedelta(minutes=17)
    assert len(worked) > 40
