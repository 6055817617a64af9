"""The buffer of claimed runs, claims that join an end, and the pace of claiming."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from gandy.store.dispatching import DispatchRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gandy.context import Context
    from gandy.model.run import ClaimedRun
    from gandy.store.dispatching import Dispatched
    from gandy.work.claiming import Claimer


RUNS_A_TURN: Final = 64
MOST_SLOTS_A_TURN: Final = 64


class RunBuffer:
    """A FIFO buffer of claimed runs for the slots of one event loop.

    Runs are handed out in turns, one per iteration of the event loop. Otherwise jobs that never await would
    block claims and ends until every slot has run a job.
    """

    def __init__(self) -> None:
        self.runs: deque[ClaimedRun] = deque()  #: the oldest first
        self._waiting: list[asyncio.Future[None]] = []
        self._left = RUNS_A_TURN
        self._width = 1
        self._is_turn_coming = False
        self.arrived = asyncio.Event()  #: set by each `put`; cleared by the waiting task

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
        """Remove and return the oldest runs that fit, at most `most`, without waiting."""
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
        """Wake one slot, which runs job after job; double the number each turn while jobs await something."""
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
        """The ids of the held runs."""
        return [run.id for run in self.runs]

    def clear(self) -> list[int]:
        """Empty the buffer and return the ids of its runs."""
        ids = self.ids
        self.runs.clear()
        return ids


class Claiming(Protocol):
    """The part of a worker that a claimer uses."""

    @property
    def id(self) -> str:
        """The worker id to claim with."""
        ...

    @property
    def is_quiet(self) -> bool:
        """Whether nothing runs and every end is recorded, so that this worker causes no new work."""
        ...

    @property
    def ends_when_idle(self) -> bool:
        """Whether someone waits until this worker is idle."""
        ...

    def note_idle(self, claimer: Claimer, *, is_idle: bool) -> None:
        """Report whether a claim made while the worker was quiet found nothing."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotDemand:
    """The slots that a claimer fills: how many, and for which trains."""

    slots: int
    prefetch: int
    trains: Sequence[str]


class JoinedClaim(NamedTuple):
    """A claim that is made in the transaction of the end that frees the place."""

    claimer: Claimer
    request: DispatchRequest
    serial: int
    caps: Sequence[int] | None  #: the caps to lock for a claim in one statement; None: it is not possible

    def deliver(self, found: Dispatched | None) -> None:
        """Pass the claimed runs to the claimer; None: nothing was committed."""
        self.claimer.deliver(self, found)


class Answer(NamedTuple):
    """The result of a claim: the number of runs, and why there were no more."""

    claimed: int
    is_contended: bool = False
    is_cut: bool = False

    @classmethod
    def of(cls, found: Dispatched, claimed: int) -> Answer:
        """Convert the result of the database."""
        return cls(claimed, found.is_contended or found.held > 0, found.is_cut)


AHEAD_SECONDS: Final = 0.1
SMOOTHING: Final = 0.5
GROWTH: Final = 2  # at most, from one measurement to the next
SHORTEST: Final = 0.001
PARTS: Final = 3


class ClaimPace:
    """Measures how many jobs begin per second and computes how many runs to prefetch."""

    def __init__(self, *, slots: int, most: int) -> None:
        self._most = most
        self._slots = slots
        self.begun = 0  #: the number of jobs that have begun; the claimer counts them
        self._counted = 0
        self._counted_at = time.monotonic()
        self.ahead = min(most, slots)
        self.unit = max(1, self.ahead // PARTS)  #: the smallest claim that is worth a round trip

    def measure(self) -> None:
        """Measure again, before a claim; at once if the worker has used up its prefetched runs."""
        now = time.monotonic()
        elapsed, begun = now - self._counted_at, self.begun - self._counted
        if elapsed < AHEAD_SECONDS and begun < max(self.ahead, 1):
            return
        # Do not prefetch jobs that take longer than AHEAD_SECONDS: another worker may be free for them.
        most = max(GROWTH * self.ahead, self._slots)
        wanted = min(begun / max(elapsed, SHORTEST) * AHEAD_SECONDS, most)
        smoothed = wanted if wanted > self.ahead else SMOOTHING * (wanted + self.ahead)
        self.ahead = min(self._most, int(smoothed))
        self.unit = max(1, self.ahead // PARTS)
        self._counted, self._counted_at = self.begun, now

    def stall(self) -> None:
        """Prefetch nothing until jobs begin again: held runs would wait for long jobs."""
        self.ahead, self.unit = 0, 1
        self._counted, self._counted_at = self.begun, time.monotonic()


def dispatch_request(
    context: Context, limit: int, *, worker_id: str, trains: Sequence[str], turn: int, free_slots: int
) -> DispatchRequest:
    """Request up to `limit` runs, of which `free_slots` can begin; the user's global cap applies, too."""
    settings, cap = context.settings, context.settings.dispatcher.max_active_jobs
    return DispatchRequest(
        owner=context.owner,
        trains=trains,
        limit=limit,
        per_group=settings.dispatcher.max_per_group,
        default_timeout_seconds=settings.manifest_manager.default_timeout.total_seconds(),
        worker_id=worker_id,
        max_active_jobs=cap if isinstance(cap, int) else None,
        turn=turn,
        free_slots=free_slots,
    )
