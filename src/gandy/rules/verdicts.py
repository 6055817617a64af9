"""Verdicts put together: one entry at most, and skips with one row for each stretch of one reason."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from gandy.model.manifest import Decision, DispatchView, Occurrence, Skipped
from gandy.model.schedule import Origin, SkipReason
from gandy.rules.calendar.variance import scheduled_at
from gandy.rules.priority import entry_priority

if TYPE_CHECKING:
    from datetime import datetime

    from gandy.rules.calendar.series import Series


def idle(view: DispatchView, *, next_look_at: datetime | None = None) -> Decision:
    """Decide nothing."""
    return Decision(view.id, view.next_scheduled_run, next_look_at)


def deferred(view: DispatchView, guard: SkipReason) -> Decision:
    """Leave what is due as it is until the guard lifts."""
    return Decision(view.id, view.next_scheduled_run, deferred_by=guard)


def scheduled(view: DispatchView, due_at: datetime, *, next_due_at: datetime | None = None) -> Occurrence:
    """Make the entry of a scheduled instant, its jitter included."""
    start = scheduled_at(view.external_id, due_at, view.variance, next_due_at=next_due_at)
    return Occurrence(due_at, start, Origin.SCHEDULE, entry_priority(view.priority, view.group_priority))


def as_error(decision: Decision) -> Decision:
    """Settle as an error what could not be queued, so that the manifest moves on all the same."""
    failed = decision.occurrence
    if failed is None:
        return decision
    row = Skipped(failed.due_at, failed.due_at, 1, SkipReason.ERROR)
    return replace(decision, occurrence=None, skipped=(*decision.skipped, row))


@dataclass(slots=True)
class Ledger:
    """The verdicts of one manifest in one cycle, in the order of their instants."""

    view: DispatchView
    occurrence: Occurrence | None = None
    skipped: list[Skipped] = field(default_factory=list)
    _rows_before_entry: int = 0

    def queue(self, occurrence: Occurrence) -> None:
        """Record the one entry."""
        self.occurrence = occurrence
        self._rows_before_entry = len(self.skipped)

    def skip(self, series: Series, reason: SkipReason) -> None:
        """Record skipped instants, in the row of those before them where the reason is the same."""
        last = self.skipped[-1] if len(self.skipped) > self._rows_before_entry else None
        if last is not None and last.reason is reason:
            count = last.occurrences + series.count
            self.skipped[-1] = replace(last, due_until=series.last, occurrences=count)
            return
        extends = series.first == self.view.next_scheduled_run and reason is self.view.last_skip
        self.skipped.append(Skipped(series.first, series.last, series.count, reason, extends))
