"""Deleting what has had its time: which rows, in which order, and what goes with them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from gandy.store.statements import statement

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime, timedelta

    from gandy.store.statements import Operation, Row, Rows


class Place(NamedTuple):
    """Where a walk has come to; the next batch begins behind it."""

    at: datetime | None
    id: int | str
    within: int | str | None = None  #: the train or manifest whose rows it is walking


class Walk(Protocol):
    """Dead rows of one table, batch after batch."""

    @property
    def table(self) -> str:
        """Whose rows these are."""
        ...

    def find(self, after: Place | None, limit: int) -> Operation[Rows]:
        """Find the next dead rows in order; nothing is written or locked."""
        ...

    def delete(self, rows: Rows) -> Operation[Counter[str]]:
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

    def find(self, after: Place | None, limit: int) -> Operation[Rows]:
        """Find the next dead rows in order."""
        return (yield statement(self.finding, limit=limit, **behind(after), **self.given))

    def delete(self, rows: Rows) -> Operation[Counter[str]]:
        """Delete by id, each statement the same rows, in one order for all who do this at once."""
        rows = sorted(rows, key=_by_id)
        chosen = {"ids": [row.id for row in rows], "buckets": [getattr(row, "bucket", None) for row in rows]}
        counts: Counter[str] = Counter()
        for step in self.deletions:
            done = yield statement(step.statement, **chosen, **self.given)
            if step.table is not None:
                counts[step.table] += done[0].rows
        return counts


def prune_batch(
    walk: Walk, after: Place | None, *, limit: int, patience: timedelta
) -> Operation[PrunedBatch]:
    """Delete the first dead rows behind a place; whoever runs this commits it as one."""
    yield statement("begin_batch", milliseconds=int(patience.total_seconds() * 1000))
    rows = yield from walk.find(after, limit)
    counts = (yield from walk.delete(rows)) if rows else Counter[str]()
    return PrunedBatch(counts, place_of(rows[-1]) if rows else after, len(rows) >= limit)


def next_place(walk: Walk, after: Place | None) -> Operation[Place | None]:
    """Find where the first dead row behind a place lies."""
    rows = yield from walk.find(after, 1)
    return place_of(rows[0]) if rows else None


def place_of(row: Row) -> Place:
    """Say where a found row lies."""
    return Place(getattr(row, "at", None), row.id, getattr(row, "within", None))


def behind(after: Place | None) -> dict[str, object]:
    """Bind a place, for a statement that goes on behind it."""
    return {"after_at": after.at if after else None, "after_id": after.id if after else None}


def _by_id(row: Row) -> int | str:
    key: int | str = row.id
    return key
