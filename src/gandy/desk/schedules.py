"""Schedules for operators: descriptions, changes, previews, and the dependency graph."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import (
    datetime,
    timedelta,
)
from typing import TYPE_CHECKING, Final

from gandy.errors import OverrideError
from gandy.model import exclusion as exclusion_json
from gandy.model.schedule import Interval
from gandy.rules.preview import preview
from gandy.rules.schedules import cron
from gandy.rules.zones import wall_of, zone
from gandy.settings import format_duration
from gandy.settings.bounds import BOUNDS, problems_of
from gandy.store.declared import schedule_to_json, timeout_to_json
from gandy.store.reading.overview import DRAWN, list_dependencies
from gandy.store.reading.views import picture_of

if TYPE_CHECKING:
    from gandy.model.exclusion import Exclusion
    from gandy.model.owners import Owners
    from gandy.model.schedule import Cron, Manual, MisfirePolicy
    from gandy.rules.preview import Upcoming
    from gandy.settings.bounds import Timeout
    from gandy.store.drivers.database import Database, ReadingRunner
    from gandy.store.statements import Row


_DAYS: Final = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_NAMES: Final = {name[:3].lower(): number for number, name in enumerate(_DAYS[:7])}
_MONTHS: Final = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
    "November", "December",
)  # fmt: skip
_FIELDS: Final = 5


def plain_interval(every: timedelta) -> str:
    """Describe an interval in words."""
    for unit, name in (
        (timedelta(days=1), "day"),
        (timedelta(hours=1), "hour"),
        (timedelta(minutes=1), "minute"),
    ):
        if every == unit:
            return f"every {name}"
    return f"every {format_duration(every)}"


def plain_cron(expression: str) -> str | None:
    """Describe a common cron expression in words; None for any other."""
    fields = expression.lower().split()
    if len(fields) != _FIELDS:
        return None
    minute, hour, day, month, weekday = fields
    when = _time(minute, hour)
    which = _days(day, month, weekday)
    return None if when is None or which is None else f"{when}{which}"


def _time(minute: str, hour: str) -> str | None:
    step = re.fullmatch(r"\*/(\d+)", minute)
    if hour == "*":
        if minute == "*":
            return "every minute"
        if step is not None:
            return f"every {step[1]} minutes"
        return (
            f"every hour, {minute} minutes past" if minute.isdigit() and int(minute) else _on_the_hour(minute)
        )
    if minute.isdigit() and re.fullmatch(r"\d+(,\d+)*", hour):
        return "at " + " and ".join(f"{int(each):02}:{int(minute):02}" for each in hour.split(","))
    return None


def _on_the_hour(minute: str) -> str | None:
    return "every hour" if minute == "0" else None


def _days(day: str, month: str, weekday: str) -> str | None:
    if (day, month, weekday) == ("*", "*", "*"):
        return ""
    if (day, month) == ("*", "*"):
        said = _weekdays(weekday)
        return None if said is None else f", {said}"
    if day.isdigit() and weekday == "*":
        if month == "*":
            return f", on day {day} of the month"
        if month.isdigit():
            return f", on {_MONTHS[int(month) - 1]} {day}"
    return None


def _weekdays(field: str) -> str | None:
    found = [_weekday(each) for each in re.split(r"[-,]", field)]
    if any(each is None for each in found):
        return None
    if "-" not in field:
        return " and ".join(str(each) for each in found)
    return None if "," in field else f"{found[0]} to {found[1]}"


def _weekday(text: str) -> str | None:
    number = int(text) if text.isdigit() else _NAMES.get(text[:3], -1)
    return _DAYS[number] if 0 <= number < len(_DAYS) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestChanges:
    """New values of a manifest; None leaves a value unchanged."""

    schedule: Cron | Interval | Manual | None = None
    input_json: str | None = None
    group: str | None = None
    priority: int | None = None
    max_retries: int | None = None
    is_retried: bool | None = None
    retry_delay: timedelta | None = None
    timeout: Timeout | None = None
    variance: timedelta | None = None
    exclusions: tuple[Exclusion, ...] | None = None
    misfire_policy: MisfirePolicy | None = None
    misfire_threshold: timedelta | None = None
    keep_for: timedelta | None = None
    keep_last: int | None = None
    next_at: datetime | None = None  #: the next instant, set manually


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


def override_values(changes: ManifestChanges) -> dict[str, object]:
    """Return the given values in their stored form; raise if none is given."""
    if problems := problems_of(changes):
        raise OverrideError("set", "; ".join(problems))
    values: dict[str, object | None] = {
        "schedule": None if changes.schedule is None else schedule_to_json(changes.schedule),
        "input": None if changes.input_json is None else json.loads(changes.input_json),
        "group": changes.group,
        "priority": changes.priority,
        "max_retries": changes.max_retries,
        "is_retried": changes.is_retried,
        "retry_delay": _seconds(changes.retry_delay),
        "timeout": timeout_to_json(changes.timeout),
        "variance": _seconds(changes.variance),
        "exclusions": None
        if changes.exclusions is None
        else json.loads(exclusion_json.to_json(changes.exclusions)),
        "misfire_policy": changes.misfire_policy,
        "misfire_threshold": _seconds(changes.misfire_threshold),
        "keep_for": _seconds(changes.keep_for),
        "keep_last": changes.keep_last,
    }
    given = {name: value for name, value in values.items() if value is not None}
    if changes.input_json is not None:  # null is a valid input
        given["input"] = json.loads(changes.input_json)
    if not given and changes.next_at is None:
        raise OverrideError("set", "nothing to set; give at least one value")
    return given


def _seconds(span: timedelta | None) -> float | None:
    return None if span is None else span.total_seconds()


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
    is_dormant: bool  #: runs only when a run of the parent activates it


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
        GraphEdge(parent=row.parent, child=row.child, is_dormant=row.schedule_type == "dormant_dependent")
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
