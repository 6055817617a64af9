"""Preview the next occurrences, by the same decisions."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from gandy.model.schedule import Recurring, SkipReason
from gandy.rules.deciding import decide
from gandy.rules.exclusions import is_excluded
from gandy.rules.recurring import guard_of, settle_letter
from gandy.rules.zones import wall_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Final

    from gandy.model.manifest import DispatchView, Occurrence, Skipped


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
