"""What a run says of itself harms that run alone."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from gandy import Retry, Run
from gandy.desk.runs import RunInsights
from gandy.errors import JobFailedError
from gandy.model.owners import ALL_OWNERS
from gandy.model.run import TrainState
from gandy.settings.values import is_storable
from gandy.store.reading.listings import RunFilter
from tests.hostile.values import HOSTILE, make_app, still_works
from tests.support.worlds import migrated_url

__all__ = ["migrated_url"]


async def say(number: int, run: Run) -> int:
    """Say the hostile value of this number wherever a run may say something."""
    value: Any = HOSTILE[number // 4].value
    match number % 4:
        case 0:
            run.progress(value, 1)
        case 1:
            run.progress(1, value)
        case 2:
            run.activate(value)
        case _ if isinstance(value, str) and not is_storable(value):
            pass  # the report of the test itself could not hold such a line
        case _:
            run.log.info(value)
    return number


async def ask_again(number: int) -> int:
    raise Retry(after=HOSTILE[number].value)


async def test_no_word_of_a_run_leaves_it_or_another_one_unfinished(migrated_url: str) -> None:
    app = make_app(migrated_url, worker={"slots": 20})
    app.train(max_retries=1)(say)
    app.train(max_retries=1)(ask_again)
    async with app:
        jobs = await app.enqueue_many(say, range(4 * len(HOSTILE)))
        others = await app.enqueue_many(ask_again, range(len(HOSTILE)))
        await still_works(app)

        runs = await RunInsights(app.database, ALL_OWNERS, app.registry).list(RunFilter(limit=10_000))
        assert {job.id for job in (*jobs, *others)} <= {run.id for run in runs}
        assert {run.state for run in runs} <= {TrainState.COMPLETED, TrainState.FAILED}


@pytest.mark.parametrize(
    ("done", "total"), [(0.5, 1), (10**25, None), (-1, 1), (True, 1), (1, 2**63), (1, 0.5)]
)
async def test_progress_that_cannot_be_stored_fails_the_run_with_its_range(
    migrated_url: str,
    done: int,
    total: int | None,
) -> None:
    app = make_app(migrated_url)

    @app.train(retry=False)
    async def report(run: Run) -> None:
        run.progress(done, total)

    async with app:
        job = await app.enqueue(report)
        await still_works(app)
        with pytest.raises(JobFailedError, match="must be a whole number from 0 to 9223372036854775807"):
            await job.result(timeout=30)


async def test_a_retry_without_a_delay_follows_at_once(migrated_url: str) -> None:
    app = make_app(migrated_url)
    attempts: list[int] = []

    @app.train(retry_delay=timedelta(0))
    async def second_time(run: Run) -> int:
        attempts.append(run.attempt)
        if run.attempt == 1:
            raise ValueError("not yet")
        return run.attempt

    async with app:
        job = await app.enqueue(second_time)
        await app.work(asyncio.Event(), until_idle=True)
        assert await job.result(timeout=30) == 2
        assert attempts == [1, 2]
