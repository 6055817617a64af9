"""What one run may use up before it stops between two batches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Rows and time for one run; None is no limit."""

    rows: int | None = None
    time: timedelta | None = None

    def rows_left(self, swept: int) -> int | None:
        """Rows that may still go, or None without a limit."""
        return None if self.rows is None else max(0, self.rows - swept)

    def is_out_of_time(self, elapsed: timedelta) -> bool:
        """Whether the time is used up."""
        return self.time is not None and elapsed >= self.time
