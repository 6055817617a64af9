"""The stored form of declarations, and the rows of manifests and of their edges."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from gandy.model.manifest import MANIFEST_OPTIONS, GroupDeclaration, ManifestDeclaration
from gandy.model.schedule import Dependent, MisfirePolicy, Once, edges_of, schedule_from_json, timezone_of
from gandy.rules.dispatching import entry_priority
from gandy.rules.exclusions import refuse_excluded_once, refuse_none_left
from gandy.rules.schedules import changed_cursor, first_cursor
from gandy.store.statements import batch, batch_of, statement

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from gandy.model.schedule import Edge, Schedule
    from gandy.store.statements import Batch, Operation, Row


Stored: TypeAlias = "dict[str, Any]"  # JSON, as this module wrote it


#: The values of options that a stored declaration leaves out, which halves its row. A part of the stored
#: form: a new default of a declaration does not change it.
LEFT_OUT: Final[Stored] = {
    "priority": None,
    "max_retries": 3,
    "is_retried": True,
    "retry_delay": None,
    "timeout": None,
    "variance": 0.0,
    "exclusions": [],
    "misfire_policy": MisfirePolicy.FIRE_ONCE_NOW.value,
    "misfire_threshold": 60.0,
    "keep_for": None,
    "keep_last": None,
}


def shape_text(declaration: ManifestDeclaration, *, is_whole: bool = False) -> str:
    """Serialise all but the input, so that manifests that differ only in their input share the text.

    `is_whole` leaves no option out: the form of older versions, which an unchanged declaration keeps.
    """
    options = {
        option.field: option.form.to_json(getattr(declaration, option.field)) for option in MANIFEST_OPTIONS
    }
    return json.dumps(
        {
            "train": declaration.train,
            "input_type": declaration.input_type_name,
            "schedule": declaration.schedule.to_json(),
            **(options if is_whole else {name: options[name] for name in options if _is_said(name, options)}),
            "batch": declaration.batch,
        },
        separators=(",", ":"),
    )


def _is_said(name: str, options: Stored) -> bool:
    return name not in LEFT_OUT or options[name] != LEFT_OUT[name]


def with_input(shape: str, input_json: str | None) -> str:
    """Insert the input, which is JSON already, before the other fields."""
    return shape if input_json is None else f'{{"input":{input_json},{shape[1:]}'


def from_stored(external_id: str, declared: str, overrides: str = "{}") -> ManifestDeclaration:
    """Read a declaration with its overrides applied."""
    data: Stored = {**LEFT_OUT, **json.loads(declared), **json.loads(overrides)}
    return ManifestDeclaration(
        external_id=external_id,
        train=data["train"],
        input_json=json.dumps(data["input"], separators=(",", ":")) if "input" in data else None,
        input_type_name=data["input_type"],
        schedule=schedule_from_json(data["schedule"]),
        batch=data["batch"],
        **{
            option.field: option.form.from_json(data[option.field])
            for option in MANIFEST_OPTIONS
            if option.field in data  # older declarations lack newer options
        },
    )


def group_text(group: GroupDeclaration) -> str:
    """Serialise the declaration of a group."""
    return json.dumps(
        {
            "max_active_jobs": group.max_active_jobs,
            "priority": group.priority,
            "is_enabled": group.is_enabled,
        },
        separators=(",", ":"),
    )


def group_from_stored(name: str, declared: str, overrides: str = "{}") -> GroupDeclaration:
    """Read the effective settings of a group; a group that is only named has the defaults."""
    data: Stored = {**json.loads(declared), **json.loads(overrides)}
    return GroupDeclaration(name=name, **data)


ManifestRow: TypeAlias = "dict[str, object]"
_MOST_USED_INSTANTS: Final = 100


@dataclass(frozen=True, slots=True)
class GroupKey:
    """The values of a group that a manifest's row needs."""

    id: int
    priority: int


@dataclass(frozen=True, slots=True)
class Change:
    """The new declaration and state of a stored manifest."""

    declared: str
    overrides: str
    origin: str
    is_orphaned: bool = False
    reason: str | None = None


class _Shape(NamedTuple):
    """What declarations that differ only in their id and input have in common."""

    text: str
    row: ManifestRow
    values: tuple[object, ...]  #: of the row


@dataclass(slots=True)
class RowMaker:
    """Builds rows; values that many declarations share are computed once."""

    now: datetime
    groups: Mapping[str, GroupKey]
    _shapes: dict[object, _Shape] = field(default_factory=dict)
    _whole: dict[object, str] = field(default_factory=dict)

    def text_of(self, declaration: ManifestDeclaration) -> str:
        """Return the stored form of a declaration."""
        return with_input(self._shape(declaration).text, declaration.input_json)

    def is_stored(self, declaration: ManifestDeclaration, stored: str) -> bool:
        """Return whether a declaration is stored already, in its form or in that of older versions."""
        if stored == self.text_of(declaration):
            return True
        key = _shape_key(declaration)
        whole = self._whole.get(key)
        if whole is None:
            whole = self._whole[key] = shape_text(declaration, is_whole=True)
        return stored == with_input(whole, declaration.input_json)

    def insertion(self, declarations: Sequence[ManifestDeclaration], **shared: object) -> Batch:
        """Return the statement that inserts new manifests, with plain tuples as its rows."""
        columns = self._shape(declarations[0]).row if declarations else ()
        rows = [self._new_row(declaration) for declaration in declarations]
        return batch_of(
            "insert_manifests", ("external_id", "properties", "declared", *columns), rows, **shared
        )

    def _new_row(self, declaration: ManifestDeclaration) -> tuple[object, ...]:
        text, row, values = self._shape(declaration)
        if declaration.exclusions:
            self._refuse_excluded(declaration, row["next_scheduled_run"])
        given = declaration.input_json
        return declaration.external_id, given, with_input(text, given), *values

    def _row(self, declaration: ManifestDeclaration) -> ManifestRow:
        shape = self._shape(declaration)
        return {
            **shape.row,
            "external_id": declaration.external_id,
            "properties": declaration.input_json,
            "declared": with_input(shape.text, declaration.input_json),
        }

    def changed_row(self, stored: Row, change: Change) -> ManifestRow:
        """Build the row of an existing manifest; its cursor moves only if its schedule changed."""
        before = from_stored(stored.external_id, stored.declared, stored.overrides)
        after = from_stored(stored.external_id, change.declared, change.overrides)
        cursor = changed_cursor(
            before.schedule, after.schedule, cursor=stored.next_scheduled_run, now=self.now
        )
        completed_at = stored.completed_at if cursor == stored.next_scheduled_run else None
        single = cursor if isinstance(after.schedule, Once) else None
        used = _used_instants(stored, before.schedule, is_replaced=cursor != stored.next_scheduled_run)
        if single is not None and (name := _instant_name(single)) in used:
            # Declared for another instant and back, as by a rollback: do not run it again.
            cursor, completed_at = None, _named_instant(used[name])
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
            "scheduled_at": single or stored.scheduled_at,
            "next_scheduled_run": cursor,
            "next_look_at": self._look(after, cursor),
            "completed_at": completed_at,
            "used_instants": json.dumps(used),
        }

    def _refuse_excluded(
        self, declaration: ManifestDeclaration, at: object, *, is_moved: bool = True
    ) -> None:
        """Refuse a schedule whose exclusions leave no instant."""
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

    def _shape(self, declaration: ManifestDeclaration) -> _Shape:
        key = _shape_key(declaration)
        found = self._shapes.get(key)
        if found is None:
            row = self._shared_row(declaration)
            found = self._shapes[key] = _Shape(shape_text(declaration), row, tuple(row.values()))
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
            **{
                option.column: option.form.to_row(getattr(declaration, option.field))
                for option in MANIFEST_OPTIONS
                if option.column is not None
            },
            "priority": entry_priority(declaration.priority, group.priority),
            "batch": declaration.batch,
            "is_enabled": declaration.is_enabled,
            "next_scheduled_run": cursor,
            "next_look_at": cursor if declaration.is_enabled else None,
        }


def insert_edges(owner: str, schedules: Iterable[tuple[str, Schedule]]) -> Operation[None]:
    """Write the edges of manifests, given with their ids; a new edge counts from now on."""
    rows = [
        {
            "child": child,
            "parent": edge.parent,
            "place": place,
            "kind": edge.kind.value,
            "is_output_passed": edge.is_output_passed,
        }
        for child, schedule in schedules
        for place, edge in enumerate(edges_of(schedule))
    ]
    yield batch("insert_edges", rows, owner=owner)
    takers = sorted({str(row["child"]) for row in rows if row["is_output_passed"]})
    if takers:
        yield statement("adopt_outputs", owner=owner, children=takers)
        yield statement("drop_stale_outputs", owner=owner, children=takers)


def change_edges(owner: str, changes: Iterable[tuple[Row, Change]]) -> Operation[None]:
    """Write the edges of changed manifests: an end of a parent that was not seen before still counts."""
    kept, after = [], []
    for stored, change in changes:
        before = _schedule_in(stored.declared, stored.overrides)
        schedule = _schedule_in(change.declared, change.overrides)
        if edges_of(before) or edges_of(schedule):
            words = {edge.parent: _kept_as(edge) for edge in edges_of(schedule)}
            kept.append({"child_id": stored.id, "kept": json.dumps(words)})
            after.append((stored.external_id, schedule))
    yield batch("drop_edges", kept)
    yield from insert_edges(owner, after)


def _schedule_in(declared: str, overrides: str) -> Schedule:
    return schedule_from_json({**json.loads(declared), **json.loads(overrides)}["schedule"])


def _kept_as(edge: Edge) -> str:
    """Name what an edge must be to stay as it is, in the words of `drop_edges`."""
    return f"{edge.kind.value}+output" if edge.is_output_passed else edge.kind.value


def _used_instants(stored: Row, before: Schedule, *, is_replaced: bool) -> dict[str, str | None]:
    """Return the used instants of a once; add the replaced one if its run had begun."""
    used: dict[str, str | None] = json.loads(stored.used_instants)
    is_begun = stored.next_scheduled_run is None and stored.scheduled_at is not None
    if isinstance(before, Once) and is_replaced and is_begun:
        completed_at = stored.completed_at
        used[_instant_name(stored.scheduled_at)] = completed_at and _instant_name(completed_at)
    return dict(sorted(used.items())[-_MOST_USED_INSTANTS:])


def _instant_name(instant: datetime) -> str:
    return instant.astimezone(UTC).isoformat()


def _named_instant(name: str | None) -> datetime | None:
    return None if name is None else datetime.fromisoformat(name)


def _schedule_columns(schedule: Schedule) -> ManifestRow:
    return {
        "schedule_type": schedule.type.value,
        "cron_expression": None,
        "interval_seconds": None,
        "timezone": timezone_of(schedule),
        "parent": edges[0].parent if (edges := edges_of(schedule)) else None,
        **schedule.columns(),
    }


_shape_key: Final = attrgetter(
    "train", "input_type_name", "schedule", "batch", *(option.field for option in MANIFEST_OPTIONS)
)
