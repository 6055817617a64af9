"""How far ahead a worker claims: as much as it finishes in a moment, so that long jobs are left to others."""

from __future__ import annotations

import time
from typing import Final

AHEAD_SECONDS: Final = 0.1
SMOOTHING: Final = 0.5
GROWTH: Final = 2  # at most, from one claim to the next
SHORTEST: Final = 0.001
PARTS: Final = 3


class Pace:
    """Measures how many jobs begin in a second and says how many are worth holding in advance."""

    def __init__(self, *, slots: int, most: int) -> None:
        self._most = most
        self._least = min(most, max(1, slots // 10))
        self._begun = 0
        self._counted_at = time.monotonic()
        self.ahead = min(most, slots)

    def begin(self) -> None:
        """Count a job that begins."""
        self._begun += 1

    def measure(self) -> None:
        """Take the measure anew, before a claim; who runs through all it holds need not wait for that."""
        now = time.monotonic()
        elapsed = now - self._counted_at
        if elapsed < AHEAD_SECONDS and self._begun < self.ahead:
            return
        wanted = min(self._begun / max(elapsed, SHORTEST) * AHEAD_SECONDS, GROWTH * self.ahead)
        smoothed = wanted if wanted > self.ahead else SMOOTHING * (wanted + self.ahead)
        self.ahead = max(self._least, min(self._most, round(smoothed)))
        self._begun, self._counted_at = 0, now

    @property
    def unit(self) -> int:
        """How many are worth a claim of their own: one part runs while two may be on their way."""
        return max(1, self.ahead // PARTS)
