"""What an operator may set over the declared values of a manifest, checked before it is stored."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gandy.errors import OverrideError
from gandy.model import exclusion as exclusion_json
from gandy.model.schedule import Interval
from gandy.rules.schedules import cron
from gandy.rules.zones import zone
from gandy.settings.bounds import BOUNDS, problems_of
from gandy.store.declared import schedule_to_json, timeout_to_json

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from gandy.model.exclusion import Exclusion
    from gandy.model.schedule import Cron, Manual, MisfirePolicy
    from gandy.settings.bounds import Timeout


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestChanges:
    """None leaves a value as it is."""

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
    next_at: datetime | None = None  #: the next instant, put right by hand


def replaced_schedule(
    expression: str | None, rate: timedelta | None, timezone: str | None
) -> Cron | Interval | None:
    """Make the schedule that a person asked for; None: it stays as it is."""
    if expression is not None and rate is not None:
        raise OverrideError("schedule", "cron and every exclude each other")
    if expression is not None:
        return cron(expression, timezone or "UTC")
    if rate is not None:
        zone(timezone or "UTC")  # refuses what is no zone
        if not BOUNDS["every"].holds(rate):
            raise OverrideError("every", BOUNDS["every"].refusal(rate))
        return Interval(rate, timezone or "UTC")
    if timezone is not None:
        raise OverrideError("timezone", "belongs to cron or every; give one of them, too")
    return None


def override_values(changes: ManifestChanges) -> dict[str, object]:
    """Write the given values as they are stored; nothing given is a mistake."""
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
    if changes.input_json is not None:  # null is an input, too
        given["input"] = json.loads(changes.input_json)
    if not given and changes.next_at is None:
        raise OverrideError("set", "nothing to set; name at least one value")
    return given


def _seconds(span: timedelta | None) -> float | None:
    return None if span is None else span.total_seconds()
