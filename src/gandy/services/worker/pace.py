"""How far ahead a worker claims: as much as it begins in a moment, so that long jobs are left to others."""

from __future__ import annotations

import time
from typing import Final

AHEAD_SECONDS: Final = 0.1
SMOOTHING: Final = 0.5
GROWTH: Final = 2  # at most, from one measure to the next
SHORTEST: Final = 0.001
PARTS: Final = 3


class Pace:
    """Measures how many jobs begin in a second and says how many are worth holding in advance."""

    def __init__(self, *, slots: int, most: int) -> None:
        self._most = most
        self._slots = slots
        self.begun = 0  #: how many jobs have begun; the claimer counts them
        self._counted = 0
        self._counted_at = time.monotonic()
        self.ahead = min(most, slots)
        self.unit = max(1, self.ahead // PARTS)  #: how many are worth a claim of their own

    def measure(self) -> None:
        """Take the measure again, before a claim; a worker that runs through all it holds need not wait."""
        now = time.monotonic()
        elapsed, begun = now - self._counted_at, self.begun - self._counted
        if elapsed < AHEAD_SECONDS and begun < max(self.ahead, 1):
            return
        # Jobs that take longer than the moment are not held in advance: another worker may be free for them.
        most = max(GROWTH * self.ahead, self._slots)
        wanted = min(begun / max(elapsed, SHORTEST) * AHEAD_SECONDS, most)
        smoothed = wanted if wanted > self.ahead else SMOOTHING * (wanted + self.ahead)
        self.ahead = min(self._most, int(smoothed))
        self.unit = max(1, self.ahead // PARTS)
        self._counted, self._counted_at = self.begun, now

    def stall(self) -> None:
        """Hold nothing in advance until jobs begin again: what is held waits for jobs that take long."""
        self.ahead, self.unit = 0, 1
        self._counted, self._counted_at = self.begun, time.monotonic()
