"""A table in memory that answers a sweep's requests the way a database would."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta

from gandy.sweep import (
    Answer,
    Attempt,
    Checkpoint,
    Contended,
    PassOver,
    Refused,
    Request,
    Rest,
    SetAsideRequest,
    SweptBatch,
    Verdict,
)


@dataclass
class SimulatedTable:
    """Dead rows by key; some are poison, some are locked; each row costs time."""

    rows: set[int]
    poison: set[int] = field(default_factory=set)
    locked: set[int] = field(default_factory=set)
    per_row: timedelta = timedelta(0)
    stop_after: int | None = None
    holds: int = 0
    limits: list[int] = field(default_factory=list)
    quarantine: list[int] = field(default_factory=list)
    passed: list[int] = field(default_factory=list)
    rests: list[timedelta] = field(default_factory=list)
    is_table_locked: bool = False

    def perform(self, request: Request[int]) -> Answer[int]:
        match request:
            case Checkpoint():
                return self._checkpoint()
            case Rest(rest_for):
                self.rests.append(rest_for)
                return Verdict.GO
            case Attempt(after, limit):
                return self._attempt(after, limit)
            case SetAsideRequest(after):
                return self._set_aside(after)
            case PassOver(after):
                return self._pass_over(after)

    def _checkpoint(self) -> Verdict:
        if self.stop_after is not None and len(self.limits) >= self.stop_after:
            return Verdict.STOP
        if self.holds:
            self.holds -= 1
            return Verdict.HOLD
        return Verdict.GO

    def _next(self, after: int | None, limit: int) -> list[int]:
        ahead = self.rows - set(self.quarantine)
        return sorted(row for row in ahead if after is None or row > after)[:limit]

    def _attempt(self, after: int | None, limit: int) -> Answer[int]:
        self.limits.append(limit)
        batch = self._next(after, limit)
        elapsed = self.per_row * len(batch)
        if self.is_table_locked or self.locked & set(batch):
            return Contended(elapsed=elapsed)
        if bad := self.poison & set(batch):
            return Refused(reason=f"row {min(bad)} is referenced", elapsed=elapsed)
        self.rows -= set(batch)
        return SweptBatch(
            rows=len(batch),
            cursor=batch[-1] if batch else after,
            is_full=len(batch) == limit,
            elapsed=elapsed,
        )

    def _set_aside(self, after: int | None) -> Answer[int]:
        [row] = self._next(after, 1)
        if row in self.poison:
            self.quarantine.append(row)
            return SweptBatch(rows=0, cursor=row, is_full=True, elapsed=self.per_row, set_aside=1)
        self.rows.discard(row)
        return SweptBatch(rows=1, cursor=row, is_full=True, elapsed=self.per_row)

    def _pass_over(self, after: int | None) -> Answer[int]:
        if self.is_table_locked:
            return Contended(elapsed=self.per_row)
        [row] = self._next(after, 1)
        self.passed.append(row)
        return SweptBatch(rows=0, cursor=row, is_full=True, elapsed=self.per_row)
