"""Whether the clock of a database may be believed, before rows of it go by age."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from gandy.clock import MOST_DRIFT, ClockWatch
from gandy.lifecycle.state.lease import newest_lease
from gandy.lifecycle.supervisor import announce
from gandy.rules.clocks import doubt

if TYPE_CHECKING:
    from gandy.clock import Clock
    from gandy.lifecycle.database.target import Session
    from gandy.lifecycle.supervisor.tick import Attendance

_watches: dict[str, ClockWatch] = {}
_manual: WeakKeyDictionary[Clock, ClockWatch] = WeakKeyDictionary()
_told: set[str] = set()
_lock = Lock()


def doubted(session: Session, url: str, by: Attendance) -> str | None:
    """Say why the clock is not believed; None where it is, or where a person or the caller vouches for it."""
    now, newest = newest_lease(session)
    steadiness = _watch(url, by.clock).observe(now)
    is_vouched_for = by.is_clock_right or (by.believed is not None and abs(now - by.believed) <= MOST_DRIFT)
    found = None if is_vouched_for else doubt(now, newest, steadiness)
    _tell(url, None if found is None else str(found))
    return None if found is None else str(found)


def _watch(url: str, clock: Clock | None) -> ClockWatch:
    with _lock:
        if clock is None:
            return _watches.setdefault(url, ClockWatch())
        return _manual.setdefault(clock, ClockWatch(clock))


def _tell(url: str, found: str | None) -> None:
    """Log once when the doubt begins, and once when it ends."""
    with _lock:
        was_told = url in _told
        (_told.discard if found is None else _told.add)(url)
    if found is not None and not was_told:
        announce.LOGGER.error("nothing is removed until ten steady minutes have passed: %s", found)
    if found is None and was_told:
        announce.LOGGER.info("the clock is believed again; what is dead is removed again")
