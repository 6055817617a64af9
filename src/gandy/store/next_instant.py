"""The next instant of a manifest, put right by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gandy.errors import OverrideError
from gandy.model.schedule import Cron, Interval, Once, timezone_of
from gandy.rules.clocks import true_cursor
from gandy.rules.exclusions import is_excluded
from gandy.store.clock_repair import clear_ahead
from gandy.store.manifests import load_view_of, read_now

if TYPE_CHECKING:
    from datetime import datetime

    from gandy.model.manifest import ManifestDeclaration
    from gandy.store.manifest_rows import ManifestRow
    from gandy.store.statements import Operation, Row


def set_next(effective: ManifestDeclaration, stored: Row, next_at: datetime) -> Operation[ManifestRow]:
    """Place the cursor where a person wants it; the schedule goes on from there."""
    now = yield from read_now()
    problem = _problem(effective, stored, next_at, now=now)
    if problem is None and not isinstance(effective.schedule, Once):
        view = (yield from load_view_of(stored.id, stored.owner)).views[0]
        if next_at in (yield from clear_ahead(view, now)):
            problem = "that instant has run or is about to run"
    if problem is not None:
        raise OverrideError(effective.external_id, f"next cannot be {_told(next_at)}: {problem}")
    return _row(next_at, set_to=next_at, is_enabled=effective.is_enabled)


def unset_next(stored: Row) -> Operation[ManifestRow]:
    """Go back to the schedule's own next instant, where a person had set another one."""
    view = (yield from load_view_of(stored.id, stored.owner)).views[0]
    if not view.is_next_set:
        return {}
    now = yield from read_now()
    taken = yield from clear_ahead(view, now)
    return _row(true_cursor(view, now, taken=taken), set_to=None, is_enabled=view.is_enabled)


def _problem(effective: ManifestDeclaration, stored: Row, next_at: datetime, *, now: datetime) -> str | None:
    schedule = effective.schedule
    if not isinstance(schedule, Cron | Interval | Once):
        return "its schedule has no instants"
    if isinstance(schedule, Once) and stored.next_scheduled_run is None:
        return "it has run; schedule it again for another instant"
    if next_at <= now:
        return f"it must lie ahead of now, which is {_told(now)}"
    if is_excluded(effective.exclusions, next_at, timezone_of(schedule)):
        return "one of its exclusions removes that instant"
    return None


def _row(cursor: datetime | None, *, set_to: datetime | None, is_enabled: bool) -> ManifestRow:
    return {
        "next_scheduled_run": cursor,
        "scheduled_at": set_to,
        "next_look_at": cursor if is_enabled else None,
    }


def _told(instant: datetime) -> str:
    return f"{instant:%Y-%m-%d %H:%M:%S}Z"
