"""Deleting expired and surplus rows of the tables of Gandy."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Protocol

from gandy.rules.ending import is_finished_once_removable, is_orphan_removable, is_spent_once_forgettable
from gandy.store.owners import list_owners_of_runs
from gandy.store.statements import batch, counted, statement

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime, timedelta

    from gandy.store.statements import Operation, Row, Rows


class WalkPlace(NamedTuple):
    """The position of a walk; the next batch starts after it (keyset pagination)."""

    at: datetime | None
    id: int | str
    within: int | tuple[str, str] | None = (
        None  #: the manifest whose rows it is walking, or the owner and train
    )


@dataclass(frozen=True, slots=True)
class Found:
    """The next deletable rows of a walk; only the walk itself interprets the fields."""

    count: int
    last: WalkPlace | None
    ids: object = ()  #: in the database's own format, passed back unchanged
    buckets: object = ()
    rows: Rows = field(default_factory=list)


class Walk(Protocol):
    """Deletable rows of one table, batch by batch."""

    @property
    def table(self) -> str:
        """The table of the rows."""
        ...

    def find(self, after: WalkPlace | None, limit: int) -> Operation[Found]:
        """Find the next deletable rows in order; nothing is written or locked."""
        ...

    def delete(self, found: Found) -> Operation[Counter[str]]:
        """Delete these rows if they are still deletable, and their dependents; return row counts by table."""
        ...


@dataclass(frozen=True, slots=True)
class PrunedBatch:
    """The row counts of one batch, and where the next one starts."""

    counts: Mapping[str, int]
    place: WalkPlace | None
    is_full: bool


class Deletion(NamedTuple):
    """One statement of a batch, and the table whose rows it removes; None: it removes none."""

    statement: str
    table: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RowWalk:
    """Deletable rows that one statement finds and others delete by id."""

    table: str
    finding: str
    deletions: tuple[Deletion, ...]
    given: Mapping[str, object]

    def find(self, after: WalkPlace | None, limit: int) -> Operation[Found]:
        """Find the next deletable rows in order."""
        return found_in((yield statement(self.finding, limit=limit, **behind(after), **self.given))[0])

    def delete(self, found: Found) -> Operation[Counter[str]]:
        """Run each deletion on the same ids, in a fixed order: concurrent batches cannot deadlock."""
        counts: Counter[str] = Counter()
        for step in self.deletions:
            done = yield counted(step.statement, ids=found.ids, buckets=found.buckets, **self.given)
            if step.table is not None:
                counts[step.table] += done[0].rows
        return counts


def prune_batch(
    walk: Walk, after: WalkPlace | None, *, limit: int, patience: timedelta
) -> Operation[PrunedBatch]:
    """Delete the first deletable rows after a position; the caller commits all of it at once."""
    yield statement("begin_batch", milliseconds=int(patience.total_seconds() * 1000))
    found = yield from walk.find(after, limit)
    counts = (yield from walk.delete(found)) if found.count else Counter[str]()
    return PrunedBatch(counts, found.last or after, found.count >= limit)


def next_place(walk: Walk, after: WalkPlace | None) -> Operation[WalkPlace | None]:
    """Return the position of the first deletable row after a position."""
    return (yield from walk.find(after, 1)).last


def find_first(walks: Sequence[Walk], *, patience: timedelta) -> Operation[list[WalkPlace | None]]:
    """Return the position of the first deletable row of each walk."""
    yield statement("begin_batch", milliseconds=int(patience.total_seconds() * 1000))
    places = []
    for walk in walks:
        places.append((yield from next_place(walk, None)))  # noqa: PERF401 - a comprehension cannot yield
    return places


def found_in(row: Row) -> Found:
    """Read the result of a finding statement: count, last row, and ids in the database's own format."""
    buckets = getattr(row, "buckets", None)
    return Found(row.rows, place_of(row) if row.rows else None, ids=row.ids, buckets=buckets)


def place_of(row: Row) -> WalkPlace:
    """Return the position of a found row."""
    return WalkPlace(getattr(row, "at", None), row.id, getattr(row, "within", None))


def behind(after: WalkPlace | None) -> dict[str, object]:
    """Return the parameters that make a statement continue after a position."""
    return {"after_at": after.at if after else None, "after_id": after.id if after else None}


_RUN_REFERENCES: Final = Deletion("forget_runs_of_letters", None)
DELETE_RUNS: Final = (
    Deletion("delete_logs_of_runs", "log"),
    _RUN_REFERENCES,
    Deletion("delete_runs", "metadata"),
)
_DELETE_RUNS_BY_ROW: Final = (
    Deletion("delete_logs_by_row", "log"),
    _RUN_REFERENCES,
    Deletion("delete_runs_by_row", "metadata"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiredRuns(RowWalk):
    """Finished runs of named trains, owner by owner and train by train."""

    owner: str
    names: frozenset[str]
    administrative: frozenset[str]  #: of every owner

    def find(self, after: WalkPlace | None, limit: int) -> Operation[Found]:
        """Find the next runs of the current owner and train, then of those after it."""
        pairs = yield from self._pairs(after.within if after else None)
        owners, names = [owner for owner, _ in pairs], [name for _, name in pairs]
        rows = yield statement(
            self.finding, limit=limit, owners=owners, names=names, **behind(after), **self.given
        )
        found = found_in(rows[0])
        if found.last is None:
            return found
        return replace(found, last=found.last._replace(within=pairs[rows[0].within - 1]))

    def _pairs(self, current: object) -> Operation[list[tuple[str, str]]]:
        """Return the trains of each owner, from the current owner and train on."""
        owner, name = current if isinstance(current, tuple) else ("", "")
        rest = [(owner, each) for each in self._names_of(owner) if owner and each >= name]
        later = yield from list_owners_of_runs(owner)
        return rest + [(each, train) for each in later for train in self._names_of(each)]

    def _names_of(self, owner: str) -> list[str]:
        return sorted(self.administrative | self.names if owner == self.owner else self.administrative)


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestWalk:
    """Manifests that may be removable; the rules decide about each."""

    finding: Literal["find_orphaned_manifests", "find_completed_manifests"]
    is_removable: Callable[[Row], bool]
    before: datetime
    once_before: datetime  #: a once that has run since then is kept
    table: str = "manifest"

    def find(self, after: WalkPlace | None, limit: int) -> Operation[Found]:
        """Find manifests past their retention."""
        rows = yield statement(self.finding, limit=limit, before=self.before, **behind(after))
        return Found(len(rows), place_of(rows[-1]) if rows else None, rows=rows)

    def delete(self, found: Found) -> Operation[Counter[str]]:
        """Delete manifests that the rules allow and nothing uses or locks; cancel their waiting entries."""
        ids = sorted(row.id for row in found.rows if self.is_removable(row))
        bounds = {"before": self.before, "once_before": self.once_before}
        locked = (yield statement("lock_removable_manifests", ids=ids, **bounds)) if ids else []
        ids = [row.id for row in locked]
        if not ids:
            return Counter()
        yield statement("cancel_entries_of_manifests", ids=ids)
        yield statement("release_letters_of_manifests", ids=ids)
        return Counter({"manifest": (yield counted("delete_manifests", ids=ids))[0].rows})


def expired_runs(
    *, administrative: Sequence[str], owner: str, names: Sequence[str], before: datetime
) -> ExpiredRuns:
    """Walk finished runs that started before an instant: of Gandy's own trains all, of others the owner's."""
    return ExpiredRuns(
        table="metadata",
        finding="find_expired_runs",
        deletions=DELETE_RUNS,
        given={"before": before},
        owner=owner,
        names=frozenset(names),
        administrative=frozenset(administrative),
    )


def dead_runs(before: datetime) -> RowWalk:
    """Walk runs that are past their retention and kept by row, in no day's partition."""
    return RowWalk(
        table="metadata", finding="find_dead_runs", deletions=_DELETE_RUNS_BY_ROW, given={"before": before}
    )


def settled_entries(status: Literal["skipped", "cancelled"], before: datetime) -> RowWalk:
    """Walk the entries that never became runs."""
    return _walk("work_queue", "find_settled_entries", "delete_settled_entries", before=before, status=status)


def stray_logs() -> RowWalk:
    """Walk orphaned log lines, whose run was ended by another process."""
    return _walk("log", "find_stray_logs", "settle_stray_logs")


def gone_workers(before: datetime) -> RowWalk:
    """Walk the workers that have stopped or were lost."""
    return _walk("worker", "find_gone_workers", "delete_workers", before=before)


def silent_workers(before: datetime) -> RowWalk:
    """Walk the workers whose lease expired long ago and whose runs are all settled."""
    return _walk("worker", "find_silent_workers_without_runs", "delete_workers", before=before)


def expired_keys(before: datetime) -> RowWalk:
    """Walk expired unique keys."""
    return _walk("unique_key", "find_expired_keys", "delete_expired_keys", before=before)


def old_audit(before: datetime) -> RowWalk:
    """Walk old rows of the audit trail."""
    return _walk("audit", "find_old_audit", "delete_old_audit", before=before)


def old_state(before: datetime) -> RowWalk:
    """Walk service state that was not updated for long."""
    return _walk("service_state", "find_old_state", "delete_old_state", before=before)


def expired_web_keys(before: datetime) -> RowWalk:
    """Walk expired sessions and codes of the dashboard."""
    return _walk("web_key", "find_expired_web_keys", "delete_expired_web_keys", before=before)


def former_edges(before: datetime) -> RowWalk:
    """Walk what dependents have seen of parents that they no longer have, with outputs kept for them."""
    return RowWalk(
        table="manifest_former_edge",
        finding="find_former_edges",
        deletions=(
            Deletion("forget_outputs", "manifest_output"),
            Deletion("delete_former_edges", "manifest_former_edge"),
        ),
        given={"before": before},
    )


def idle_groups(before: datetime) -> RowWalk:
    """Walk groups that have no settings of their own and were unused for long."""
    return RowWalk(
        table="manifest_group",
        finding="find_idle_groups",
        deletions=(Deletion("spare_used_groups", None), Deletion("delete_idle_groups", "manifest_group")),
        given={"before": before},
    )


def resolved_letters(before: datetime) -> RowWalk:
    """Walk the dead letters that an operator has resolved."""
    return _walk("dead_letter", "find_resolved_letters", "delete_resolved_letters", before=before)


def orphaned_manifests(now: datetime, keep_for: timedelta, *, keep_once_for: timedelta) -> ManifestWalk:
    """Walk the manifests that are no longer declared; a once that has run is kept longer."""

    def is_removable(row: Row) -> bool:
        is_over = is_orphan_removable(
            row.orphaned_at, now, has_unfinished_run=row.has_unfinished_run, keep_for=keep_for
        )
        return is_over and (
            not row.is_spent_once
            or is_spent_once_forgettable(row.completed_at, row.orphaned_at, now, keep_for=keep_once_for)
        )

    return ManifestWalk(
        finding="find_orphaned_manifests",
        is_removable=is_removable,
        before=now - keep_for,
        once_before=now - keep_once_for,
    )


def completed_manifests(now: datetime, keep_for: timedelta) -> ManifestWalk:
    """Walk the manifests that were made at run time to run once, and have completed."""

    def is_removable(row: Row) -> bool:
        is_over = is_finished_once_removable(
            row.completed_at, now, is_declared=row.is_declared, keep_for=keep_for
        )
        return is_over and not row.has_unfinished_run

    before = now - keep_for
    return ManifestWalk(
        finding="find_completed_manifests", is_removable=is_removable, before=before, once_before=before
    )


def _walk(table: str, finding: str, deletion: str, **given: object) -> RowWalk:
    return RowWalk(table=table, finding=finding, deletions=(Deletion(deletion, table),), given=given)


@dataclass(frozen=True, slots=True)
class CappedPage:
    """A page of manifests that limit the number of kept runs (`keep_last`)."""

    last_id: int | None  #: None: there are no more
    surplus: tuple[tuple[int, int], ...]  #: manifests above their limit, each with its newest surplus run


@dataclass(frozen=True, slots=True, kw_only=True)
class SurplusRuns(RowWalk):
    """The surplus runs of a page of manifests, manifest by manifest."""

    surplus: tuple[tuple[int, int], ...]

    def find(self, after: WalkPlace | None, limit: int) -> Operation[Found]:
        """Find the next runs of the current manifest, then of the manifests after it."""
        current = after.within if after and isinstance(after.within, int) else 0
        older = int(after.id) - 1 if after else 0
        rest = [
            {"manifest_id": manifest, "newest": older if manifest == current else newest}
            for manifest, newest in self.surplus
            if manifest >= current
        ]
        rows = (yield batch(self.finding, rest, limit=limit))[:limit]
        last = place_of(rows[-1]) if rows else None
        return Found(len(rows), last, ids=[row.id for row in rows], buckets=[row.bucket for row in rows])


def page_capped(after: int, page: int) -> Operation[CappedPage]:
    """Read the next page of manifests that limit the number of kept runs."""
    manifests = yield statement("page_capped_manifests", after_id=after, page=page)
    wanted = [{"manifest_id": row.id, "keep_last": row.keep_last} for row in manifests]
    found = yield batch("find_newest_surplus", wanted)
    surplus = tuple(sorted((row.manifest_id, row.newest) for row in found))
    return CappedPage(manifests[-1].id if len(manifests) == page else None, surplus)


def surplus_runs(page: CappedPage) -> SurplusRuns:
    """Walk the surplus runs of a page."""
    return SurplusRuns(
        table="metadata",
        finding="find_surplus_runs",
        deletions=DELETE_RUNS,
        given={},
        surplus=page.surplus,
    )
