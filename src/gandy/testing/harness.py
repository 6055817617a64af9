"""Drive an application in a test: the test advances the clock and starts every cycle."""

from __future__ import annotations

import asyncio
import tempfile
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from gandy.clock import ManualClock
from gandy.store.drivers.opening import empty_database

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime
    from types import TracebackType
    from typing import Self

    from gandy.app import Gandy
    from gandy.app.running import Ticked


class Harness:
    """An application on a manual clock and a database of the test; the code paths of production.

        async with Harness(app, now=datetime(2026, 1, 1, tzinfo=UTC)) as harness:
            harness.clock.advance(timedelta(hours=1))
            await harness.tick("manifest-manager")
            await harness.run_until_idle()

    The database is a temporary SQLite file, or the one that `database` names, in which no application may
    have rows. While the harness is open, the application and its `sync` use it; afterwards the application is
    as it was, and Gandy's tables are gone again, unless they were there before.
    """

    def __init__(self, app: Gandy, *, now: datetime, database: str | None = None) -> None:
        self.app = app
        self.clock = ManualClock(now)
        self._database = database
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            url = self._database or stack.enter_context(_temporary_file())
            if self._database:
                stack.enter_context(empty_database(url))
            stack.enter_context(self.app.elsewhere(url, self.clock))
            await stack.enter_async_context(self.app)
            self._stack = stack.pop_all()
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


@contextmanager
def _temporary_file() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="gandy-harness-") as folder:
        yield f"sqlite:///{Path(folder) / 'gandy.db'}"
