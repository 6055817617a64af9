"""Preview the next occurrences: of one manifest by the same decisions, of many by their timetables."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from gandy.model.schedule import Recurring, SkipReason
from gandy.rules.clocks import has_run
from gandy.rules.deciding import decide
from gandy.rules.exclusions import is_excluded
from gandy.rules.recurring import guard_of, settle_letter
from gandy.rules.timetable import InstantPlan, WithInstant, scheduled_at, series_between, timetable_of
from gandy.rules.zones import wall_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gandy.model.manifest import DispatchView, Occurrence, Skipped
    from gandy.rules.timetable import Timetable


MOST_PREVIEWED: Final = 1_000


@dataclass(frozen=True, slots=True)
class Upcoming:
    """A future instant, as it will be decided if no guard holds then."""

    due_at: datetime
    scheduled_at: datetime  #: with jitter; meaningless if excluded
    utc_offset: timedelta
    is_excluded: bool
    is_offset_changed: bool  #: the zone's offset differs from that of the previous instant


def preview(view: DispatchView, now: datetime, count: int) -> list[Upcoming]:
    """List the next instants, with excluded ones marked; empty if only other events trigger the manifest."""
    upcoming: list[Upcoming] = []
    offset = _offset(view, now)
    for due_at, occurrence in _decided(view, now):
        if len(upcoming) >= min(count, MOST_PREVIEWED):
            break
        before, offset = offset, _offset(view, due_at)
        upcoming.append(
            Upcoming(
                due_at=due_at,
                scheduled_at=due_at if occurrence is None else occurrence.scheduled_at,
                utc_offset=offset,
                is_excluded=is_excluded(view.exclusions, due_at, view.timezone),
                is_offset_changed=offset != before,
            )
        )
    return upcoming


class Coming(NamedTuple):
    """The instants of a manifest within a span; excluded ones are left out."""

    instants: tuple[datetime, ...]
    is_cut: bool  #: there are more within the span


NOTHING: Final = Coming((), is_cut=False)
_MOMENT: Final = timedelta(microseconds=1)
_AT_ONCE: Final = timedelta(days=1)


def coming(view: DispatchView, now: datetime, *, until: datetime, most: int) -> Coming:
    """List the instants from now on; a manifest that is held back is previewed as if it were not.

    An instant that has passed without a verdict comes first: it is due now. Of a manifest that runs once,
    it stays due until nothing holds it back.
    """
    cursor = view.next_scheduled_run
    if cursor is None:
        return NOTHING
    is_left_out = is_excluded(view.exclusions, cursor, view.timezone)
    if not isinstance(view.schedule, Recurring):
        return NOTHING if is_left_out or cursor > until else Coming((cursor,), is_cut=False)
    is_held = not view.may_run or guard_of(view) is SkipReason.DEAD_LETTER
    first = () if cursor > now or is_held or is_left_out else (cursor,)
    found = list(islice(_allowed(view, max(now, cursor - _MOMENT), until), most + 1))
    return Coming((*first, *found)[:most], is_cut=len(first) + len(found) > most)


def jittered(view: DispatchView, due_at: datetime) -> datetime:
    """Return when an instant starts, with the manifest's jitter."""
    if not isinstance(view.schedule, Recurring) or view.next_scheduled_run is None:
        return scheduled_at(view.external_id, due_at, view.variance, next_due_at=None)
    following = _timetable(view, view.schedule).next_after(due_at)
    return scheduled_at(view.external_id, due_at, view.variance, next_due_at=following)


def _allowed(view: DispatchView, after: datetime, until: datetime) -> Iterator[datetime]:
    """Walk the instants that no exclusion removes; an excluded stretch is passed over at once."""
    if not isinstance(view.schedule, Recurring):
        return
    timetable = _timetable(view, view.schedule)
    plan = InstantPlan(timetable, view.exclusions, view.timezone)
    at = timetable.next_after(after)
    while at is not None and at <= until:
        if is_excluded(view.exclusions, at, view.timezone):
            end = min(until, at + _AT_ONCE)
            allowed = [each.first for each in series_between(plan, at, end) if not each.is_excluded]
            at = allowed[0] if allowed else timetable.next_after(end)
            continue
        if not has_run(view, at):
            yield at
        at = timetable.next_after(at)


def _timetable(view: DispatchView, schedule: Recurring) -> Timetable:
    cursor = view.next_scheduled_run
    if cursor is None:
        raise AssertionError("only a manifest with a next instant has a timetable")
    timetable = timetable_of(schedule, cursor)
    return WithInstant(timetable, cursor) if view.is_next_set else timetable


def _decided(view: DispatchView, now: datetime) -> Iterator[tuple[datetime, Occurrence | None]]:
    """Simulate the next cycles, each at the instant that is due then."""
    at, view = now, _resolved(_switched_on(view, now), now)
    while True:
        decision = decide(view, at)
        if decision.occurrence is not None:
            yield decision.occurrence.due_at, decision.occurrence
        yield from ((row.due_until, None) for row in decision.skipped if _is_to_come(row, now))
        if decision.next_scheduled_run is None:
            return
        view = _unguarded(view)._replace(next_scheduled_run=decision.next_scheduled_run)
        at = max(at, decision.next_scheduled_run)


def _is_to_come(row: Skipped, now: datetime) -> bool:
    return row.reason is SkipReason.EXCLUDED and row.due_until >= now


def _switched_on(view: DispatchView, now: datetime) -> DispatchView:
    """Return a disabled manifest as if it were enabled now."""
    if view.may_run:
        return view
    return view._replace(is_enabled=True, group_enabled=True, is_orphaned=False, enabled_at=now)


def _resolved(view: DispatchView, now: datetime) -> DispatchView:
    """Return a manifest with an unresolved dead letter as if that were resolved now."""
    if guard_of(view) is not SkipReason.DEAD_LETTER or not isinstance(view.schedule, Recurring):
        return view
    settled = settle_letter(view, view.schedule, since=now, now=now)
    return _unguarded(view)._replace(next_scheduled_run=settled.next_scheduled_run)


def _unguarded(view: DispatchView) -> DispatchView:
    return view._replace(
        is_dead_lettered_now=False,
        has_awaiting_dead_letter=False,
        has_queued_work=False,
        has_active_execution=False,
    )


def _offset(view: DispatchView, instant: datetime) -> timedelta:
    return wall_of(instant, view.timezone).utcoffset() or timedelta(0)
