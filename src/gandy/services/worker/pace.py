"""How far ahead a worker claims: as much as it finishes in a moment, so that long jobs are left to others."""

from __future__ import annotations

import time
from typing import Final

AHEAD_SECONDS: Final = 0.1
SMOOTHING: Final = 0.5


class Pace:
    """Measures how many jobs begin in a second and says how many are worth holding in advance."""

    def __init__(self, *, slots: int, most: int) -> None:
        self._most = most
        self._least = min(most, max(1, slots // 10))
        self._begun = 0
        self._counted_at = time.monotonic()
        self.ahead = min(most, slots)

    def begin(self) -> int:
        """Count a job that begins; gives the number of jobs so far."""
        self._begun += 1
        return self._begun

    @property
    def low_water(self) -> int:
        """Below so many held jobs the next ones are claimed."""
        return max(1, self.ahead // 2)

    def measure(self) -> None:
        """Take the measure anew, before a claim."""
        now = time.monotonic()
        elapsed = now - self._counted_at
        if elapsed < AHEAD_SECONDS:
            return
        wanted = self._begun / elapsed * AHEAD_SECONDS
        smoothed = SMOOTHING * wanted + (1 - SMOOTHING) * self.ahead
        self.ahead = max(self._least, min(self._most, round(smoothed)))
        self._begun, self._counted_at = 0, now
