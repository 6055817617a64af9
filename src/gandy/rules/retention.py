"""How long finished things are kept."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from gandy.model.run import RetentionSpans

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Final

    from gandy.model.run import TrainState
    from gandy.settings import CleanupSettings, RetentionSettings

KEEP_RUNS_FOR: Final = RetentionSpans(
    completed=timedelta(days=7), failed=timedelta(days=30), cancelled=timedelta(days=30)
)
KEEP_FINISHED_ONCE_FOR: Final = timedelta(days=30)
KEEP_ORPHANED_FOR: Final = timedelta(hours=24)
_SPARE_DAYS: Final = 4
_MOST_DAYS_AHEAD: Final = 100


def spans_of(retention: RetentionSettings, cleanup: CleanupSettings) -> RetentionSpans:
    """Say how long runs are kept where neither their manifest nor their train says."""
    by_train = cleanup.retention_by_train
    return RetentionSpans(retention.completed, retention.failed, retention.cancelled, by_train=by_train)


def keep_until(
    end_time: datetime,
    state: TrainState,
    *,
    keep_for: timedelta | None = None,
    spans: RetentionSpans = KEEP_RUNS_FOR,
) -> datetime:
    """Return the instant after which a run is dead; the job's own `keep_for` stands for every state."""
    try:
        return end_time + (spans.of(state) if keep_for is None else keep_for)
    except OverflowError:
        return datetime.max.replace(tzinfo=end_time.tzinfo)


def is_finished_once_removable(
    completed_at: datetime | None,
    now: datetime,
    *,
    is_declared: bool,
    keep_for: timedelta = KEEP_FINISHED_ONCE_FOR,
) -> bool:
    """Tell whether a one-off job that has succeeded may go; never while it is declared."""
    return completed_at is not None and not is_declared and now - completed_at > keep_for


def is_orphan_removable(
    orphaned_at: datetime | None,
    now: datetime,
    *,
    has_unfinished_run: bool,
    keep_for: timedelta = KEEP_ORPHANED_FOR,
) -> bool:
    """Tell whether a manifest that is no longer declared may go; never under an unfinished run."""
    return orphaned_at is not None and not has_unfinished_run and now - orphaned_at > keep_for


def is_spent_once_forgettable(
    completed_at: datetime | None,
    orphaned_at: datetime,
    now: datetime,
    *,
    keep_for: timedelta = KEEP_FINISHED_ONCE_FOR,
) -> bool:
    """Tell whether a one-off job whose instant is used up may go: a rollback must not run it again.

    One that never completed (cancelled, or failed for the last time) is remembered from when it was orphaned.
    """
    return now - (orphaned_at if completed_at is None else completed_at) > keep_for


def days_ahead(spans: Iterable[timedelta]) -> int:
    """Say for how many days partitions are made: the longest usual retention, and some days to spare."""
    longest = max(spans)
    return min(longest.days + (longest % timedelta(days=1) > timedelta(0)) + _SPARE_DAYS, _MOST_DAYS_AHEAD)
