"""The clock's mark in the database, and putting right what a wrong clock left behind."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from gandy.model.schedule import Recurring, Span
from gandy.rules.clocks import FAR, ServiceTime, is_impossible, true_cursor, true_timetable
from gandy.rules.recurring import with_served
from gandy.store.manifests import announce_work, load_far, served_text
from gandy.store.owners import recall, remember
from gandy.store.statements import statement

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gandy.model.manifest import DispatchView
    from gandy.store.statements import Operation, Row, Rows


_KEY: Final = "clock"
#: The mark is not written again before it is as old as this.
_GRAIN: Final = timedelta(minutes=1)
#: The newest spans that the mark keeps.
_MOST_SPANS: Final = 32


@dataclass(frozen=True, slots=True)
class ClockMark:
    """What was on record when the clock was read."""

    now: datetime
    believed: datetime | None  #: the newest instant that a service believed; None: none has yet
    highest: datetime | None  #: whether it was believed or not
    newest: int = 0  #: the id of the newest manifest
    spans: tuple[ServiceTime, ...] = ()  #: without a gap of more than an hour; the last goes on

    def is_to_be_kept(self, *, is_believed: bool) -> bool:
        """Tell whether the mark on record is not as new as now; a minute makes no difference."""
        is_known = _is_same(self.believed, self.now) or not is_believed
        return not (is_known and _is_same(self.highest, self.now))

    def went_back(self, by: timedelta) -> bool:
        """Tell whether an instant was seen that lies further than this beyond now."""
        return self.highest is not None and self.highest > self.now + by

    def spans_with_now(self) -> tuple[ServiceTime, ...]:
        """Extend the last span to now, or begin another after a gap or a step back.

        A span that ends beyond now was served under a clock that was ahead, and is kept until it has passed.
        """
        *earlier, last = self.spans or (ServiceTime(self.now, self.now, 1, self.newest),)
        if timedelta(0) <= self.now - last.until <= FAR:
            last = ServiceTime(last.since, self.now, last.number, self.newest)
        else:
            earlier = [*earlier, last]
            last = ServiceTime(self.now, self.now, last.number + 1, self.newest)
        return (*earlier[1 - _MOST_SPANS :], last)


def read_mark() -> Operation[ClockMark]:
    """Read the clock and the mark: one row, by its key."""
    found = yield from recall(_KEY)
    row = (yield statement("read_clock_and_newest"))[0]
    if found is None:
        return ClockMark(row.now, None, None, row.newest)
    spans = tuple(_service(span) for span in found.get("spans", ()))
    return ClockMark(row.now, _instant(found["believed"]), _instant(found["highest"]), row.newest, spans)


def find_newest(mark: ClockMark) -> Operation[datetime | None]:
    """Find the newest instant on record; before the first mark, what any service wrote last."""
    if mark.believed is not None:
        return mark.believed
    newest: datetime | None = (yield statement("find_newest_instant"))[0].newest_at
    return newest


def keep_mark(mark: ClockMark, *, is_believed: bool, is_lowered: bool = False) -> Operation[None]:
    """Move the mark to now; an instant that is not believed moves only the highest.

    A clock that went back leaves the highest to the pass that puts right what it left.
    """
    if not mark.is_to_be_kept(is_believed=is_believed):
        return
    believed = mark.now if is_believed else mark.believed
    highest = mark.now if is_lowered or mark.highest is None else max(mark.now, mark.highest)
    value = {
        "believed": believed and believed.isoformat(),
        "highest": highest.isoformat(),
        "spans": [
            [each.since.isoformat(), each.until.isoformat(), each.number, each.newest]
            for each in mark.spans_with_now()
        ],
    }
    yield from remember(_KEY, value)


def _is_same(before: datetime | None, after: datetime) -> bool:
    return before is not None and timedelta(0) <= after - before < _GRAIN


def _service(stored: Sequence[Any]) -> ServiceTime:
    since, until, *numbers = stored  # an older version wrote two values
    return ServiceTime(datetime.fromisoformat(since), datetime.fromisoformat(until), *numbers)


def _instant(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


_MOMENT: Final = timedelta(microseconds=1)
_FAR_SECONDS: Final = FAR.total_seconds()
#: Behind the last instant that a database holds.
_END: Final = datetime(9999, 12, 31, tzinfo=UTC)
_LARGEST: Final = 2**31 - 1
#: The newest runs of a manifest among which those of instants to come are looked for.
_MOST_RUNS: Final = 1_000


@dataclass(frozen=True, slots=True)
class FarPlace:
    """Where a walk from the furthest look has come to, in the order of its index."""

    look_at: datetime = _END
    group_id: int = _LARGEST
    priority: int = 32
    id: int = _LARGEST

    @classmethod
    def of(cls, view: DispatchView) -> FarPlace:
        """Stand at a manifest."""
        return cls(view.next_look_at or _END, view.group_id, view.priority or 0, view.id)


def load_far_cursors(place: FarPlace, limit: int) -> Operation[tuple[DispatchView, ...]]:
    """Load the next manifests that nothing looks at within the hour, the furthest first."""
    return (yield from load_far(limit, far_seconds=_FAR_SECONDS, **asdict(place)))


def is_misplaced(view: DispatchView, now: datetime) -> Operation[bool]:
    """Tell whether a cursor is impossible: instants before it are to come that did not run already."""
    if not is_impossible(view, now):
        return False
    ahead = yield from _ahead(view, now)
    decided = yield from _with_served(view, ahead, now=now)
    return true_cursor(decided, now, taken=_taken(ahead, now)) != view.next_scheduled_run


def put_right(view: DispatchView, now: datetime) -> Operation[bool]:
    """Move an impossible cursor to the first instant after now that does not run already, with its verdict.

    False: the cursor is right, because the instants before it ran under that clock or an operator set it; or
    another writer changed the manifest meanwhile.
    """
    if not isinstance(view.schedule, Recurring) or view.is_next_set:
        return False
    ahead = yield from _ahead(view, now)
    decided = yield from _with_served(view, ahead, now=now)
    cursor = true_cursor(decided, now, taken=_taken(ahead, now))
    if cursor == view.next_scheduled_run or not (yield from _move(decided, cursor)):
        return False
    yield from _withdraw(view, ahead, now=now)
    moved = f"from {_told(view.next_scheduled_run)} to {_told(cursor)}"
    error = f"a clock was wrong: the next instant is moved {moved}"
    yield statement("record_moved_cursor", id=view.id, now=now, error=error)
    return True


def clear_ahead(view: DispatchView, now: datetime) -> Operation[frozenset[datetime]]:
    """Withdraw what was decided about instants that have not come; the result names those that run."""
    ahead = yield from _ahead(view, now)
    yield from _withdraw(view, ahead, now=now)
    return _taken(ahead, now)


def bring_back() -> Operation[int]:
    """Bring back to now what was written in the future: entries, looks, leases and unfinished runs."""
    entries = yield statement("bring_entries_back", far_seconds=_FAR_SECONDS)
    closed = yield statement("close_early_entries")
    looks = yield statement("bring_looks_back")
    leases = yield statement("end_far_leases", far_seconds=_FAR_SECONDS)
    runs = yield statement("bring_runs_back", far_seconds=_FAR_SECONDS)
    yield from announce_work({row.owner for row in entries})
    return len(entries) + len(closed) + len(looks) + len(leases) + len(runs)


def _ahead(view: DispatchView, now: datetime) -> Operation[Rows]:
    wanted = statement("find_verdicts_ahead", manifest_id=view.id, now=now, most_runs=_MOST_RUNS)
    return (yield wanted)


def _with_served(view: DispatchView, ahead: Rows, *, now: datetime) -> Operation[DispatchView]:
    """Add the instants that ran under a clock ahead, also if cleanup has deleted their records."""
    services = (yield from read_mark()).spans_with_now()
    # a verdict that began before now ends there
    withdrawn = [
        Span(max(row.due_at, now + _MOMENT), row.due_until or row.due_at)
        for row in ahead
        if _is_withdrawn(row, now) or (_is_shortened(row, now) and row.reason != "clock")
    ]
    return with_served(view, services, withdrawn=withdrawn)


def _taken(ahead: Rows, now: datetime) -> frozenset[datetime]:
    """Name the instants that ran or are about to; a waiting entry that is far off is neither."""
    return frozenset(row.due_at for row in ahead if row.due_at > now and not _is_withdrawn(row, now))


def _is_withdrawn(row: Row, now: datetime) -> bool:
    if row.status == "skipped":
        return bool(row.due_at > now and row.reason != "clock")
    return bool(row.status == "queued" and row.origin == "schedule" and row.due_at > now + FAR)


def _is_shortened(row: Row, now: datetime) -> bool:
    return bool(row.due_at <= now and row.due_until is not None and row.due_until > now)


def _move(view: DispatchView, cursor: datetime | None) -> Operation[bool]:
    rows = yield statement(
        "put_cursor_right",
        id=view.id,
        version=view.version,
        cursor=view.next_scheduled_run,
        next_cursor=cursor,
        served_spans=served_text(view, cursor),
    )
    return bool(rows)


def _withdraw(view: DispatchView, ahead: Rows, *, now: datetime) -> Operation[None]:
    ids = [row.id for row in ahead if _is_withdrawn(row, now)]
    if ids:
        yield statement("withdraw_verdicts", ids=ids)
    for row in ahead:
        if _is_shortened(row, now):
            yield from _shorten(view, row, now)
    yield statement("record_early_runs", manifest_id=view.id, now=now, most_runs=_MOST_RUNS)


def _shorten(view: DispatchView, row: Row, now: datetime) -> Operation[None]:
    """Let a verdict end at the last instant that has come."""
    timetable = true_timetable(view, row.due_at - _MOMENT)
    until = timetable.last_between(row.due_at, now) or row.due_at
    occurrences = max(timetable.count_between(row.due_at, until), 1)
    yield statement("shorten_verdict", id=row.id, due_until=until, occurrences=occurrences)


def _told(instant: datetime | None) -> str:
    return "none" if instant is None else f"{instant:%Y-%m-%d %H:%M:%S}Z"
