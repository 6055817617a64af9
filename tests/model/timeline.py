"""The instants of a schedule, reckoned in the plainest way, and the verdicts that cover them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.model.snapshot import Row

MINUTE = timedelta(minutes=1)
#: The cron expressions that the machine declares, and the minutes that they mean.
CRONS: dict[str, Callable[[datetime], bool]] = {
    "*/7 * * * *": lambda at: at.minute % 7 == 0,
    "30 * * * *": lambda at: at.minute == 30,
}


@dataclass(slots=True)
class Span:
    """Instants with one verdict."""

    first: datetime
    last: datetime
    count: int


@dataclass(slots=True)
class Timeline:
    """One recurring manifest: the next instant without a verdict, and the rows seen so far."""

    expression: str | None
    every: timedelta | None
    pointer: datetime
    seen: dict[int, tuple[datetime, int]] = field(default_factory=dict)  # last instant and count, by row

    def after(self, instant: datetime) -> datetime:
        """The next instant of the schedule."""
        if self.every is not None:
            return instant + self.every
        assert self.expression is not None
        at = instant.replace(second=0, microsecond=0) + MINUTE
        while not CRONS[self.expression](at):
            at += MINUTE
        return at

    def follow(self, rows: list[Row], cursor: datetime) -> Iterator[str]:
        """Check that new verdicts cover instant after instant, each once, up to the cursor."""
        others = {row["due_at"] for row in rows if row["origin"] != "schedule" and row["attempt"] == 1}
        for span in sorted(self._new_spans(rows), key=lambda span: span.first):
            while self.pointer < span.first and self.pointer in others:
                self.pointer = self.after(self.pointer)
            if span.first != self.pointer:
                yield f"a verdict begins at {span.first}; the next instant without one is {self.pointer}"
                return
            yield from self._walk(span)
        if self.pointer != cursor:
            yield f"instants from {self.pointer} have no verdict, and the cursor is at {cursor}"

    def pass_over(self, rows: list[Row]) -> None:
        """Take rows as seen."""
        for _ in self._new_spans(rows):
            pass

    def _walk(self, span: Span) -> Iterator[str]:
        count = 0
        while self.pointer <= span.last:
            self.pointer = self.after(self.pointer)
            count += 1
        if count != span.count:
            yield f"the verdict {span.first} to {span.last} is for {span.count} instants; there are {count}"

    def _new_spans(self, rows: list[Row]) -> Iterator[Span]:
        """What was written since the last look: new rows, and what was added to the latest one."""
        for row in rows:
            if row["origin"] != "schedule" or row["attempt"] != 1:
                continue
            last = row["due_until"] or row["due_at"]
            known = self.seen.get(row["id"])
            self.seen[row["id"]] = last, row["occurrences"]
            if known is None:
                yield Span(row["due_at"], last, row["occurrences"])
            elif known != (last, row["occurrences"]):
                yield Span(self.pointer, last, row["occurrences"] - known[1])  # goes on from the last one
