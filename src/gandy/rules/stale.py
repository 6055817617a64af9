"""Runs that take too long, and runs that nobody works on any more."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Final

DEFAULT_TIMEOUT: Final = timedelta(minutes=20)
STALE_PENDING_AFTER: Final = timedelta(minutes=20)
STALE_IN_PROGRESS_AFTER: Final = timedelta(minutes=60)
#: A run that was told to stop gets this long after its timeout to say that it has.
STOPPING_TIME: Final = timedelta(minutes=40)


def is_timed_out(
    started_at: datetime, now: datetime, timeout: timedelta | None, *, default: timedelta = DEFAULT_TIMEOUT
) -> bool:
    """Tell whether a run has used up its time; waiting in the queue does not count."""
    return now - started_at > (default if timeout is None else timeout)


def is_stale_pending(
    pending_since: datetime,
    now: datetime,
    *,
    can_be_claimed: bool,
    stale_after: timedelta = STALE_PENDING_AFTER,
) -> bool:
    """Tell whether nobody will start a run; one that only waits behind busy workers is not stale."""
    return not can_be_claimed and now - pending_since > stale_after


def stale_in_progress_after(
    timeout: timedelta | None, *, stale_after: timedelta = STALE_IN_PROGRESS_AFTER
) -> timedelta:
    """Return the age at which a run is given up for lost, whatever its worker's lease says."""
    return stale_after if timeout is None else max(stale_after, timeout + STOPPING_TIME)


def is_stale_in_progress(
    started_at: datetime,
    now: datetime,
    timeout: timedelta | None,
    *,
    lease_until: datetime | None,
    stale_after: timedelta = STALE_IN_PROGRESS_AFTER,
) -> bool:
    """Tell whether a run is lost: its worker's lease has run out, or it is far too old."""
    has_lost_lease = lease_until is not None and lease_until < now
    return has_lost_lease or now - started_at > stale_in_progress_after(timeout, stale_after=stale_after)
