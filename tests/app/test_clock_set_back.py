"""A database's clock that is set back while jobs are ready to run, without a manager that puts it right."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from gandy import Gandy
from gandy.clock import ManualClock
from gandy.store.drivers.opening import migrate

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize("back", [timedelta(seconds=30), timedelta(hours=2)])
async def test_a_worker_ends_when_only_later_work_is_left_and_runs_it_when_it_is_due(
    migrated_url: str, back: timedelta
) -> None:
    clock = ManualClock(NOW)
    app = Gandy("shop", migrated_url)
    app.use_clock(clock)
    ran: list[str] = []

    @app.train
    async def sell(what: str) -> None:
        ran.append(what)

    @app.train
    async def elsewhere(what: str) -> None:
        ran.append(what)

    app.schedule("report", sell, "report")
    async with app:
        await app.tick("manifest-manager")
        await app.enqueue(sell, "queued")
        await app.enqueue(elsewhere, "grouped", group="other")
        await app.trigger("report")
        clock.jump(-back)
        await app.enqueue(sell, "now")

        await app.work(asyncio.Event(), until_idle=True)
        assert ran == ["now"]
        clock.jump(back)
        await app.work(asyncio.Event(), until_idle=True)

    assert sorted(ran) == ["grouped", "now", "queued", "report"]


async def test_a_worker_does_not_end_while_another_server_opens_what_is_due(
    postgres_url: str,
) -> None:
    migrate(postgres_url)
    clock = ManualClock(NOW)
    app = Gandy("shop", postgres_url)
    app.use_clock(clock)
    ran: list[str] = []

    @app.train
    async def sell(what: str) -> None:
        ran.append(what)

    async with app:
        await app.enqueue(sell, "later", delay=timedelta(minutes=1))
        clock.advance(timedelta(minutes=1))
        with psycopg.connect(postgres_url) as other_server:
            other_server.execute("SELECT FROM gandy.work_queue WHERE gate = 'time' FOR UPDATE")
            working = asyncio.create_task(app.work(asyncio.Event(), until_idle=True))
            await asyncio.wait((working,), timeout=1)
            assert not working.done()
        await working

    assert ran == ["later"]
