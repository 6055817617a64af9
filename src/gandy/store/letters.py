"""Dead letters: writing, requeueing and resolving them, and the effects on their manifests."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from gandy.model.schedule import Recurring
from gandy.rules.recurring import settle_letter
from gandy.store.audit import AuditRecord, letter_subject, record_audit
from gandy.store.manifests import advance, load_views, read_now, record_skips
from gandy.store.statements import batch, batch_of, statement
from gandy.store.waiting import input_digest, promote_and_announce, step_back

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from datetime import datetime

    from gandy.model.manifest import Decision, DispatchView
    from gandy.model.owners import Operator, Owners
    from gandy.model.run import RunEnd
    from gandy.rules.ending import Park
    from gandy.store.reading.listings import LetterFilter, LetterStatus, SearchedRows
    from gandy.store.statements import Operation, Row, Rows


_log = logging.getLogger("gandy.dead_letters")


def settle_letters(since: Mapping[int, datetime]) -> Operation[None]:
    """Settle the instants since each manifest's letter was written, and advance its cursor to now."""
    found = yield from load_views(since)
    now = yield from read_now()
    views = [view for view in found.views if view.id not in found.unreadable]
    settled = [(view, _settle(view, since[view.id], now)) for view in views]
    decided = [(view, decision) for view, decision in settled if decision is not None]
    moved = (yield from advance(decided)).moved
    skips = [(view.id, skip, None) for view, decision in decided for skip in decision.skipped]
    yield from record_skips([row for row in skips if row[0] in moved])


def _settle(view: DispatchView, since: datetime, now: datetime) -> Decision | None:
    """Settle one manifest; None after an error, which the next cycle records as a verdict."""
    if not isinstance(view.schedule, Recurring):
        return None
    try:
        return settle_letter(view, view.schedule, since=since, now=now)
    except Exception as error:  # noqa: BLE001 an error in a schedule must not block the letters
        _log.error("instants of %s while its letter waited are not settled: %s", view.external_id, error)
        return None


@dataclass(frozen=True, slots=True)
class LetterWalk:
    """The position of a walk over the awaiting letters."""

    after: int
    until: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Requeued:
    """A letter whose job runs again."""

    letter_id: int
    entry_id: int  #: becomes the run's id
    was_waiting: bool  #: a queued entry of the manifest is reused
    is_held: bool  #: it waits because its manifest is active or switched off


@dataclass(frozen=True, slots=True)
class RequeueResult:
    """The result of requeueing, by letter."""

    requeued: tuple[Requeued, ...] = ()
    resolved_before: tuple[int, ...] = ()
    unknown: tuple[int, ...] = ()
    looked: SearchedRows | None = None  #: how far a search in texts looked; None: it was none
    next: int | None = None  #: letters below it were not looked at: `before` continues there

    def plus(self, other: RequeueResult) -> RequeueResult:
        """Combine the results of two batches."""
        return RequeueResult(
            self.requeued + other.requeued,
            self.resolved_before + other.resolved_before,
            self.unknown + other.unknown,
        )


@dataclass(frozen=True, slots=True)
class AcknowledgeResult:
    """The result of acknowledging, by letter."""

    acknowledged: tuple[int, ...] = ()
    resolved_before: tuple[int, ...] = ()
    unknown: tuple[int, ...] = ()
    looked: SearchedRows | None = None  #: how far a search in texts looked; None: it was none
    next: int | None = None  #: letters below it were not looked at: `before` continues there

    def plus(self, other: AcknowledgeResult) -> AcknowledgeResult:
        """Combine the results of two batches."""
        return AcknowledgeResult(
            self.acknowledged + other.acknowledged,
            self.resolved_before + other.resolved_before,
            self.unknown + other.unknown,
        )


def load_letter(letter_id: int, owners: Owners) -> Operation[Row | None]:
    """Read one letter."""
    rows = yield statement("load_letter", id=letter_id, owner=owners.bound)
    return rows[0] if rows else None


def read_letters(ids: Sequence[int], owners: Owners) -> Operation[Rows]:
    """Read the manifest, train and status of letters, without a lock."""
    return (yield statement("read_letters", ids=list(ids), owner=owners.bound))


def begin_letter_walk() -> Operation[LetterWalk]:
    """Start a walk over the letters that await an operator now; later letters are not part of it."""
    until: int = (yield statement("newest_letter"))[0].id
    return LetterWalk(0, until)


def next_awaiting(walk: LetterWalk, wanted: LetterFilter, owners: Owners) -> Operation[list[int]]:
    """Find the next letters of a walk that await an operator; periods and texts are not compared here."""
    rows = yield statement(
        "find_awaiting",
        after=walk.after,
        until=walk.until,
        owner=owners.bound,
        train=wanted.train,
        manifest=wanted.manifest,
        group=wanted.group,
        since=wanted.since,
        older_than=wanted.until,
        limit=wanted.limit,
    )
    return [row.id for row in rows]


def requeue_letters(
    ids: Sequence[int], operator: Operator, *, owners: Owners, input_json: str | None = None
) -> Operation[RequeueResult]:
    """Queue the jobs again with failure counts reset, with their own input or another."""
    known = yield from _hold(ids, owners)
    won = yield from _resolve(ids, operator, _Resolution("retried", None, owners))
    yield from _make_way([row.id for row in won], input_json, owners)
    rows = [{"id": row.id, "input": input_json} for row in won]
    made = yield batch("queue_letters", rows, owner=owners.bound)
    queued = {row.letter_id: _requeued(row, was_waiting=False) for row in made}
    unmade = [row.id for row in won if row.id not in queued]
    linked = (yield statement("link_letters", ids=unmade, owner=owners.bound)) if unmade else []
    queued |= {row.letter_id: _requeued(row, was_waiting=True) for row in linked}
    for owner in _owners(won):
        yield statement("notify", payload=f"work:{owner}")

    def detail(letters: Sequence[int]) -> dict[str, object]:
        entries = [queued[letter_id].entry_id for letter_id in letters]
        return {"entries": entries, "is_edited": input_json is not None}

    entries = {letter_id: requeued.entry_id for letter_id, requeued in queued.items()}
    yield from _keep_trail(operator, won, action="requeue dead letter", detail=detail, entries=entries)
    return RequeueResult(tuple(queued[row.id] for row in won), *_left(ids, known, won))


def acknowledge_letters(
    ids: Sequence[int], operator: Operator, note: str, *, owners: Owners
) -> Operation[AcknowledgeResult]:
    """Close letters without another run; waiting entries and the next occurrences follow as usual."""
    known = yield from _hold(ids, owners)
    won = yield from _resolve(ids, operator, _Resolution("acknowledged", note, owners))
    yield from promote_and_announce([row.manifest_id for row in won if row.manifest_id is not None])
    yield from _keep_trail(operator, won, action="acknowledge dead letter", detail=lambda _: {"note": note})
    return AcknowledgeResult(tuple(row.id for row in won), *_left(ids, known, won))


class _Resolution(NamedTuple):
    """The new status of letters, and the owners to restrict it to."""

    status: LetterStatus
    note: str | None
    owners: Owners


def _hold(ids: Sequence[int], owners: Owners) -> Operation[set[int]]:
    """Lock the letters' manifests, which precede letters in the lock order; return the letters that exist."""
    letters = yield from read_letters(ids, owners)
    manifests = sorted({row.manifest_id for row in letters if row.manifest_id is not None})
    if manifests:
        yield statement("lock_manifests", ids=manifests)
    return {row.id for row in letters}


def _make_way(ids: Sequence[int], input_json: str | None, owners: Owners) -> Operation[None]:
    """Make queued entries step back if their input differs from that of the letters."""
    if not ids:
        return
    found = yield statement("find_queued_for_letters", ids=list(ids), owner=owners.bound)
    others = [
        (row.id, row.input)
        for row in found
        if input_digest(row.input) != input_digest(row.letter_input if input_json is None else input_json)
    ]
    yield from step_back(others)


def _resolve(ids: Sequence[int], operator: Operator, wanted: _Resolution) -> Operation[Rows]:
    """Resolve the letters that still await an operator; reset their manifests' failure counts."""
    won = yield statement(
        "resolve_letters",
        ids=list(ids),
        owner=wanted.owners.bound,
        status=wanted.status,
        resolved_by=operator.name,
        note=wanted.note,
    )
    since = {row.manifest_id: row.dead_lettered_at for row in won if row.manifest_id is not None}
    if since:
        yield statement("reset_failures", ids=sorted(since), owner=wanted.owners.bound)
        yield from settle_letters(since)
    for owner in _owners(row for row in won if row.manifest_id is not None):
        yield statement("notify", payload=f"manager:{owner}")
    return sorted(won)


def _keep_trail(
    operator: Operator,
    won: Rows,
    *,
    action: str,
    detail: Callable[[Sequence[int]], dict[str, object]],
    entries: Mapping[int, int] | None = None,
) -> Operation[None]:
    for owner in _owners(won):
        ids = [row.id for row in won if row.owner == owner]
        subject = letter_subject(ids[0]) if len(ids) == 1 else f"{len(ids)} dead letters"
        audited = AuditRecord(
            owner=owner,
            action=action,
            subject=subject,
            detail={"letters": ids, **detail(ids)},
            about=[*map(letter_subject, ids), *(entries[each] for each in ids if entries)],
        )
        yield from record_audit(operator, audited)


def _requeued(row: Row, *, was_waiting: bool) -> Requeued:
    return Requeued(
        letter_id=row.letter_id, entry_id=row.id, was_waiting=was_waiting, is_held=row.gate == "manifest"
    )


def _left(ids: Sequence[int], known: set[int], won: Rows) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Separate letters that were resolved before from unknown ids."""
    mine = {row.id for row in won}
    resolved_before = tuple(letter_id for letter_id in ids if letter_id in known and letter_id not in mine)
    return resolved_before, tuple(letter_id for letter_id in ids if letter_id not in known)


def _owners(rows: Iterable[Row]) -> list[str]:
    return sorted({row.owner for row in rows})


class Parked(NamedTuple):
    """The dead letters written, by run, and the runs that wait behind the letter that their manifest has."""

    letters: Mapping[int, int]
    behind: frozenset[int]


def park_jobs(
    parks: Sequence[tuple[RunEnd, Park]], buckets: Mapping[int, str | None], *, owner: str, limit: int
) -> Operation[Parked]:
    """Write the dead letters of jobs that used up their attempts, with the inputs that failed.

    `limit` is that of the awaiting letters of a train's ad-hoc work.

    They are written with the end: counts and limits of a manifest may change before a cycle looks at it.
    If the usual end was refused, perhaps because of the letter, the manager writes it.
    """
    if not parks:
        return Parked({}, frozenset())
    mine = [each for each in parks if not _is_left_to_manager(*each)]
    kept = yield from _within_bounds(mine, owner, limit)
    texts = [(end.id, buckets[end.id], _reason(end, park), _evidence(end)) for end, park in kept]
    rows = yield batch_of("park_jobs", ("id", "bucket", "reason", "evidence"), texts)
    letters = {row.metadata_id: row.id for row in rows}
    beside = [end.id for end, _ in kept if end.manifest_id is not None and end.id not in letters]
    places = [(run_id, buckets[run_id]) for run_id in beside]
    waiting = yield batch_of("wait_behind_letter", ("id", "bucket"), places)
    return Parked(letters, frozenset(row.retry_of for row in waiting))


def _is_left_to_manager(end: RunEnd, park: Park) -> bool:
    """Return whether the manager finds the missing letter, by the manifest's counts."""
    return end.is_bare and end.is_counted and end.manifest_id is not None and not park.is_at_once


def _within_bounds(
    parks: Sequence[tuple[RunEnd, Park]], owner: str, limit: int
) -> Operation[list[tuple[RunEnd, Park]]]:
    """Limit the dead letters of a train's ad-hoc work; the surplus is counted and dropped by design."""
    kept: list[tuple[RunEnd, Park]] = [each for each in parks if each[0].manifest_id is not None]
    by_train: dict[str, list[tuple[RunEnd, Park]]] = {}
    for each in parks:
        if each[0].manifest_id is None:
            by_train.setdefault(each[0].train, []).append(each)
    for train, jobs in by_train.items():
        found = yield statement("count_awaiting_letters", owner=owner, train_name=train, limit=limit)
        room = max(limit - found[0].awaiting, 0)
        kept += jobs[:room]
        if len(jobs) > room:
            yield statement("count_lost_letters", owner=owner, train_name=train, count=len(jobs) - room)
    return kept


def _reason(end: RunEnd, park: Park) -> str:
    return (
        park.reason
        if end.failure is None
        else f"{park.reason}: {end.failure.exception}: {end.failure.reason}"
    )


def _evidence(end: RunEnd) -> str:
    return json.dumps(
        {"failures": end.failures + int(end.is_counted), "losses": end.losses, "lone_losses": end.lone_losses}
    )
