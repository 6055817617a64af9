"""An operator's values over the declared ones, of manifests and of groups."""

from __future__ import annotations

import json
from datetime import UTC
from typing import TYPE_CHECKING

from gandy.errors import GroupNotFoundError, ManifestNotFoundError, OverrideError, ParentNotFoundError
from gandy.model.manifest import DEFAULT_GROUP, NO_INSTANTS, OPTIONS_OF_INSTANTS, GroupDeclaration
from gandy.model.schedule import Cron, Interval, Manual, Once, edges_of, timezone_of
from gandy.rules.clocks import has_run, true_cursor
from gandy.rules.exclusions import is_excluded
from gandy.store.clocks import clear_ahead, put_right
from gandy.store.declared import (
    Change,
    GroupKey,
    RowMaker,
    change_edges,
    from_stored,
    group_from_stored,
    group_text,
)
from gandy.store.manifests import load_view_of, read_now
from gandy.store.statements import batch, statement
from gandy.store.waiting import promote_and_announce, promote_of_groups

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from gandy.model.manifest import Declarations, DispatchView, ManifestDeclaration
    from gandy.store.declared import ManifestRow
    from gandy.store.statements import Operation, Row


def set_next(effective: ManifestDeclaration, stored: Row, next_at: datetime) -> Operation[ManifestRow]:
    """Set the cursor to an operator's instant; the schedule continues from there."""
    now = yield from read_now()
    problem = _problem(effective, stored, next_at, now=now)
    if problem is None and not isinstance(effective.schedule, Once):
        view = yield from _put_right(stored, now)
        if next_at in (yield from clear_ahead(view, now)) or has_run(view, next_at):
            problem = "that instant has run or is about to run"
    if problem is not None:
        raise OverrideError(effective.external_id, f"next cannot be {_told(next_at)}: {problem}")
    return _row(next_at, set_to=next_at, is_enabled=effective.is_enabled)


def unset_next(stored: Row) -> Operation[ManifestRow]:
    """Restore the schedule's own next instant if an operator had set another one."""
    now = yield from read_now()
    view = (yield from load_view_of(stored.id, stored.owner)).views[0]
    if not view.is_next_set:
        return {}
    taken = yield from clear_ahead(view, now)
    return _row(true_cursor(view, now, taken=taken), set_to=None, is_enabled=view.is_enabled)


def _put_right(stored: Row, now: datetime) -> Operation[DispatchView]:
    """Load a manifest; what a clock ahead left is put right before an operator moves the cursor."""
    view = (yield from load_view_of(stored.id, stored.owner)).views[0]
    if (yield from put_right(view, now)):
        view = (yield from load_view_of(stored.id, stored.owner)).views[0]
    return view


def _problem(effective: ManifestDeclaration, stored: Row, next_at: datetime, *, now: datetime) -> str | None:
    schedule = effective.schedule
    if not isinstance(schedule, Cron | Interval | Once):
        return "its schedule has no instants"
    if isinstance(schedule, Once) and stored.next_scheduled_run is None:
        return "it has run; schedule it again for another instant"
    if next_at <= now:
        return f"it must be in the future; now is {_told(now)}"
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


GroupRow = dict[str, object]


def ensure_groups(owner: str, names: Iterable[str]) -> Operation[dict[str, GroupKey]]:
    """Find or create groups by name."""
    wanted = sorted({*names, DEFAULT_GROUP})
    rows = yield batch("ensure_groups", [{"name": name} for name in wanted], owner=owner)
    return {row.name: GroupKey(row.id, row.priority) for row in rows}


def seed_groups(declarations: Declarations) -> Operation[Mapping[str, GroupKey]]:
    """Write the declared settings of groups; a group that is only named gets the defaults."""
    declared = {group.name: group for group in declarations.groups}
    named = {declaration.group for declaration in declarations.manifests}
    yield from ensure_groups(declarations.owner, [*declared, *named])
    stored = yield statement("list_groups_declared", owner=declarations.owner)
    texts = {row.name: _text_for(row, declared, is_whole=bool(declarations.manifests)) for row in stored}
    changed = [row for row in stored if row.declared != texts[row.name]]
    yield from write_groups(
        declarations.owner, [(row, texts[row.name], row.overrides, row.disabled_reason) for row in changed]
    )
    effective = {row.name: group_from_stored(row.name, texts[row.name], row.overrides) for row in stored}
    return {row.name: GroupKey(row.id, effective[row.name].priority) for row in stored}


def override_group(
    owner: str, name: str, changes: Mapping[str, object] | None, *, reason: str | None = None
) -> Operation[GroupDeclaration]:
    """Override declared values of a group; None clears every override."""
    rows = yield statement("lock_group", owner=owner, name=name)
    if not rows:
        raise GroupNotFoundError(owner, name)
    overrides = "{}" if changes is None else json.dumps({**json.loads(rows[0].overrides), **changes})
    changed = (rows[0], rows[0].declared, overrides, reason or rows[0].disabled_reason)
    yield from write_groups(owner, [changed])
    yield statement("notify", payload=f"manager:{owner}")
    yield statement("notify", payload=f"work:{owner}")
    return group_from_stored(name, rows[0].declared, overrides)


def write_groups(owner: str, changes: Sequence[tuple[Row, str, str, str | None]]) -> Operation[None]:
    """Write groups; propagate a new priority to their manifests, and schedule looks after switching on."""
    if not changes:
        return
    after = {
        row.id: group_from_stored(row.name, declared, overrides) for row, declared, overrides, _ in changes
    }
    rows = [_group_row(after[row.id], row, texts) for row, *texts in changes]
    yield batch("update_groups", rows, owner=owner)
    moved = [row.id for row, *_ in changes if row.priority != after[row.id].priority]
    if moved:
        yield statement("spread_group_priority", ids=moved, owner=owner)
    woken = [row.id for row, *_ in changes if after[row.id].is_enabled and not row.is_enabled]
    if woken:
        yield statement("wake_groups", ids=woken, owner=owner)
        yield from promote_of_groups(owner, woken)


def _group_row(group: GroupDeclaration, stored: Row, texts: Sequence[str | None]) -> GroupRow:
    declared, overrides, reason = texts
    return {
        "id": stored.id,
        "declared": declared,
        "overrides": overrides,
        "max_active_jobs": group.max_active_jobs,
        "priority": group.priority,
        "is_enabled": group.is_enabled,
        "reason": reason,
    }


def _text_for(stored: Row, declared: Mapping[str, GroupDeclaration], *, is_whole: bool) -> str:
    group = declared.get(stored.name)
    if group is not None:
        return group_text(group)
    return "{}" if is_whole else str(stored.declared)


def override_manifest(
    external_id: str,
    changes: Mapping[str, object] | None,
    *,
    owner: str,
    reason: str | None = None,
    next_at: datetime | None = None,
) -> Operation[None]:
    """Override declared values and the next instant of a manifest; None clears every override."""
    stored = yield from _lock(external_id, owner)
    overrides = _merged(stored, changes)
    effective = from_stored(external_id, stored.declared, overrides)
    if "schedule" in (changes or {}):
        _refuse_other_kind(stored, overrides)
    _refuse_unused(effective, changes or {})
    yield from _refuse_lost_parent(owner, effective)
    groups = yield from ensure_groups(owner, [effective.group])
    maker = RowMaker((yield from read_now()), groups)
    change = Change(stored.declared, overrides, stored.origin, stored.is_orphaned, reason)
    row = maker.changed_row(stored, change)
    if next_at is not None:
        row |= yield from set_next(effective, stored, next_at.astimezone(UTC))
    elif changes is None:
        row |= yield from unset_next(stored)
    yield batch("update_manifests", [row], owner=owner)
    yield from change_edges(owner, [(stored, change)])
    yield statement("regate_entries", ids=[stored.id], owner=owner)
    yield from promote_and_announce([stored.id])
    yield statement("notify", payload=f"manager:{owner}")
    yield statement("notify", payload=f"work:{owner}")


def _lock(external_id: str, owner: str) -> Operation[Row]:
    rows = yield statement("lock_declared", external_ids=[external_id], owner=owner)
    if not rows:
        raise ManifestNotFoundError(external_id)
    return rows[0]


def _refuse_lost_parent(owner: str, effective: ManifestDeclaration) -> Operation[None]:
    """Refuse a manifest whose parent does not exist, such as a former parent of another application."""
    parents = [edge.parent for edge in edges_of(effective.schedule)]
    rows = (yield statement("find_declared", external_ids=parents, owner=owner)) if parents else []
    for parent in parents:
        if parent not in {row.external_id for row in rows}:
            raise ParentNotFoundError(effective.external_id, parent)


def _merged(stored: Row, changes: Mapping[str, object] | None) -> str:
    if changes is None:
        return "{}"
    declared = json.loads(stored.declared)
    merged = {**json.loads(stored.overrides), **changes}
    # Switching on a manifest that is declared enabled ends a pause; it is not an override.
    if merged.get("is_enabled") == declared["is_enabled"]:
        del merged["is_enabled"]
    return json.dumps(merged)


def _refuse_unused(effective: ManifestDeclaration, changes: Mapping[str, object]) -> None:
    """Refuse values that would have no effect."""
    edges, name = edges_of(effective.schedule), effective.external_id
    if "input" in changes and any(edge.is_output_passed for edge in edges):
        raise OverrideError(name, "the output of its parent is its input; trigger it with another one")
    for option in OPTIONS_OF_INSTANTS if edges else ():
        if changes.get(option.field):
            raise OverrideError(name, f"{option.keyword}: {NO_INSTANTS}")


def _refuse_other_kind(stored: Row, overrides: str) -> None:
    before = from_stored(stored.external_id, stored.declared).schedule
    after = from_stored(stored.external_id, stored.declared, overrides).schedule
    if before != after and not isinstance(before, Cron | Interval | Manual):
        raise OverrideError(
            stored.external_id, "only a cron, an interval or a manual schedule can be replaced"
        )
