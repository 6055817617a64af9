"""The consequences of a run's end: retries, losses, dead letters, and retention."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, TypeAlias

from gandy.model.run import EndedBy, RetentionSpans, TrainState
from gandy.rules.recurring import is_denser
from gandy.settings import RetrySettings
from gandy.settings.bounds import LONGEST_SPAN

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gandy.model.run import RunEnd
    from gandy.rules.recurring import Rhythm
    from gandy.settings import CleanupSettings, RetentionSettings


USUAL: Final = RetrySettings()
_MOST_DOUBLINGS: Final = 32
_DRAW_BYTES: Final = 8


def is_exhausted(failure_count: int, max_retries: int) -> bool:
    """Return whether a job used up its attempts; at least one is always made."""
    return failure_count >= max(1, max_retries)


def backoff(
    failure_count: int, retry_delay: timedelta | None = None, settings: RetrySettings = USUAL
) -> timedelta:
    """Return an exponential back-off, by default from five minutes or `retry_delay` to an hour."""
    first = settings.delay if retry_delay is None else retry_delay
    if first >= settings.longest_delay:
        return min(first, LONGEST_SPAN)  # an older version accepted any delay
    return min(first * (1 << min(max(failure_count - 1, 0), _MOST_DOUBLINGS)), settings.longest_delay)


def with_jitter(delay: timedelta, run_id: int, share: float) -> timedelta:
    """Add jitter of at most this share; it is derived from the failed run's id, so that all servers agree."""
    drawn = int.from_bytes(blake2b(f"retry\n{run_id}".encode(), digest_size=_DRAW_BYTES).digest())
    return min(delay + delay * share * (drawn / (1 << 8 * _DRAW_BYTES)), max(delay, LONGEST_SPAN))


SUSPECT_AFTER_LOSSES: Final = 2
PARK_AFTER_LONE_LOSSES: Final = 3
LARGEST_SET: Final = 128


@dataclass(frozen=True, slots=True)
class JobPolicy:
    """The retry policy of a job, and its failures before this end."""

    failures: int
    max_retries: int
    is_retried: bool
    retry_delay: timedelta | None
    rhythm: Rhythm | None = None  #: of a manifest; ad-hoc work has none


@dataclass(frozen=True, slots=True)
class RetryPlan:
    """Another attempt, after a delay, with the counts so far."""

    delay: timedelta
    failures: int
    losses: int
    lone_losses: int


@dataclass(frozen=True, slots=True)
class Park:
    """The job becomes a dead letter for an operator."""

    reason: str
    is_at_once: bool = False  #: even if attempts remain


@dataclass(frozen=True, slots=True)
class Settled:
    """Nothing follows."""

    is_open: bool = False  #: a failure whose next attempt is the next instant of its schedule


Aftermath: TypeAlias = RetryPlan | Park | Settled


def is_suspect(losses: int) -> bool:
    """Return whether a job may be the cause of its workers' deaths; suspects run isolated, in sets."""
    return losses >= SUSPECT_AFTER_LOSSES


def most_in_set(losses: int, waiting: int) -> int:
    """Return how many of the waiting suspects with that many losses may share a process.

    New suspects share one. Those that are back have probably died together: half of them, and no more than
    half of the largest set that can have died with that many losses.
    """
    largest = max(1, LARGEST_SET >> max(0, losses - SUSPECT_AFTER_LOSSES))
    return min(largest, waiting if losses <= SUSPECT_AFTER_LOSSES else (waiting + 1) // 2)


def aftermath(end: RunEnd, policy: JobPolicy, settings: RetrySettings = USUAL) -> Aftermath:
    """Decide what follows; after a success or an operator's cancellation there is no retry."""
    if end.state is not TrainState.FAILED or not policy.is_retried:
        return Settled()
    if not end.is_counted:
        return _after_interruption(end, policy)
    failures = policy.failures + 1
    if end.gives_up:
        return Park("not retried: its train gives up on this exception", is_at_once=True)
    if is_spent(failures, policy, settings):
        attempts = "attempt" if failures == 1 else "attempts"
        return Park(f"failed {failures} {attempts} of {max(1, policy.max_retries)}")
    if end.retry_after is None and _is_retried_by_schedule(failures, policy, settings):
        return Settled(is_open=True)
    usual = backoff(_paused_failures(failures, policy, settings), policy.retry_delay, settings)
    delay = with_jitter(usual if end.retry_after is None else end.retry_after, end.id, settings.jitter)
    return RetryPlan(delay, failures, end.losses, end.lone_losses)


def is_spent(failures: int, policy: JobPolicy, settings: RetrySettings) -> bool:
    """Return whether a job is parked; a schedule denser than its retries must also fail for `park_window`."""
    if not is_exhausted(failures, policy.max_retries):
        return False
    rhythm = policy.rhythm
    if rhythm is None or rhythm.failing_for >= settings.park_window:
        return True
    return not is_denser(rhythm, backoff(failures, policy.retry_delay, settings))


def _is_retried_by_schedule(failures: int, policy: JobPolicy, settings: RetrySettings) -> bool:
    """Return whether the next instants serve as retries: a back-off would only suppress them."""
    rhythm = policy.rhythm
    serves = rhythm is not None and rhythm.is_own_input and rhythm.is_on
    return serves and _is_dense(failures, policy, settings)


def _paused_failures(failures: int, policy: JobPolicy, settings: RetrySettings) -> int:
    """Count the failures that were followed by a back-off; under a dense schedule only this one."""
    return 1 if _is_dense(failures, policy, settings) else failures


def _is_dense(failures: int, policy: JobPolicy, settings: RetrySettings) -> bool:
    rhythm = policy.rhythm
    return rhythm is not None and is_denser(rhythm, backoff(failures, policy.retry_delay, settings))


def _after_interruption(end: RunEnd, policy: JobPolicy) -> Aftermath:
    """Retry at once without counting a failure, unless it was lost alone too often."""
    if end.ended_by is not EndedBy.LOST_WORKER:
        return RetryPlan(timedelta(0), policy.failures, end.losses, end.lone_losses)
    lone_losses = end.lone_losses + (1 if end.was_alone else 0)
    if lone_losses >= PARK_AFTER_LONE_LOSSES:
        return Park(f"its process died {lone_losses} times while it ran alone")
    return RetryPlan(timedelta(0), policy.failures, end.losses + 1, lone_losses)


KEEP_FINISHED_ONCE_FOR: Final = timedelta(days=30)
KEEP_ORPHANED_FOR: Final = timedelta(hours=24)
_SPARE_DAYS: Final = 4
_MOST_DAYS_AHEAD: Final = 100


def spans_of(retention: RetentionSettings, cleanup: CleanupSettings) -> RetentionSpans:
    """Return the retention of runs whose manifest and train define none."""
    by_train = cleanup.retention_by_train
    return RetentionSpans(retention.completed, retention.failed, retention.cancelled, by_train=by_train)


def is_finished_once_removable(
    completed_at: datetime | None,
    now: datetime,
    *,
    is_declared: bool,
    keep_for: timedelta = KEEP_FINISHED_ONCE_FOR,
) -> bool:
    """Return whether a one-off job that has succeeded may be deleted; never while it is declared."""
    return completed_at is not None and not is_declared and now - completed_at > keep_for


def is_orphan_removable(
    orphaned_at: datetime | None,
    now: datetime,
    *,
    has_unfinished_run: bool,
    keep_for: timedelta = KEEP_ORPHANED_FOR,
) -> bool:
    """Return whether a manifest that is no longer declared may be deleted; never during an unfinished run."""
    return orphaned_at is not None and not has_unfinished_run and now - orphaned_at > keep_for


def is_spent_once_forgettable(
    completed_at: datetime | None,
    orphaned_at: datetime,
    now: datetime,
    *,
    keep_for: timedelta = KEEP_FINISHED_ONCE_FOR,
) -> bool:
    """Return whether a one-off job whose instant is used up may be deleted: a rollback must not run it again.

    For a job that never completed (cancelled or finally failed) the time counts from when it was orphaned.
    """
    return now - (orphaned_at if completed_at is None else completed_at) > keep_for


def days_ahead(spans: Iterable[timedelta]) -> int:
    """Return the number of days of partitions to create: the longest retention and some spare days."""
    longest = max(spans)
    return min(longest.days + (longest % timedelta(days=1) > timedelta(0)) + _SPARE_DAYS, _MOST_DAYS_AHEAD)
