"""The protocol of a deletion in batches: requests, answers, budgets, pace and throttle."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Generic, TypeVar

K = TypeVar("K")


@dataclass(frozen=True, slots=True)
class Attempt(Generic[K]):
    """Delete the first `limit` dead rows after the cursor, in their own transaction."""

    after: K | None
    limit: int


@dataclass(frozen=True, slots=True)
class SetAsideRequest(Generic[K]):
    """Delete the first dead row after the cursor, or record that it cannot be deleted and pass it."""

    after: K | None


@dataclass(frozen=True, slots=True)
class PassOver(Generic[K]):
    """Leave the first dead row after the cursor to a later sweep: another session has it locked."""

    after: K | None


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Ask whether the next batch may begin; answered by a Verdict."""


@dataclass(frozen=True, slots=True)
class Rest:
    """Wait this long; answered by a Verdict."""

    rest_for: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class SweptBatch(Generic[K]):
    """The batch was committed; `is_full` means that it reached its limit, so more rows may remain."""

    rows: int
    cursor: K | None
    is_full: bool
    elapsed: timedelta
    set_aside: int = 0
    reason: str | None = None  # the database's error for the first row set aside
    along: int = 0  # dependent rows, deleted before the next row of the sweep


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """The database refused the batch because of a row in it; nothing of it was deleted."""

    reason: str
    elapsed: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Contended:
    """The batch gave way to other work (lock timeout, deadlock); nothing of it was deleted."""

    elapsed: timedelta


class Verdict(StrEnum):
    """The answer to a checkpoint between two batches."""

    GO = "go"
    HOLD = "hold"
    STOP = "stop"


class SweepEnding(StrEnum):
    """Why a sweep ended."""

    EXHAUSTED = "exhausted"
    ROWS_SPENT = "rows_spent"
    TIME_SPENT = "time_spent"
    STOPPED = "stopped"
    CONTENDED = "contended"
    POISONED = "poisoned"


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepResult(Generic[K]):
    """The outcome of one sweep, and the cursor at which the next sweep continues."""

    ending: SweepEnding
    rows: int = 0
    batches: int = 0
    set_aside: int = 0
    passed_over: int = 0
    cursor: K | None = None
    elapsed: timedelta = timedelta(0)
    longest_batch: timedelta = timedelta(0)
    reason: str | None = None


Request = Attempt[K] | SetAsideRequest[K] | PassOver[K] | Checkpoint | Rest
Answer = SweptBatch[K] | Refused | Contended | Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Rows and time for one run; None is no limit."""

    rows: int | None = None
    time: timedelta | None = None

    def rows_left(self, swept: int) -> int | None:
        """Return the rows that may still be deleted, or None without a limit."""
        return None if self.rows is None else max(0, self.rows - swept)

    def is_out_of_time(self, elapsed: timedelta) -> bool:
        """Whether the time is used up."""
        return self.time is not None and elapsed >= self.time


_GROWTH = 1.5
_HARDLY_LONGER = 1.2  # of a batch with half as many rows again; 1.5 if each row costs the same
_HARDLY_SHORTER = 0.75  # of a batch with half the rows; 0.5 if each row costs the same


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """The first batch size, the largest batch size, and the target duration of a batch."""

    start: int = 500
    largest: int = 1_000  # other commits wait for the flush of a whole batch's log
    target: timedelta = timedelta(milliseconds=50)

    def __post_init__(self) -> None:
        if not 1 <= self.start <= self.largest or self.target <= timedelta(0):
            message = f"a pace needs 1 <= start <= largest and a target above zero: {self}"
            raise ValueError(message)


class BatchSize:
    """The size of the next batch; grows under the target duration, halves above it.

    Above it, the size grows all the same while the duration hardly depends on the rows: if round trips
    alone take longer than the target, smaller batches would only be more.
    """

    __slots__ = ("_last", "_pace", "_size")

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self._size = pace.start
        self._last: tuple[int, timedelta] | None = None  # the rows and the duration of the batch before

    @property
    def rows(self) -> int:
        """The maximum rows of the next batch."""
        return self._size

    def learn(self, elapsed: timedelta) -> None:
        """Adapt to the duration of a full batch."""
        measured = (self._size, elapsed)
        if elapsed > self._pace.target and not self._is_overhead(elapsed):
            self.halve()
        else:
            self._size = min(self._pace.largest, max(self._size + 1, int(self._size * _GROWTH)))
        self._last = measured

    def _is_overhead(self, elapsed: timedelta) -> bool:
        """Whether a batch of another size took about as long; after one row, two rows are tried."""
        if self._last is None:
            return False
        rows, before = self._last
        if self._size > rows:
            return elapsed < before * _HARDLY_LONGER
        return elapsed > before * _HARDLY_SHORTER if self._size < rows else rows == 1

    def halve(self) -> None:
        """Make the next batch half as large, at least one row."""
        self._size = max(1, self._size // 2)
        self._last = None


Throttle = Callable[[], bool]


def verdict(throttles: Iterable[Throttle], is_stopping: Callable[[], bool]) -> Verdict:
    """Return STOP if the sweep is stopping, HOLD while any throttle returns True, else GO."""
    if is_stopping():
        return Verdict.STOP
    return Verdict.HOLD if any(throttle() for throttle in throttles) else Verdict.GO
