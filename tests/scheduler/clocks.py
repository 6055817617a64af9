"""An application whose clock can be set wrong, and the plainest model of which instants it may run."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from gandy import Gandy, Run, cron, every
from gandy.clock import ManualClock
from gandy.model.schedule import MisfirePolicy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from gandy.model.schedule import Cron, Interval

START = datetime(2026, 3, 2, 12, tzinfo=UTC)
HALF_HOUR = timedelta(minutes=30)
MOST_CYCLES = 120
#: Each runs every half hour, on the beat of the start.
SCHEDULES: dict[str, tuple[Cron | Interval, MisfirePolicy]] = {
    "interval": (every(minutes=30), MisfirePolicy.FIRE_ONCE_NOW),
    "cron": (cron("*/30 * * * *"), MisfirePolicy.FIRE_ONCE_NOW),
    "cron in a zone": (cron("0,30 * * * *", timezone="Europe/Berlin"), MisfirePolicy.FIRE_ONCE_NOW),
    "do nothing": (cron("*/30 * * * *"), MisfirePolicy.DO_NOTHING),
    "catch up": (every(minutes=30), MisfirePolicy.CATCH_UP),
}


@dataclass
class Site:
    """One database, and processes on it that come and go; each sees the clock of its own time."""

    url: str
    clock: ManualClock = field(default_factory=lambda: ManualClock(START))
    ran: dict[str, list[datetime]] = field(default_factory=dict)
    app: Gandy | None = None
    more: dict[str, tuple[Cron | Interval, MisfirePolicy]] = field(default_factory=dict)
    keep_for: timedelta | None = None  #: how long runs stay on record; None: the default

    async def open(self) -> None:
        """Start a process."""
        self.app = self._declared()
        self.app.use_clock(self.clock)
        await self.app.__aenter__()

    async def close(self) -> None:
        """Stop it."""
        if self.app is not None:
            await self.app.__aexit__(None, None, None)
            self.app = None

    async def jump(self, span: timedelta, *, restarts: bool) -> None:
        """Set the clock, under the process or between two of them."""
        if not restarts:
            self.clock.jump(span)
            return
        await self.close()
        self.clock = ManualClock(self.clock.now + span)
        await self.open()

    async def step(self, span: timedelta = timedelta(0), *, works: bool = True) -> None:
        """Let time pass, evaluate, and run what may run, until nothing is due."""
        assert self.app is not None
        self.clock.advance(span)
        for _ in range(MOST_CYCLES):
            ticked = await self.app.tick("manifest-manager")
            if works:
                await self.app.work(asyncio.Event(), until_idle=True)
            if ticked["looked_at"] == ticked["queued"]:
                return
        pytest.fail("a manifest is looked at without end")

    def _declared(self) -> Gandy:
        app = Gandy("shop", self.url)
        for name, (schedule, misfire) in (SCHEDULES | self.more).items():
            train = app.train(name=f"run {name}", keep_for=self.keep_for)(self._recorder(name))
            app.schedule(name, train, schedule, misfire=misfire)
        return app

    def _recorder(self, name: str) -> Callable[[Run], None]:
        ran = self.ran.setdefault(name, [])

        def record(run: Run) -> None:
            assert run.due_at is not None
            ran.append(run.due_at)

        return record


async def opened(url: str, *, keep_for: timedelta | None = None) -> AsyncIterator[Site]:
    """Give a site with an hour of history."""
    site = Site(url, keep_for=keep_for)
    await site.open()
    await site.step()
    for _ in range(2):
        await site.step(HALF_HOUR)
    yield site
    await site.close()


def instants(after: datetime, until: datetime) -> list[datetime]:
    """Reckon the instants of every schedule in the plainest way."""
    beat = (START + number * HALF_HOUR for number in range(-10, 2_000))
    return [at for at in beat if after < at <= until]
