"""Dead letters: requeueing and resolving them, and what follows for their manifests."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from gandy.model.schedule import Cron, Interval
from gandy.rules.recurring import settle_letter
from gandy.store.audit import Deed, record_deed
from gandy.store.manifests import advance, load_views, read_now, record_skips
from gandy.store.statements import batch, statement
from gandy.store.waiting import input_digest, promote_and_announce, step_back

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from datetime import datetime

    from gandy.model.manifest import Decision, DispatchView
    from gandy.model.owners import Operator, Owners
    from gandy.store.reading.listings import LetterFilter, LetterStatus
    from gandy.store.statements import Operation, Row, Rows


_log = logging.getLogger("gandy.dead_letters")


def settle_letters(since: Mapping[int, datetime]) -> Operation[None]:
    """Settle what came due since each manifest's letter was written, and let its cursor go on from now."""
    found = yield from load_views(since)
    now = yield from read_now()
    views = [view for view in found.views if view.id not in found.unreadable]
    settled = [(view, _settle(view, since[view.id], now)) for view in views]
    decided = [(view, decision) for view, decision in settled if decision is not None]
    moved = (yield from advance(decided)).moved
    skips = [(view.id, skip, None) for view, decision in decided for skip in decision.skipped]
    yield from record_skips([row for row in skips if row[0] in moved])


def _settle(view: DispatchView, since: datetime, now: datetime) -> Decision | None:
    """Settle one; where that cannot be done here, the next cycle says why in a verdict."""
    if not isinstance(view.schedule, Cron | Interval):
        return None
    try:
        return settle_letter(view, view.schedule, since=since, now=now)
    except Exception as error:  # noqa: BLE001 whatever one schedule raises, the letters are resolved
        _log.error("what came due at %s while its letter waited has no verdict: %s", view.external_id, error)
        return None


@dataclass(frozen=True, slots=True)
class LetterWalk:
    """Where a walk over the letters that wait stands."""

    after: int
    until: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Requeued:
    """A letter whose job runs again."""

    letter_id: int
    entry_id: int  #: becomes the run's id
    was_waiting: bool  #: an entry of the manifest was there already, and serves
    is_held: bool  #: its manifest is active or switched off, and it waits for that


@dataclass(frozen=True, slots=True)
class RequeueResult:
    """What became of letters that were to be requeued."""

    requeued: tuple[Requeued, ...] = ()
    resolved_before: tuple[int, ...] = ()
    unknown: tuple[int, ...] = ()

    def plus(self, other: RequeueResult) -> RequeueResult:
        """Add up the parts of a long one."""
        return RequeueResult(
            self.requeued + other.requeued,
            self.resolved_before + other.resolved_before,
            self.unknown + other.unknown,
        )


@dataclass(frozen=True, slots=True)
class AcknowledgeResult:
    """What became of letters that were to be acknowledged."""

    acknowledged: tuple[int, ...] = ()
    resolved_before: tuple[int, ...] = ()
    unknown: tuple[int, ...] = ()

    def plus(self, other: AcknowledgeResult) -> AcknowledgeResult:
        """Add up the parts of a long one."""
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
    """Read what letters are about, without a lock."""
    return (yield statement("read_letters", ids=list(ids), owner=owners.bound))


def begin_letter_walk() -> Operation[LetterWalk]:
    """Start a walk over what waits now; a letter that comes back is not part of it."""
    until: int = (yield statement("newest_letter"))[0].id
    return LetterWalk(0, until)


def next_awaiting(walk: LetterWalk, wanted: LetterFilter, owners: Owners) -> Operation[list[int]]:
    """Find the next letters of a walk that wait for a person."""
    rows = yield statement(
        "find_awaiting",
        after=walk.after,
        until=walk.until,
        owner=owners.bound,
        train=wanted.train,
        manifest=wanted.manifest,
        limit=wanted.limit,
    )
    return [row.id for row in rows]


def requeue_letters(
    ids: Sequence[int], operator: Operator, *, owners: Owners, input_json: str | None = None
) -> Operation[RequeueResult]:
    """Run the jobs once more, with a clean record and their own input or another."""
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

    yield from _keep_trail(operator, won, action="requeue dead letter", detail=detail)
    return RequeueResult(tuple(queued[row.id] for row in won), *_left(ids, known, won))


def acknowledge_letters(
    ids: Sequence[int], operator: Operator, note: str, *, owners: Owners
) -> Operation[AcknowledgeResult]:
    """Close letters without another run; what waited behind them and the next occurrences come as usual."""
    known = yield from _hold(ids, owners)
    won = yield from _resolve(ids, operator, _Resolution("acknowledged", note, owners))
    yield from promote_and_announce([row.manifest_id for row in won if row.manifest_id is not None])
    yield from _keep_trail(operator, won, action="acknowledge dead letter", detail=lambda _: {"note": note})
    return AcknowledgeResult(tuple(row.id for row in won), *_left(ids, known, won))


class _Resolution(NamedTuple):
    """What letters become, and whose."""

    status: LetterStatus
    note: str | None
    owners: Owners


def _hold(ids: Sequence[int], owners: Owners) -> Operation[set[int]]:
    """Lock the letters' manifests, which come before letters in the order of locks."""
    letters = yield from read_letters(ids, owners)
    manifests = sorted({row.manifest_id for row in letters if row.manifest_id is not None})
    if manifests:
        yield statement("lock_manifests", ids=manifests)
    return {row.id for row in letters}


def _make_way(ids: Sequence[int], input_json: str | None, owners: Owners) -> Operation[None]:
    """Step queued entries back whose input differs from what the letters are to run with."""
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
    """Resolve the letters that still wait; their manifests count anew and are looked at."""
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
        yield statement("forgive_manifests", ids=sorted(since), owner=wanted.owners.bound)
        yield from settle_letters(since)
    for owner in _owners(row for row in won if row.manifest_id is not None):
        yield statement("notify", payload=f"manager:{owner}")
    return sorted(won)


def _keep_trail(
    operator: Operator, won: Rows, *, action: str, detail: Callable[[Sequence[int]], dict[str, object]]
) -> Operation[None]:
    for owner in _owners(won):
        ids = [row.id for row in won if row.owner == owner]
        subject = f"dead letter {ids[0]}" if len(ids) == 1 else f"{len(ids)} dead letters"
        deed = Deed(owner=owner, action=action, subject=subject, detail={"letters": ids, **detail(ids)})
        yield from record_deed(operator, deed)


def _requeued(row: Row, *, was_waiting: bool) -> Requeued:
    return Requeued(
        letter_id=row.letter_id, entry_id=row.id, was_waiting=was_waiting, is_held=row.gate == "manifest"
    )


def _left(ids: Sequence[int], known: set[int], won: Rows) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Tell letters that somebody else resolved from ids that are none."""
    mine = {row.id for row in won}
    resolved_before = tuple(letter_id for letter_id in ids if letter_id in known and letter_id not in mine)
    return resolved_before, tuple(letter_id for letter_id in ids if letter_id not in known)


def _owners(rows: Iterable[Row]) -> list[str]:
    return sorted({row.owner for row in rows})
