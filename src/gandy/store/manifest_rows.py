"""The row of a manifest: the values in force, and where its cursor stands."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, TypeAlias

from gandy.model import exclusion as exclusion_json
from gandy.model.schedule import Cron, Dependent, Interval, Once, schedule_type, timezone_of
from gandy.rules.dispatching import entry_priority
from gandy.rules.exclusions import refuse_excluded_once, refuse_none_left
from gandy.rules.schedules import changed_cursor, first_cursor
from gandy.store.declared import from_stored, parent_of, shape_text, with_input

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gandy.model.manifest import ManifestDeclaration
    from gandy.model.schedule import Schedule
    from gandy.settings.bounds import Timeout
    from gandy.store.statements import Row

ManifestRow: TypeAlias = "dict[str, object]"


@dataclass(frozen=True, slots=True)
class GroupKey:
    """What a manifest's row needs to know of its group."""

    id: int
    priority: int


@dataclass(frozen=True, slots=True)
class Change:
    """What becomes of a stored manifest, beside its new declaration."""

    declared: str
    overrides: str
    origin: str
    is_orphaned: bool = False
    reason: str | None = None


@dataclass(slots=True)
class RowMaker:
    """Makes rows; what many declarations share is worked out once."""

    now: datetime
    groups: Mapping[str, GroupKey]
    _shapes: dict[object, tuple[str, ManifestRow]] = field(default_factory=dict)

    def text_of(self, declaration: ManifestDeclaration) -> str:
        """Write the declaration as it is stored."""
        return with_input(self._shape(declaration)[0], declaration.input_json)

    def new_row(self, declaration: ManifestDeclaration) -> ManifestRow:
        """Make the row of a manifest that is not there yet."""
        row = self._row(declaration)
        self._refuse_excluded(declaration, row["next_scheduled_run"])
        return row

    def _row(self, declaration: ManifestDeclaration) -> ManifestRow:
        shape, row = self._shape(declaration)
        return {
            **row,
            "external_id": declaration.external_id,
            "properties": declaration.input_json,
            "declared": with_input(shape, declaration.input_json),
        }

    def changed_row(self, stored: Row, change: Change) -> ManifestRow:
        """Make the row of a manifest that is there: its cursor moves only where its schedule changed."""
        before = from_stored(stored.external_id, stored.declared, stored.overrides)
        after = from_stored(stored.external_id, change.declared, change.overrides)
        cursor = changed_cursor(
            before.schedule, after.schedule, cursor=stored.next_scheduled_run, now=self.now
        )
        is_moved = cursor != stored.next_scheduled_run
        if is_moved or after.exclusions != before.exclusions:
            self._refuse_excluded(after, cursor, is_moved=is_moved)
        return {
            **self._row(after),
            "declared": change.declared,
            "overrides": change.overrides,
            "origin": change.origin,
            "is_orphaned": change.is_orphaned,
            "reason": change.reason,
            "scheduled_at": cursor if is_moved and isinstance(after.schedule, Once) else stored.scheduled_at,
            "next_scheduled_run": cursor,
            "next_look_at": self._look(after, cursor),
            "completed_at": None if is_moved else stored.completed_at,
        }

    def _refuse_excluded(
        self, declaration: ManifestDeclaration, at: object, *, is_moved: bool = True
    ) -> None:
        """Refuse a job whose exclusions leave it no instant, be it the only one."""
        if not declaration.exclusions or not isinstance(at, datetime):
            return
        schedule = declaration.schedule
        if is_moved:
            refuse_excluded_once(schedule, declaration.exclusions, at)
        refuse_none_left(schedule, declaration.exclusions, now=self.now, anchor=at)

    def _look(self, declaration: ManifestDeclaration, cursor: datetime | None) -> datetime | None:
        if not declaration.is_enabled:
            return None
        return self.now if isinstance(declaration.schedule, Dependent) else cursor

    def _shape(self, declaration: ManifestDeclaration) -> tuple[str, ManifestRow]:
        key = _shape_key(declaration)
        found = self._shapes.get(key)
        if found is None:
            found = self._shapes[key] = shape_text(declaration), self._shared_row(declaration)
        return found

    def _shared_row(self, declaration: ManifestDeclaration) -> ManifestRow:
        schedule, group = declaration.schedule, self.groups[declaration.group]
        cursor = first_cursor(schedule, self.now)
        return {
            "name": declaration.train,
            "manifest_group_id": group.id,
            "property_type_name": declaration.input_type_name,
            **_schedule_columns(schedule),
            "scheduled_at": cursor if isinstance(schedule, Once) else None,
            "variance_seconds": declaration.variance.total_seconds(),
            "exclusions": exclusion_json.to_json(declaration.exclusions),
            "misfire_policy": declaration.misfire_policy.value,
            "misfire_threshold_seconds": declaration.misfire_threshold.total_seconds(),
            "max_retries": declaration.max_retries,
            "is_retried": declaration.is_retried,
            "retry_delay_seconds": _seconds(declaration.retry_delay),
            "timeout_seconds": _seconds(declaration.timeout),
            "priority": entry_priority(declaration.priority, group.priority),
            "keep_for_seconds": _seconds(declaration.keep_for),
            "keep_last": declaration.keep_last,
            "batch": declaration.batch,
            "is_enabled": declaration.is_enabled,
            "next_scheduled_run": cursor,
            "next_look_at": cursor if declaration.is_enabled else None,
        }


def _schedule_columns(schedule: Schedule) -> ManifestRow:
    return {
        "schedule_type": schedule_type(schedule).value,
        "cron_expression": schedule.expression if isinstance(schedule, Cron) else None,
        "interval_seconds": schedule.every.total_seconds() if isinstance(schedule, Interval) else None,
        "timezone": timezone_of(schedule),
        "parent": parent_of(schedule),
    }


def _shape_key(declaration: ManifestDeclaration) -> object:
    return (
        declaration.train,
        declaration.input_type_name,
        declaration.schedule,
        declaration.group,
        declaration.priority,
        declaration.max_retries,
        declaration.is_retried,
        declaration.retry_delay,
        declaration.timeout,
        declaration.is_enabled,
        declaration.variance,
        declaration.exclusions,
        declaration.misfire_policy,
        declaration.misfire_threshold,
        declaration.keep_for,
        declaration.keep_last,
        declaration.batch,
    )


def _seconds(span: Timeout | None) -> float | None:
    return None if span is None else span.total_seconds()
