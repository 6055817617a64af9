"""Clocks: the database's clock is authoritative; a manual clock replaces it in tests."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import datetime, timedelta
from threading import Lock
from typing import Protocol

from gandy.errors import ClockReversedError, NaiveInstantError

#: A clock that differs by more than this from the measured time was set, or is wrong.
MOST_DRIFT = timedelta(hours=1)
#: A clock that agrees with the measured time for this duration is trusted again.
STEADY_FOR = timedelta(minutes=10)


class Clock(Protocol):
    """An object with the current instant."""

    @property
    def now(self) -> datetime:
        """The instant, with its time zone."""


@dataclass(frozen=True, slots=True)
class Steadiness:
    """The movement of a clock, compared with the monotonic clock of a process."""

    steady_for: timedelta
    has_jumped: bool  #: and has not been steady for STEADY_FOR since

    @property
    def is_steady(self) -> bool:
        """Whether the clock has been steady for long enough to be trusted, whatever instant it shows."""
        return self.steady_for >= STEADY_FOR


class ManualClock:
    """A clock that moves only by its methods; safe to share between threads."""

    def __init__(self, now: datetime) -> None:
        if now.tzinfo is None:
            raise NaiveInstantError(now)
        self._now = now
        self._steady_for = self._elapsed = timedelta(0)
        self._has_jumped = False
        self._lock = Lock()

    @property
    def now(self) -> datetime:
        """The instant, with its time zone."""
        with self._lock:
            return self._now

    @property
    def steadiness(self) -> Steadiness:
        """The time since the last jump, and whether that jump was recent."""
        with self._lock:
            return Steadiness(self._steady_for, self._has_jumped and self._steady_for < STEADY_FOR)

    @property
    def elapsed(self) -> timedelta:
        """The time that has passed, without jumps."""
        with self._lock:
            return self._elapsed

    def advance(self, span: timedelta) -> datetime:
        """Let time pass and return the new instant."""
        if span < timedelta():
            raise ClockReversedError(span)
        with self._lock:
            self._now += span
            self._steady_for += span
            self._elapsed += span
            return self._now

    def jump(self, span: timedelta) -> datetime:
        """Set the clock forward or back while no time passes, like a clock that is wrong or corrected."""
        with self._lock:
            self._now += span
            if abs(span) > MOST_DRIFT:
                self._steady_for, self._has_jumped = timedelta(0), True
            return self._now


class ClockWatch:
    """Compares the instants of a clock with the monotonic clock of the process."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._manual = clock if isinstance(clock, ManualClock) else None
        self._last: tuple[datetime, timedelta] | None = None
        self._steady_since = _measured()
        self._has_jumped = False
        self._believed: tuple[datetime, timedelta] | None = None
        self._lock = Lock()

    @property
    def believed(self) -> datetime | None:
        """The expected instant: the last trusted one plus the time since."""
        if self._believed is None:
            return None
        told, then = self._believed
        return told + (self._elapsed() - then)

    def believe(self, now: datetime) -> None:
        """Set the last trusted instant."""
        self._believed = now, self._elapsed()

    def _elapsed(self) -> timedelta:
        return _measured() if self._manual is None else self._manual.elapsed

    def observe(self, now: datetime) -> Steadiness:
        """Compare the clock's instant with the measured time; a manual clock tracks its own jumps."""
        if self._manual is not None:
            return self._manual.steadiness
        with self._lock:
            return self._follow(now, _measured())

    def _follow(self, now: datetime, measured: timedelta) -> Steadiness:
        if self._last is not None:
            told, then = self._last
            if abs((now - told) - (measured - then)) > MOST_DRIFT:
                self._steady_since, self._has_jumped = measured, True
        self._last = now, measured
        steady_for = measured - self._steady_since
        self._has_jumped = self._has_jumped and steady_for < STEADY_FOR
        return Steadiness(steady_for, self._has_jumped)


def _measured() -> timedelta:
    """Read the monotonic clock; if available, the one that continues while the machine sleeps."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return timedelta(seconds=time.clock_gettime(time.CLOCK_BOOTTIME))
    return timedelta(seconds=time.monotonic())
