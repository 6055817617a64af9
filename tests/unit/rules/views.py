"""Views of a manifest for tests, with everything switched on and nothing in the way."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, TypedDict, Unpack

import pytest

from gandy.model.manifest import Decision, DispatchView
from gandy.model.schedule import Cron, Interval, MisfirePolicy, Schedule, SkipReason

if TYPE_CHECKING:
    from gandy.model.exclusion import Exclusion


class Changes(TypedDict, total=False):
    """What a test may set on a view."""

    next_scheduled_run: datetime | None
    priority: int | None
    group_priority: int
    exclusions: tuple[Exclusion, ...]
    variance: timedelta
    misfire_policy: MisfirePolicy
    misfire_threshold: timedelta
    is_enabled: bool
    group_enabled: bool
    is_orphaned: bool
    enabled_at: datetime | None
    deferred_since: datetime | None
    last_skip: SkipReason | None
    failed_count: int
    has_awaiting_dead_letter: bool
    is_dead_lettered_now: bool
    has_queued_work: bool
    has_active_execution: bool
    completed_at: datetime | None
    parents_enabled: bool
    parents_ended: bool


NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)  # a Monday
EVERY_MINUTE = Interval(timedelta(minutes=1))


def minutes(count: float) -> timedelta:
    return timedelta(minutes=count)


def view_of(schedule: Schedule, **changes: Unpack[Changes]) -> DispatchView:
    changes.setdefault("next_scheduled_run", NOON)
    return DispatchView(7, "billing", "shop", "SendInvoice", 3, schedule, **changes)


GUARDS: list[tuple[Changes, SkipReason]] = [
    ({"is_dead_lettered_now": True}, SkipReason.DEAD_LETTER),
    ({"has_awaiting_dead_letter": True}, SkipReason.DEAD_LETTER),
    ({"has_queued_work": True}, SkipReason.ALREADY_QUEUED),
    ({"has_active_execution": True}, SkipReason.ACTIVE),
]
LETTERS = [guard for guard, reason in GUARDS if reason is SkipReason.DEAD_LETTER]
PASSING_GUARDS = [guard for guard in GUARDS if guard[1] is not SkipReason.DEAD_LETTER]

recurring = pytest.mark.parametrize("schedule", [EVERY_MINUTE, Cron("* * * * *")], ids=["interval", "cron"])


def rows(decision: Decision) -> list[tuple[float, float, int, SkipReason]]:
    """The skipped rows, with minutes after noon instead of instants."""
    return [
        ((row.due_at - NOON) / minutes(1), (row.due_until - NOON) / minutes(1), row.occurrences, row.reason)
        for row in decision.skipped
    ]


def queued_minute(decision: Decision) -> float | None:
    """The minute after noon that was queued."""
    return None if decision.occurrence is None else (decision.occurrence.due_at - NOON) / minutes(1)
