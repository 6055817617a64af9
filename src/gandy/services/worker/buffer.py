"""The runs that a worker holds and has not begun."""

from __future__ import annotations

import asyncio
from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gandy.model.run import ClaimedRun

RUNS_A_TURN: Final = 64
MOST_SLOTS_A_TURN: Final = 64


class RunBuffer:
    """First in, first out, for the slots of one event loop.

    Runs are handed out in turns, one turn of the event loop each: jobs that never wait would otherwise keep
    claims and ends from moving until every slot has had its share.
    """

    def __init__(self) -> None:
        self.runs: deque[ClaimedRun] = deque()  #: the oldest first
        self._waiting: list[asyncio.Future[None]] = []
        self._left = RUNS_A_TURN
        self._width = 1
        self._is_turn_coming = False
        self.arrived = asyncio.Event()  #: set by each `put`; whoever waits for it clears it

    def put(self, runs: Sequence[ClaimedRun]) -> None:
        """Add runs; waiting slots are woken with the next turn."""
        self.runs.extend(runs)
        self.arrived.set()
        self._plan_turn()

    async def get(self) -> ClaimedRun:
        """Take the oldest run, or wait for one."""
        while not self.runs or not self._left:
            waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(waiting)
            self._plan_turn()
            await waiting
        self._left -= 1
        return self.runs.popleft()

    def find(self, fits: Callable[[ClaimedRun], bool]) -> ClaimedRun | None:
        """Return the oldest run that fits, which stays held."""
        return next((run for run in self.runs if fits(run)), None)

    def take(self, most: int, fits: Callable[[ClaimedRun], bool]) -> list[ClaimedRun]:
        """Take the oldest runs that fit, at once and at most that many."""
        taken = list(islice((run for run in self.runs if fits(run)), most))
        if taken:
            ids = {run.id for run in taken}
            self.runs = deque(run for run in self.runs if run.id not in ids)
        return taken

    def _plan_turn(self) -> None:
        if self.runs and self._waiting and not self._is_turn_coming:
            self._is_turn_coming = True
            asyncio.get_running_loop().call_soon(self._begin_turn)

    def _begin_turn(self) -> None:
        """Wake one slot, which goes on from job to job, or ever more where the jobs wait for something."""
        self._is_turn_coming = False
        self._width = min(2 * self._width, MOST_SLOTS_A_TURN) if self._left else 1
        self._left = RUNS_A_TURN
        for _ in range(min(self._width, len(self.runs), len(self._waiting))):
            waiting = self._waiting.pop()
            if not waiting.done():
                waiting.set_result(None)
        self._plan_turn()

    @property
    def ids(self) -> list[int]:
        """The runs that are held."""
        return [run.id for run in self.runs]

    def clear(self) -> list[int]:
        """Give up everything that was not begun."""
        ids = self.ids
        self.runs.clear()
        return ids
