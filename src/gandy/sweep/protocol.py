"""The protocol of a deletion in batches: steps, answers, budgets, pace and throttle."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Generic, TypeVar

K = TypeVar("K")


@dataclass(frozen=True, slots=True)
class Attempt(Generic[K]):
    """Delete the first `limit` dead rows after the cursor, in one transaction of their own."""

    after: K | None
    limit: int


@dataclass(frozen=True, slots=True)
class SetAsideRequest(Generic[K]):
    """Delete the first dead row after the cursor, or record it as one that cannot go, and pass it."""

    after: K | None


@dataclass(frozen=True, slots=True)
class PassOver(Generic[K]):
    """Leave the first dead row after the cursor to a later sweep: somebody holds it locked."""

    after: K | None


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """May the next batch begin? Answered by a Verdict."""


@dataclass(frozen=True, slots=True)
class Rest:
    """Wait this long; answered by a Verdict."""

    rest_for: timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class SweptBatch(Generic[K]):
    """The batch was committed; `is_full` says that it reached its limit, so there may be more."""

    rows: int
    cursor: K | None
    is_full: bool
    elapsed: timedelta
    set_aside: int = 0
    reason: str | None = None  # what the database said of the first row set aside
    along: int = 0  # rows that had to go before the next one of the sweep can


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
    """What the checkpoint between two batches says."""

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
    """What one sweep did, and where the next one would go on."""

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
        """Rows that may still go, or None without a limit."""
        return None if self.rows is None else max(0, self.rows - swept)

    def is_out_of_time(self, elapsed: timedelta) -> bool:
        """Whether the time is used up."""
        return self.time is not None and elapsed >= self.time


_GROWTH = 1.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """The first batch size, the largest one, and the time that a batch should take."""

    start: int = 500
    largest: int = 1_000  # others who commit wait for the log of a whole batch, however fast it was
    target: timedelta = timedelta(milliseconds=50)

    def __post_init__(self) -> None:
        if not 1 <= self.start <= self.largest or self.target <= timedelta(0):
            message = f"a pace needs 1 <= start <= largest and a target above zero: {self}"
            raise ValueError(message)


class BatchSize:
    """The size that the next batch may have; grows under the target, halves over it."""

    __slots__ = ("_pace", "_size")

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self._size = pace.start

    @property
    def rows(self) -> int:
        """Rows that the next batch may hold."""
        return self._size

    def learn(self, elapsed: timedelta) -> None:
        """Take in how long a full batch took."""
        if elapsed > self._pace.target:
            self.halve()
        else:
            self._size = min(self._pace.largest, max(self._size + 1, int(self._size * _GROWTH)))

    def halve(self) -> None:
        """Make the next batch half as large, at least one row."""
        self._size = max(1, self._size // 2)


Throttle = Callable[[], bool]


def verdict(throttles: Iterable[Throttle], is_stopping: Callable[[], bool]) -> Verdict:
    """STOP once asked to, HOLD while any throttle says so, else GO."""
    if is_stopping():
        return Verdict.STOP
    return Verdict.HOLD if any(throttle() for throttle in throttles) else Verdict.GO
