"""What comes next: the next instants of all manifests in order, and what will hold them back."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

from gandy.desk.audit import Listed
from gandy.desk.manifests import describe_schedule
from gandy.errors import OneOwnerNeededError, ScheduleError, ValueBoundsError
from gandy.model.owners import OneOwner
from gandy.model.schedule import MisfirePolicy, Recurring, SkipReason
from gandy.rules.preview import NOTHING, coming, jittered
from gandy.rules.recurring import guard_of
from gandy.settings.bounds import FIRST_INSTANT, HIGHEST_NUMBER, LAST_INSTANT, shown
from gandy.store.manifests import read_now
from gandy.store.owners import named_owners
from gandy.store.reading.listings import Search
from gandy.store.reading.views import NextPlace, load_upcoming

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gandy.model.manifest import DispatchView
    from gandy.model.owners import Owners
    from gandy.rules.preview import Coming
    from gandy.store.drivers.database import Database
    from gandy.store.reading.views import NextManifests
    from gandy.store.statements import Operation, Row

HeldBy: TypeAlias = Literal[
    "unreadable", "orphaned", "disabled", "group", "dead_letter", "already_queued", "active"
]

#: Manifests whose next instant has passed are read up to this number: mostly, they are switched off.
MOST_PASSED: Final = 500
_MOST_INSTANTS: Final = 100
_ON_A_PAGE: Final = 5_000
_LONGEST_READ: Final = 1_000
#: A walk keeps the instant of its first page for this time; afterwards, a page shows what is true then.
_LONGEST_WALK: Final = timedelta(minutes=5)
DEFAULT_SPAN: Final = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class UpcomingFilter:
    """Which part of the coming instants to list; `after` is the `next` of the previous page."""

    within: timedelta = DEFAULT_SPAN
    after: str | None = None
    limit: int = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class UpcomingManifest:
    """One manifest with its instants within the span; excluded instants are left out."""

    due_at: datetime  #: the next instant; one that has passed is due now
    scheduled_at: datetime  #: with jitter
    external_id: str
    train: str
    group: str
    schedule: str
    held_by: HeldBy | None
    why: str | None
    what_to_do: str | None
    instants: tuple[datetime, ...]
    is_cut: bool  #: it has more instants within the span
    place: str  #: the page after this row begins here
    owner: str


class ComingManifests(Listed[UpcomingManifest]):
    """A page of manifests, and the span that it covers."""

    now: datetime
    until: datetime
    is_passed_cut: bool  #: more manifests are held back, or overdue, than are read


class _Placed(NamedTuple):
    """A manifest at its place in the order."""

    at: datetime
    id: int
    view: DispatchView
    row: Row
    problem: str | None


class _Place(NamedTuple):
    """Where a page begins: after this manifest, in the order as of the first page."""

    at: datetime
    manifest_id: int
    seen_at: datetime | None = None  #: the instant of the first page


class _Span(NamedTuple):
    """What a page looks for."""

    now: datetime
    until: datetime
    after: _Place | None
    limit: int


async def list_upcoming(database: Database, owners: Owners, wanted: UpcomingFilter) -> ComingManifests:
    """List manifests in the order of their next instants; for all owners, their first ones."""
    after = None if wanted.after is None else _place_of(wanted.after)
    if after is not None and not isinstance(owners, OneOwner):
        raise OneOwnerNeededError("a page that goes on after an instant")
    return await database.read(_list(owners, wanted, after))


def _list(owners: Owners, wanted: UpcomingFilter, after: _Place | None) -> Operation[ComingManifests]:
    now = _seen_at(after, (yield from read_now()))
    span = _Span(now, now + min(wanted.within, LAST_INSTANT - now), after, wanted.limit)
    placed: list[_Placed] = []
    is_passed_cut = False
    for owner in (yield from named_owners(owners)):
        passed = yield from load_upcoming(owner, NextPlace(FIRST_INSTANT), until=now, limit=MOST_PASSED)
        is_passed_cut = is_passed_cut or len(passed.views) == MOST_PASSED
        placed += [*_placed(passed, span), *(yield from _ahead(owner, span))]
    ordered = sorted(placed, key=_order)
    page = ordered[: wanted.limit]
    most = max(1, min(_MOST_INSTANTS, _ON_A_PAGE // max(len(page), 1)))
    rows = [_shown(*_with_instants(each, span, most=most), now) for each in page]
    is_more = len(ordered) > wanted.limit
    place = rows[-1].place if is_more and isinstance(owners, OneOwner) else None
    found = ComingManifests.of(Search(rows, place, is_cut=is_more and place is None), lambda row: row)
    found.now, found.until, found.is_passed_cut = now, span.until, is_passed_cut
    return found


def _seen_at(after: _Place | None, now: datetime) -> datetime:
    """Return the instant as of which a walk is listed: that of its first page, while it is recent.

    What is held back stands at its first instant to come, which moves as time passes.
    """
    if after is None or after.seen_at is None or not now - _LONGEST_WALK <= after.seen_at <= now:
        return now
    return after.seen_at


def _ahead(owner: str, span: _Span) -> Operation[list[_Placed]]:
    """Read manifests whose stored instant is to come; on a later page, also those that passed over theirs."""
    now = NextPlace(span.now, HIGHEST_NUMBER)
    if span.after is None or span.after.at <= span.now:
        return (yield from _read_on(owner, now, span))
    place = NextPlace(span.after.at, span.after.manifest_id)
    rest = yield from _read_on(owner, place, span)
    known = {each.id for each in rest}
    before = yield from _read_on(owner, now, span, deferred_until=place.at)
    return [*(each for each in before if each.id not in known), *rest]


def _read_on(
    owner: str, start: NextPlace, span: _Span, *, deferred_until: datetime | None = None
) -> Operation[list[_Placed]]:
    """Read until the stored instants are beyond the page: what is shown is never before what is stored."""
    placed: list[_Placed] = []
    is_deferred, until = deferred_until is not None, deferred_until or span.until
    length = span.limit + 1
    while True:
        found = yield from load_upcoming(owner, start, until=until, limit=length, is_deferred=is_deferred)
        placed = sorted([*placed, *_placed(found, span)], key=_order)[: span.limit + 1]
        if len(found.views) < length:
            return placed
        start = NextPlace(found.rows[-1].next_scheduled_run, found.rows[-1].id)
        if len(placed) > span.limit and _order(placed[-1]) <= (start.at, start.manifest_id):
            return placed
        length = min(2 * length, _LONGEST_READ)


def _placed(found: NextManifests, span: _Span) -> Iterator[_Placed]:
    """Place manifests at the first instant that is shown, if the page is not after it."""
    for view, row in zip(found.views, found.rows, strict=True):
        if view.next_scheduled_run is None:
            continue
        read = _Placed(view.next_scheduled_run, view.id, view, row, found.problems.get(view.id))
        each, (instants, _) = _with_instants(read, span, most=1)
        if instants or each.problem is not None:
            placed = each._replace(at=instants[0] if instants else each.at)
            if span.after is None or _order(placed) > (span.after.at, span.after.manifest_id):
                yield placed


def _order(each: _Placed) -> tuple[datetime, int]:
    return each.at, each.id


def _with_instants(each: _Placed, span: _Span, *, most: int) -> tuple[_Placed, Coming]:
    """Compute the instants of a manifest; a schedule that cannot be read has none, and its problem."""
    try:
        return each, coming(each.view, span.now, until=span.until, most=most)
    except ScheduleError as error:
        return each._replace(problem=str(error)), NOTHING


def _shown(each: _Placed, found: Coming, now: datetime) -> UpcomingManifest:
    view, row = each.view, each.row
    instants = found.instants or (each.at,)
    held = _held(view, row, each.problem)
    return UpcomingManifest(
        due_at=instants[0],
        scheduled_at=jittered(view, instants[0]) if found.instants else instants[0],
        external_id=view.external_id,
        train=view.train,
        group=row.group_name,
        schedule=describe_schedule(row, ()),
        held_by=None if held is None else held[0],
        why=None if held is None else held[1],
        what_to_do=None if held is None else held[2],
        instants=instants,
        is_cut=found.is_cut,
        place=f"{_text(each.at)},{each.id},{_text(now)}",
        owner=view.owner,
    )


def _held(view: DispatchView, row: Row, problem: str | None) -> tuple[HeldBy, str, str | None] | None:
    """Return what will hold the next instant back, in words and with its remedy."""
    name = view.external_id
    if problem is not None:
        return "unreadable", f"its schedule cannot be read: {problem}", "correct the schedule"
    if view.is_orphaned:
        return "orphaned", "the application no longer declares it", "declare it again"
    if not view.is_enabled:
        return (
            "disabled",
            f"it is switched off{_because(row.disabled_reason)}",
            f"gandy manifests enable {name}",
        )
    if not view.group_enabled:
        why = f"group {row.group_name} is switched off{_because(row.group_disabled_reason)}"
        return "group", why, f"gandy groups set {row.group_name} --enable"
    return _guarded(view, row)


def _guarded(view: DispatchView, row: Row) -> tuple[HeldBy, str, str | None] | None:
    waits = not isinstance(view.schedule, Recurring) or view.misfire_policy is MisfirePolicy.CATCH_UP
    fate = "waits for it" if waits else "is skipped"
    match guard_of(view):
        case SkipReason.DEAD_LETTER:
            why = f"dead letter {row.letter_id} is open: until it is resolved, every instant {fate}"
            return "dead_letter", why, f"gandy dead-letters requeue {row.letter_id}, or acknowledge it"
        case SkipReason.ALREADY_QUEUED:
            why = f"entry {row.queued_id} is queued: an instant before its start {fate}"
            return "already_queued", why, f"gandy queue explain {row.queued_id}"
        case SkipReason.ACTIVE:
            why = f"run {row.active_run_id} has not ended: an instant before its end {fate}"
            return "active", why, f"gandy runs show {row.active_run_id}"
        case _:
            return None


def _because(reason: str | None) -> str:
    return f": {reason}" if reason else ""


def _text(at: datetime) -> str:
    return at.astimezone(UTC).isoformat()


def _place_of(text: str) -> _Place:
    """Read the place of a page; the text is of an earlier page, or refused."""
    instant, number, *seen = text.split(",")[:4] if text.count(",") else (text, "")
    try:
        place = _Place(
            datetime.fromisoformat(instant), int(number), *(datetime.fromisoformat(each) for each in seen)
        )
        instants = (place.at, place.seen_at or place.at)
        are_bounded = all(FIRST_INSTANT <= each <= LAST_INSTANT for each in instants)
        if are_bounded and 0 <= place.manifest_id <= HIGHEST_NUMBER:
            return place
    except (TypeError, ValueError):  # TypeError: an instant without a zone, or more parts
        pass
    raise ValueBoundsError("after", "the `next` of a page, or the `place` of a row", shown(text))
