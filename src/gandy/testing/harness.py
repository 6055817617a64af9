"""Drive an application in a test: the test advances the clock and starts every cycle."""

from __future__ import annotations

import asyncio
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from gandy.clock import ManualClock

if TYPE_CHECKING:
    from datetime import datetime
    from types import TracebackType
    from typing import Self

    from gandy.app import Gandy
    from gandy.app.running import Ticked


class Harness:
    """An application on a temporary SQLite database and a manual clock; the code paths of production.

        async with Harness(app, now=datetime(2026, 1, 1, tzinfo=UTC)) as harness:
            harness.clock.advance(timedelta(hours=1))
            await harness.tick("manifest-manager")
            await harness.run_until_idle()

    While it is open, the harness overrides the application's database URL.
    """

    def __init__(self, app: Gandy, *, now: datetime) -> None:
        self.app = app
        self.clock = ManualClock(now)
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        folder = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="gandy-harness-"))
        usual = self.app.loaded_settings.settings.database.url
        self.app.configure({"database": {"url": f"sqlite:///{Path(folder) / 'gandy.db'}"}})
        self._stack.callback(self.app.configure, {"database": {"url": usual}})
        self.app.use_clock(self.clock)
        self._stack.callback(self.app.use_clock, None)
        await self._stack.enter_async_context(self.app)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    async def tick(self, service: str) -> Ticked:
        """Run exactly one cycle of a service and return its result."""
        return await self.app.tick(service)

    async def run_until_idle(self) -> int:
        """Run due entries and the entries that these make due; return the number of parked jobs."""
        return await self.app.work(asyncio.Event(), until_idle=True)
