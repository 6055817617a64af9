"""What follows a failed run: another attempt, a dead letter, or nothing."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from typing import Final

FIRST_DELAY: Final = timedelta(minutes=5)
LONGEST_DELAY: Final = timedelta(hours=1)
_MOST_DOUBLINGS: Final = 32


@dataclass(frozen=True, slots=True)
class RetryAt:
    """The next attempt may begin at this instant."""

    at: datetime


@dataclass(frozen=True, slots=True)
class Exhausted:
    """Every attempt is used up: the job is parked for a person."""


@dataclass(frozen=True, slots=True)
class NoRetry:
    """The job is never retried: the failure is recorded and that is all."""


AfterFailure: TypeAlias = RetryAt | Exhausted | NoRetry


def is_exhausted(failure_count: int, max_retries: int) -> bool:
    """Tell whether a job is parked; at least one attempt is always made."""
    return failure_count >= max(1, max_retries)


def backoff(failure_count: int, retry_delay: timedelta | None = None) -> timedelta:
    """Wait five minutes, doubling to an hour; a delay of the job's own replaces the five minutes."""
    first = FIRST_DELAY if retry_delay is None else retry_delay
    if first >= LONGEST_DELAY:
        return first
    return min(first * (1 << min(max(failure_count - 1, 0), _MOST_DOUBLINGS)), LONGEST_DELAY)


def after_failure(
    now: datetime,
    *,
    failure_count: int,
    max_retries: int,
    is_retried: bool = True,
    is_counted: bool = True,
    retry_delay: timedelta | None = None,
    retry_after: timedelta | None = None,
) -> AfterFailure:
    """Decide about a failure, `failure_count` already raised by it if it counts.

    One that does not count (a lost worker, a shutdown) is retried at once; `retry_after` is what the
    run itself asked for.
    """
    if not is_retried:
        return NoRetry()
    if not is_counted:
        return RetryAt(now)
    if is_exhausted(failure_count, max_retries):
        return Exhausted()
    return RetryAt(now + (backoff(failure_count, retry_delay) if retry_after is None else retry_after))
