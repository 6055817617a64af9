"""What a sweep asks of the one who knows the database, and what it is told.

A sweep does no input or output of its own: it yields a request and is sent an answer, so that one
definition serves a synchronous driver, an asynchronous one and a test.
"""

from __future__ import annotations

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
class SetAside(Generic[K]):
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
class Swept(Generic[K]):
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


class Ending(StrEnum):
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

    ending: Ending
    rows: int = 0
    batches: int = 0
    set_aside: int = 0
    passed_over: int = 0
    cursor: K | None = None
    elapsed: timedelta = timedelta(0)
    longest_batch: timedelta = timedelta(0)
    reason: str | None = None


Request = Attempt[K] | SetAside[K] | PassOver[K] | Checkpoint | Rest
Answer = Swept[K] | Refused | Contended | Verdict
