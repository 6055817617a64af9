"""The clock as a value: the database's own is authoritative, a manual one stands in for it in tests."""

from __future__ import annotations

from datetime import datetime, timedelta
from threading import Lock
from typing import Protocol

from gandy.errors import ClockReversedError, NaiveInstantError


class Clock(Protocol):
    """Whatever can say which instant it is."""

    @property
    def now(self) -> datetime:
        """The instant, with its time zone."""


class ManualClock:
    """A clock that moves only when told, and only forward; safe to share between threads."""

    def __init__(self, now: datetime) -> None:
        if now.tzinfo is None:
            raise NaiveInstantError(now)
        self._now = now
        self._lock = Lock()

    @property
    def now(self) -> datetime:
        """The instant, with its time zone."""
        with self._lock:
            return self._now

    def advance(self, span: timedelta) -> datetime:
        """Move forward and give the new instant."""
        if span < timedelta():
            raise ClockReversedError(span)
        with self._lock:
            self._now += span
            return self._now
