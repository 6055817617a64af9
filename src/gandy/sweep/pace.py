"""How large the next batch should be: it follows the clock, not a guess."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

_GROWTH = 1.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """The first batch size, the largest one, and the time that a batch should take."""

    start: int = 500
    largest: int = 1_000  # others who commit wait for the log of a whole batch, however fast it was
    target: timedelta = timedelta(milliseconds=50)

    def __post_init__(self) -> None:
        if not 1 <= self.start <= self.largest or self.target <= timedelta(0):
            message = f"a pace needs 1 <= start <= largest and a target above zero: {self}"
            raise ValueError(message)


class BatchSize:
    """The size that the next batch may have; grows under the target, halves over it."""

    __slots__ = ("_pace", "_size")

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self._size = pace.start

    @property
    def rows(self) -> int:
        """Rows that the next batch may hold."""
        return self._size

    def learn(self, elapsed: timedelta) -> None:
        """Take in how long a full batch took."""
        if elapsed > self._pace.target:
            self.halve()
        else:
            self._size = min(self._pace.largest, max(self._size + 1, int(self._size * _GROWTH)))

    def halve(self) -> None:
        """Make the next batch half as large, at least one row."""
        self._size = max(1, self._size // 2)
