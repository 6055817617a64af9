"""The runs that a worker holds and has not begun."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gandy.model.run import ClaimedRun


class RunBuffer:
    """First in, first out, for the slots of one event loop; lighter than a queue of asyncio's."""

    def __init__(self) -> None:
        self._runs: deque[ClaimedRun] = deque()
        self._waiting: deque[asyncio.Future[None]] = deque()

    def __len__(self) -> int:
        return len(self._runs)

    def put(self, runs: Sequence[ClaimedRun]) -> None:
        """Add runs and wake as many slots."""
        self._runs.extend(runs)
        for _ in range(min(len(runs), len(self._waiting))):
            waiting = self._waiting.popleft()
            if not waiting.done():
                waiting.set_result(None)

    async def get(self) -> ClaimedRun:
        """Take the oldest run, or wait for one."""
        while not self._runs:
            waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(waiting)
            await waiting
        return self._runs.popleft()

    @property
    def ids(self) -> list[int]:
        """The runs that are held."""
        return [run.id for run in self._runs]

    def clear(self) -> list[int]:
        """Give up everything that was not begun."""
        ids = self.ids
        self._runs.clear()
        return ids
