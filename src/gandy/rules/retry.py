"""How often a job is tried, and how long it waits in between."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

from gandy.settings import RetrySettings
from gandy.settings.bounds import LONGEST_SPAN

if TYPE_CHECKING:
    from datetime import timedelta
    from typing import Final

USUAL: Final = RetrySettings()
_MOST_DOUBLINGS: Final = 32
_DRAW_BYTES: Final = 8


def is_exhausted(failure_count: int, max_retries: int) -> bool:
    """Tell whether a job used up its attempts; at least one is always made."""
    return failure_count >= max(1, max_retries)


def backoff(
    failure_count: int, retry_delay: timedelta | None = None, settings: RetrySettings = USUAL
) -> timedelta:
    """Wait five minutes, doubling to an hour; a delay of the job's own replaces the five minutes."""
    first = settings.delay if retry_delay is None else retry_delay
    if first >= settings.longest_delay:
        return min(first, LONGEST_SPAN)  # an older version took any
    return min(first * (1 << min(max(failure_count - 1, 0), _MOST_DOUBLINGS)), settings.longest_delay)


def with_jitter(delay: timedelta, run_id: int, share: float) -> timedelta:
    """Add at most this share to a delay; the failed run's id decides how much, so that all servers agree."""
    drawn = int.from_bytes(blake2b(f"retry\n{run_id}".encode(), digest_size=_DRAW_BYTES).digest())
    return min(delay + delay * share * (drawn / (1 << 8 * _DRAW_BYTES)), max(delay, LONGEST_SPAN))
