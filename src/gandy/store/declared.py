"""How a declaration is stored: as JSON text compared as it is, with an operator's overrides beside it."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeAlias, assert_never

from gandy.model import exclusion as exclusion_json
from gandy.model.manifest import GroupDeclaration, ManifestDeclaration
from gandy.model.schedule import (
    Cron,
    Dependent,
    DormantDependent,
    Interval,
    Manual,
    MisfirePolicy,
    Once,
    ScheduleType,
    schedule_type,
)
from gandy.settings.bounds import NO_TIMEOUT, as_span

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gandy.model.schedule import Schedule
    from gandy.settings.bounds import Timeout

Stored: TypeAlias = "dict[str, Any]"  # JSON, as this module wrote it


def shape_text(declaration: ManifestDeclaration) -> str:
    """Write all but the input, so that manifests which differ in nothing else share the text."""
    return json.dumps(
        {
            "train": declaration.train,
            "input_type": declaration.input_type_name,
            "schedule": schedule_to_json(declaration.schedule),
            "group": declaration.group,
            "priority": declaration.priority,
            "max_retries": declaration.max_retries,
            "is_retried": declaration.is_retried,
            "retry_delay": _seconds(declaration.retry_delay),
            "timeout": timeout_to_json(declaration.timeout),
            "is_enabled": declaration.is_enabled,
            "variance": _seconds(declaration.variance),
            "exclusions": json.loads(exclusion_json.to_json(declaration.exclusions)),
            "misfire_policy": declaration.misfire_policy,
            "misfire_threshold": _seconds(declaration.misfire_threshold),
            "keep_for": _seconds(declaration.keep_for),
            "keep_last": declaration.keep_last,
            "batch": declaration.batch,
        },
        separators=(",", ":"),
    )


def with_input(shape: str, input_json: str | None) -> str:
    """Put the input, which is JSON already, in front of the rest."""
    return shape if input_json is None else f'{{"input":{input_json},{shape[1:]}'


def from_stored(external_id: str, declared: str, overrides: str = "{}") -> ManifestDeclaration:
    """Read what was declared, with the overrides over it."""
    data: Stored = {**json.loads(declared), **json.loads(overrides)}
    return ManifestDeclaration(
        external_id=external_id,
        train=data["train"],
        input_json=json.dumps(data["input"], separators=(",", ":")) if "input" in data else None,
        input_type_name=data["input_type"],
        schedule=schedule_from_json(data["schedule"]),
        group=data["group"],
        priority=data["priority"],
        max_retries=data["max_retries"],
        is_retried=data["is_retried"],
        retry_delay=_span(data["retry_delay"]),
        timeout=_timeout_from_json(data["timeout"]),
        is_enabled=data["is_enabled"],
        variance=as_span(data["variance"]),
        exclusions=exclusion_json.from_json(json.dumps(data["exclusions"])),
        misfire_policy=MisfirePolicy(data["misfire_policy"]),
        misfire_threshold=as_span(data["misfire_threshold"]),
        keep_for=_span(data["keep_for"]),
        keep_last=data["keep_last"],
        batch=data["batch"],
    )


def group_text(group: GroupDeclaration) -> str:
    """Write what the code says about a group."""
    return json.dumps(
        {
            "max_active_jobs": group.max_active_jobs,
            "priority": group.priority,
            "is_enabled": group.is_enabled,
        },
        separators=(",", ":"),
    )


def group_from_stored(name: str, declared: str, overrides: str = "{}") -> GroupDeclaration:
    """Read what is in force for a group; one that is only named has the defaults."""
    data: Stored = {**json.loads(declared), **json.loads(overrides)}
    return GroupDeclaration(name=name, **data)


def schedule_to_json(schedule: Schedule) -> Mapping[str, object]:
    """Write a schedule; a delay stays a delay, so that declaring it again changes nothing."""
    kind: dict[str, object] = {"type": schedule_type(schedule).value}
    match schedule:
        case Manual():
            return kind
        case Cron(expression, timezone):
            return {**kind, "expression": expression, "timezone": timezone}
        case Interval(every, timezone):
            return {**kind, "every": every.total_seconds(), "timezone": timezone}
        case Once(at, delay, timezone):
            instant = None if at is None else at.astimezone(UTC).isoformat()
            return {**kind, "at": instant, "delay": _seconds(delay), "timezone": timezone}
        case Dependent(parent) | DormantDependent(parent):
            return {**kind, "parent": parent}
        case _:
            assert_never(schedule)


def schedule_from_json(data: Stored) -> Schedule:
    """Read a schedule back."""
    kind = ScheduleType(data["type"])
    match kind:
        case ScheduleType.NONE:
            return Manual()
        case ScheduleType.CRON:
            return Cron(data["expression"], data["timezone"])
        case ScheduleType.INTERVAL:
            return Interval(timedelta(seconds=data["every"]), data["timezone"])
        case ScheduleType.ONCE:
            at = None if data["at"] is None else datetime.fromisoformat(data["at"])
            return Once(at, _span(data["delay"]), data["timezone"])
        case ScheduleType.DEPENDENT:
            return Dependent(data["parent"])
        case ScheduleType.DORMANT_DEPENDENT:
            return DormantDependent(data["parent"])
        case _:
            assert_never(kind)


def parent_of(schedule: Schedule) -> str | None:
    """Name the manifest that this one waits for."""
    return schedule.parent if isinstance(schedule, Dependent | DormantDependent) else None


def _seconds(span: Timeout | None) -> float | None:
    return None if span is None else span.total_seconds()


def _span(seconds: float | None) -> timedelta | None:
    return None if seconds is None else as_span(seconds)


def timeout_to_json(timeout: Timeout | None) -> float | str | None:
    """Write a timeout; infinity has no JSON form, so that no limit is a word."""
    return NO_TIMEOUT.value if timeout is NO_TIMEOUT else _seconds(timeout)


def _timeout_from_json(stored: float | str | None) -> Timeout | None:
    return NO_TIMEOUT if isinstance(stored, str) else _span(stored)
