"""Deleting what has had its time: which rows, in which order, and what goes with them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

from gandy.store.statements import counted, statement

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime, timedelta

    from gandy.store.statements import Operation, Row, Rows


class Place(NamedTuple):
    """Where a walk has come to; the next batch begins behind it."""

    at: datetime | None
    id: int | str
    within: int | str | None = None  #: the train or manifest whose rows it is walking


@dataclass(frozen=True, slots=True)
class Found:
    """The next dead rows of a walk, in a form that only the walk itself has to understand."""

    count: int
    last: Place | None
    ids: object = ()  #: as the database wrote them, to be handed back as they are
    buckets: object = ()
    rows: Rows = field(default_factory=list)


class Walk(Protocol):
    """Dead rows of one table, batch after batch."""

    @property
    def table(self) -> str:
        """Whose rows these are."""
        ...

    def find(self, after: Place | None, limit: int) -> Operation[Found]:
        """Find the next dead rows in order; nothing is written or locked."""
        ...

    def delete(self, found: Found) -> Operation[Counter[str]]:
        """Delete these rows if they are still dead, with what goes with them; says how many, by table."""
        ...


@dataclass(frozen=True, slots=True)
class PrunedBatch:
    """What one batch did, and where the next begins."""

    counts: Mapping[str, int]
    place: Place | None
    is_full: bool


class Deletion(NamedTuple):
    """One statement of a batch, and the table whose rows it removes; None: it removes none."""

    statement: str
    table: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RowWalk:
    """Dead rows that one statement finds and others delete by id."""

    table: str
    finding: str
    deletions: tuple[Deletion, ...]
    given: Mapping[str, object]

    def find(self, after: Place | None, limit: int) -> Operation[Found]:
        """Find the next dead rows in order."""
        return found_in((yield statement(self.finding, limit=limit, **behind(after), **self.given))[0])

    def delete(self, found: Found) -> Operation[Counter[str]]:
        """Delete by id, each statement the same rows; all who do this at once take them in one order."""
        counts: Counter[str] = Counter()
        for step in self.deletions:
            done = yield counted(step.statement, ids=found.ids, buckets=found.buckets, **self.given)
            if step.table is not None:
                counts[step.table] += done[0].rows
        return counts


def prune_batch(
    walk: Walk, after: Place | None, *, limit: int, patience: timedelta
) -> Operation[PrunedBatch]:
    """Delete the first dead rows behind a place; whoever runs this commits it as one."""
    yield statement("begin_batch", milliseconds=int(patience.total_seconds() * 1000))
    found = yield from walk.find(after, limit)
    counts = (yield from walk.delete(found)) if found.count else Counter[str]()
    return PrunedBatch(counts, found.last or after, found.count >= limit)


def next_place(walk: Walk, after: Place | None) -> Operation[Place | None]:
    """Find where the first dead row behind a place lies."""
    return (yield from walk.find(after, 1)).last


def found_in(row: Row) -> Found:
    """Read what a search answers: how many, the last of them, and the ids as the database wrote them."""
    buckets = getattr(row, "buckets", None)
    return Found(row.rows, place_of(row) if row.rows else None, ids=row.ids, buckets=buckets)


def place_of(row: Row) -> Place:
    """Say where a found row lies."""
    return Place(getattr(row, "at", None), row.id, getattr(row, "within", None))


def behind(after: Place | None) -> dict[str, object]:
    """Bind a place, for a statement that goes on behind it."""
    return {"after_at": after.at if after else None, "after_id": after.id if after else None}
