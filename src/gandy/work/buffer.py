"""Claimed runs on their way to a slot: the buffer, the tickets of claims, and their pace."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gandy.model.run import ClaimedRun
    from gandy.store.dispatching import Dispatched, DispatchRequest
    from gandy.work.claiming import Claimer


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


class Claiming(Protocol):
    """What a claimer has to know of its worker."""

    @property
    def id(self) -> str:
        """Under which name to claim."""
        ...

    @property
    def is_quiet(self) -> bool:
        """Whether nothing runs and every end is on record, so that nothing new comes from here."""
        ...

    def note_idle(self, claimer: Claimer, *, is_idle: bool) -> None:
        """Say whether a claim made while all was quiet found nothing."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotDemand:
    """The slots that a claimer fills: how many, and for which trains."""

    slots: int
    prefetch: int
    trains: Sequence[str]


class Ticket(NamedTuple):
    """A claim that another transaction makes: with the end that frees the place, in one commit."""

    claimer: Claimer
    request: DispatchRequest
    serial: int

    def land(self, found: Dispatched | None) -> None:
        """Hand over what was claimed; None: nothing was committed."""
        self.claimer.land(self, found)


class Answer(NamedTuple):
    """What a claim brought, and why no more."""

    claimed: int
    is_contended: bool = False
    is_cut: bool = False

    @classmethod
    def of(cls, found: Dispatched, claimed: int) -> Answer:
        """Read what the database said."""
        return cls(claimed, found.is_contended or found.held > 0, found.is_cut)


AHEAD_SECONDS: Final = 0.1
SMOOTHING: Final = 0.5
GROWTH: Final = 2  # at most, from one measure to the next
SHORTEST: Final = 0.001
PARTS: Final = 3


class ClaimPace:
    """Measures how many jobs begin in a second and says how many are worth holding in advance."""

    def __init__(self, *, slots: int, most: int) -> None:
        self._most = most
        self._slots = slots
        self.begun = 0  #: how many jobs have begun; the claimer counts them
        self._counted = 0
        self._counted_at = time.monotonic()
        self.ahead = min(most, slots)
        self.unit = max(1, self.ahead // PARTS)  #: how many are worth a claim of their own

    def measure(self) -> None:
        """Take the measure again, before a claim; a worker that runs through all it holds need not wait."""
        now = time.monotonic()
        elapsed, begun = now - self._counted_at, self.begun - self._counted
        if elapsed < AHEAD_SECONDS and begun < max(self.ahead, 1):
            return
        # Jobs that take longer than the moment are not held in advance: another worker may be free for them.
        most = max(GROWTH * self.ahead, self._slots)
        wanted = min(begun / max(elapsed, SHORTEST) * AHEAD_SECONDS, most)
        smoothed = wanted if wanted > self.ahead else SMOOTHING * (wanted + self.ahead)
        self.ahead = min(self._most, int(smoothed))
        self.unit = max(1, self.ahead // PARTS)
        self._counted, self._counted_at = self.begun, now

    def stall(self) -> None:
        """Hold nothing in advance until jobs begin again: what is held waits for jobs that take long."""
        self.ahead, self.unit = 0, 1
        self._counted, self._counted_at = self.begun, time.monotonic()
