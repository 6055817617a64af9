"""How a run of each kind can end other than by itself, and what follows."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from tests.matrix.stage import PERIOD, SUBJECT, staged

if TYPE_CHECKING:
    from gandy import Run

MINUTE = timedelta(minutes=1)


async def fail(_run: Run) -> None:
    raise ValueError("no")


@pytest.mark.pair("retry", "manual cron interval once success failure end fan-in output dormant ad-hoc")
async def test_a_failed_run_is_followed_by_another_attempt(migrated_url: str, kind: str) -> None:
    async with staged(migrated_url, kind, max_retries=3, retry_delay=MINUTE) as stage:
        stage.act = fail
        await stage.make_due()
        failed = await stage.work()
        assert len(failed) == 1

        stage.act = None
        assert await stage.work() == []
        await stage.advance(MINUTE)
        assert await stage.work() == failed, "with the same input"
        await stage.advance(MINUTE)
        assert await stage.work() == []


@pytest.mark.pair("dead letter", "manual cron interval once success failure end fan-in output dormant ad-hoc")
async def test_a_job_that_failed_for_good_waits_for_a_person(migrated_url: str, kind: str) -> None:
    async with staged(migrated_url, kind, max_retries=1) as stage:
        stage.act = fail
        await stage.make_due()
        failed = await stage.work()
        letters = await stage.app.dead_letters.list()
        assert [letter.train for letter in letters] == [SUBJECT]

        stage.act = None
        await stage.advance(PERIOD)
        assert await stage.work() == []

        await stage.app.dead_letters.requeue(letters[0].id)
        assert (await stage.work())[:1] == failed[:1]


@pytest.mark.pair("timeout", "manual cron interval once success failure end fan-in output dormant ad-hoc")
async def test_a_run_past_its_timeout_is_ended(migrated_url: str, kind: str) -> None:
    async with staged(migrated_url, kind, timeout=MINUTE) as stage:
        await stage.make_due()
        (run,) = await stage.world.claim(SUBJECT)

        await stage.advance(MINUTE / 2)
        await stage.tick()
        assert not (await stage.app.runs.show(run.id)).cancellation_requested
        await stage.advance(MINUTE)
        await stage.tick()
        assert (await stage.app.runs.show(run.id)).cancellation_requested


@pytest.mark.pair("cancel", "manual cron interval once success failure end fan-in output dormant ad-hoc")
async def test_a_cancelled_entry_does_not_run(migrated_url: str, kind: str) -> None:
    async with staged(migrated_url, kind) as stage:
        await stage.make_due()
        (entry,) = await stage.entries()

        if kind == "ad-hoc":
            await stage.app.queue.cancel(entry.id)
        else:
            await stage.app.manifests.cancel(SUBJECT)

        assert await stage.work() == []
