"""How often a job is tried, and how long it waits in between."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from gandy.settings.bounds import LONGEST_SPAN

if TYPE_CHECKING:
    from typing import Final

FIRST_DELAY: Final = timedelta(minutes=5)
LONGEST_DELAY: Final = timedelta(hours=1)
_MOST_DOUBLINGS: Final = 32


def is_exhausted(failure_count: int, max_retries: int) -> bool:
    """Tell whether a job is parked; at least one attempt is always made."""
    return failure_count >= max(1, max_retries)


def backoff(failure_count: int, retry_delay: timedelta | None = None) -> timedelta:
    """Wait five minutes, doubling to an hour; a delay of the job's own replaces the five minutes."""
    first = FIRST_DELAY if retry_delay is None else retry_delay
    if first >= LONGEST_DELAY:
        return min(first, LONGEST_SPAN)  # an older version took any
    return min(first * (1 << min(max(failure_count - 1, 0), _MOST_DOUBLINGS)), LONGEST_DELAY)
