"""Schedules for operators: changes, previews, and the dependency graph."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from gandy.desk.declarations import Place
from gandy.errors import OverrideError
from gandy.model.manifest import MANIFEST_OPTIONS
from gandy.model.schedule import Interval, Manual
from gandy.rules.preview import preview
from gandy.rules.schedules import cron, once
from gandy.rules.zones import wall_of, zone
from gandy.settings.bounds import BOUNDS
from gandy.store.reading.overview import DRAWN, list_dependencies
from gandy.store.reading.views import picture_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime, timedelta

    from gandy.model.owners import Owners
    from gandy.model.schedule import Cron, TimeSchedule
    from gandy.rules.preview import Upcoming
    from gandy.store.drivers.database import Database, ReadingRunner
    from gandy.store.statements import Row


OVERRIDABLE: Final = tuple(option for option in MANIFEST_OPTIONS if option.is_overridable)


class ManifestChanges:
    """New values of a manifest; None leaves a value unchanged."""

    def __init__(
        self,
        *,
        schedule: Cron | Interval | Manual | None = None,
        input_json: str | None = None,
        next_at: datetime | None = None,
        **options: Any,  # noqa: ANN401 - of the type of each option
    ) -> None:
        """Take the options by the names of the declaration's fields; `next_at` is the next instant."""
        if unknown := options.keys() - {option.field for option in OVERRIDABLE}:
            raise TypeError(f"not an option of a manifest: {', '.join(sorted(unknown))}")
        self.schedule = schedule
        self.input_json = input_json
        self.next_at = next_at
        self.options = {name: value for name, value in options.items() if value is not None}

    def problems(self) -> Iterator[str]:
        """Describe the values that are outside their bounds."""
        for option in OVERRIDABLE:
            if option.field in self.options and option.bound is not None:
                yield from filter(None, [option.bound.problem(option.field, self.options[option.field])])
        if self.next_at is not None:
            yield from filter(None, [BOUNDS["next_at"].problem("next_at", self.next_at)])


def replaced_schedule(
    expression: str | None, rate: timedelta | None, timezone: str | None
) -> Cron | Interval | None:
    """Build the new schedule from the given options; None: unchanged."""
    if expression is not None and rate is not None:
        raise OverrideError("schedule", "cron and every exclude each other")
    if expression is not None:
        return cron(expression, timezone or "UTC")
    if rate is not None:
        zone(timezone or "UTC")  # raises for an unknown zone
        if not BOUNDS["every"].holds(rate):
            raise OverrideError("every", BOUNDS["every"].refusal(rate))
        return Interval(rate, timezone or "UTC")
    if timezone is not None:
        raise OverrideError("timezone", "needs cron or every")
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewManifest:
    """A manifest to make at run time, on a schedule or after others."""

    external_id: str
    train: str
    schedule: TimeSchedule = field(default_factory=Manual)
    place: Place = field(default_factory=Place)
    input_json: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)  #: by keyword


def new_schedule(
    expression: str | None, rate: timedelta | None, timezone: str | None, *, at: datetime | None
) -> TimeSchedule:
    """Build the schedule of a new manifest from the given options; none: it is only triggered."""
    if at is None:
        return replaced_schedule(expression, rate, timezone) or Manual()
    if expression is not None or rate is not None:
        raise OverrideError("schedule", "cron, every and at exclude each other")
    return once(at=at, timezone=timezone or "UTC")


def override_values(changes: ManifestChanges) -> dict[str, object]:
    """Return the given values in their stored form; raise if none is given."""
    if problems := tuple(changes.problems()):
        raise OverrideError("set", "; ".join(problems))
    given = {
        option.field: option.form.to_json(changes.options[option.field])
        for option in OVERRIDABLE
        if option.field in changes.options
    }
    if changes.schedule is not None:
        given["schedule"] = changes.schedule.to_json()
    if changes.input_json is not None:  # null is a valid input
        given["input"] = json.loads(changes.input_json)
    if not given and changes.next_at is None:
        raise OverrideError("set", "nothing to set; give at least one value")
    return given


@dataclass(frozen=True, slots=True, kw_only=True)
class PreviewedInstant:
    """One future instant, as local time of the manifest's zone and in UTC."""

    due_at: datetime
    local: str  #: with the zone's offset
    scheduled_at: datetime | None  #: with jitter; None if excluded
    note: str


async def preview_manifest(
    database: Database, external_id: str, count: int, *, owners: Owners
) -> tuple[PreviewedInstant, ...]:
    """List the next instants, by the rules that the scheduler uses."""
    picture = await database.read(picture_of(external_id, owners))
    if picture.problem is not None:
        raise OverrideError(external_id, picture.problem)
    upcoming = preview(picture.view, picture.row.now, count)
    return tuple(_shown(each, picture.view.timezone) for each in upcoming)


def _shown(upcoming: Upcoming, timezone: str) -> PreviewedInstant:
    notes = []
    if upcoming.is_excluded:
        notes.append("excluded")
    if upcoming.is_offset_changed:
        notes.append("UTC offset changed")
    return PreviewedInstant(
        due_at=upcoming.due_at,
        local=wall_of(upcoming.due_at, timezone).isoformat(),
        scheduled_at=None if upcoming.is_excluded else upcoming.scheduled_at,
        note=", ".join(notes),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphNode:
    """A manifest in the graph."""

    external_id: str
    train: str
    is_enabled: bool
    is_active: bool
    failure_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphEdge:
    """A dependency: the child runs after the parent."""

    parent: str
    child: str
    kind: str  #: the end that the child follows: success, failure, end, or an activation
    is_output_passed: bool  #: the parent's output is the child's input


@dataclass(frozen=True, slots=True, kw_only=True)
class DependencyGraph:
    """Manifests and their dependencies; `is_cut` if there are more than the limit."""

    nodes: tuple[GraphNode, ...]
    edges: tuple[GraphEdge, ...]
    is_cut: bool


async def draw_dependencies(
    database: ReadingRunner, owner: str, *, group: str | None = None
) -> DependencyGraph:
    """Return the dependencies of an application, or those that involve one of its groups."""
    rows = await database.read(list_dependencies(owner, group))
    nodes = {node.external_id: node for row in rows for node in (_parent(row), _child(row))}
    edges = tuple(
        GraphEdge(parent=row.parent, child=row.child, kind=row.kind, is_output_passed=row.is_output_passed)
        for row in rows
    )
    return DependencyGraph(nodes=tuple(nodes.values()), edges=edges, is_cut=len(rows) == DRAWN)


def _parent(row: Row) -> GraphNode:
    return GraphNode(
        external_id=row.parent,
        train=row.parent_train,
        is_enabled=row.is_parent_enabled,
        is_active=row.parent_run_id is not None,
        failure_count=row.parent_failures,
    )


def _child(row: Row) -> GraphNode:
    return GraphNode(
        external_id=row.child,
        train=row.child_train,
        is_enabled=row.is_child_enabled,
        is_active=row.child_run_id is not None,
        failure_count=row.child_failures,
    )
