"""Runs that are handed to another engine: a delivery that fails is not a failed job."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from gandy import Delivery, Gandy
from gandy.clock import ManualClock
from gandy.loops.wakeups import Wakeups
from gandy.work.dispatcher import DispatcherService

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)


class Elsewhere:
    """An engine that can be told to refuse."""

    def __init__(self) -> None:
        self.delivered: list[Delivery] = []
        self.asked = 0
        self.is_down = False

    async def submit(self, delivery: Delivery) -> None:
        """Take it, or raise."""
        self.asked += 1
        if self.is_down:
            raise ConnectionRefusedError("nobody there")
        self.delivered.append(delivery)


async def greet(name: str) -> str:
    """The train."""
    return f"hello {name}"


@pytest.fixture
def clock() -> ManualClock:
    """Time that moves when told."""
    return ManualClock(NOW)


@pytest.fixture
def elsewhere() -> Elsewhere:
    """The other engine."""
    return Elsewhere()


@pytest.fixture
def app(migrated_url: str, clock: ManualClock, elsewhere: Elsewhere) -> Gandy:
    """An application whose runs go elsewhere."""
    app = Gandy("shop", database=migrated_url)
    app.use_clock(clock)
    app.submit_to(elsewhere)
    app.train(greet)
    return app


def dispatcher(app: Gandy) -> DispatcherService:
    """The application's dispatcher."""
    return DispatcherService(app._require("a test").context, Wakeups(app.database, app.name))


async def test_a_delivered_run_is_taken_up_once_however_often_it_is_delivered(
    app: Gandy, elsewhere: Elsewhere
) -> None:
    async with app:
        job = await app.enqueue(greet, "world")
        await dispatcher(app).tick()
        assert [delivery.run_id for delivery in elsewhere.delivered] == [job.id]

        assert await app.run_delivered(job.id) is True
        assert await app.run_delivered(job.id) is False
        assert await job.result(timeout=5) == "hello world"


async def test_a_delivery_that_fails_is_made_again_with_backoff_and_fails_no_run(
    app: Gandy, elsewhere: Elsewhere, clock: ManualClock
) -> None:
    async with app:
        job = await app.enqueue(greet, "world")
        elsewhere.is_down = True
        service = dispatcher(app)
        await service.tick()
        await service.tick()
        assert elsewhere.asked == 1, "not again before the backoff is over"

        clock.advance(timedelta(seconds=6))
        await service.tick()
        assert elsewhere.asked == 2
        clock.advance(timedelta(seconds=6))
        await service.tick()
        assert elsewhere.asked == 2, "the backoff doubles"

        elsewhere.is_down = False
        clock.advance(timedelta(seconds=6))
        await service.tick()
        assert [delivery.run_id for delivery in elsewhere.delivered] == [job.id]
        assert await app.run_delivered(job.id) is True
        assert await job.result(timeout=5) == "hello world"


async def test_a_run_that_cannot_be_delivered_for_an_hour_has_not_failed(
    app: Gandy, elsewhere: Elsewhere, clock: ManualClock
) -> None:
    async with app:
        job = await app.enqueue(greet, "world")
        elsewhere.is_down = True
        service = dispatcher(app)
        for _ in range(12):
            await service.tick()
            await app.tick("manifest-manager")
            clock.advance(timedelta(minutes=5, seconds=1))
        elsewhere.is_down = False
        await service.tick()
        assert [(each.run_id, each.attempt) for each in elsewhere.delivered] == [(job.id, 1)]
        assert await app.run_delivered(job.id) is True
        assert await job.result(timeout=5) == "hello world"
