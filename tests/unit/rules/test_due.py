from __future__ import annotations

from datetime import date, timedelta
from typing import TYPE_CHECKING, Unpack

import pytest

from gandy.model.exclusion import Dates
from gandy.model.manifest import Decision, DispatchView, Occurrence
from gandy.model.schedule import (
    Cron,
    Dependent,
    DormantDependent,
    Manual,
    MisfirePolicy,
    Once,
    Origin,
    Schedule,
    SkipReason,
)
from gandy.rules.deciding import determine
from gandy.rules.recurring import as_error
from tests.unit.rules.views import (
    EVERY_MINUTE,
    GUARDS,
    NOON,
    Changes,
    minutes,
    queued_minute,
    recurring,
    rows,
    view_of,
)

if TYPE_CHECKING:
    from gandy.model.exclusion import Exclusion

TODAY: tuple[Exclusion, ...] = (Dates.on(date(2026, 11, 16)),)
NEVER_BY_TIME = [Manual(), DormantDependent("parent"), Dependent("parent")]
SWITCHED_OFF: tuple[Changes, ...] = ({"is_enabled": False}, {"group_enabled": False}, {"is_orphaned": True})


def dependent(**changes: Unpack[Changes]) -> DispatchView:
    return view_of(Dependent("parent"), **changes)._replace(next_scheduled_run=None, parents_ended=True)


@pytest.mark.parametrize("off", SWITCHED_OFF)
@pytest.mark.parametrize("schedule", [EVERY_MINUTE, Cron("* * * * *"), Once(at=NOON), *NEVER_BY_TIME])
def test_a_manifest_that_is_switched_off_costs_nothing(off: Changes, schedule: Schedule) -> None:
    view = view_of(schedule, **off)._replace(parents_ended=True)

    assert determine(view, NOON + minutes(5)) == Decision(NOON)


@recurring
def test_enabled_again_it_gets_one_row_for_all_that_came_meanwhile(schedule: Schedule) -> None:
    view = view_of(schedule, enabled_at=NOON + minutes(100.5), exclusions=TODAY)
    decision = determine(view, NOON + minutes(100.6))

    assert rows(decision) == [(0, 100, 101, SkipReason.DISABLED)]
    assert decision.occurrence is None


@recurring
def test_what_comes_after_enabling_is_judged_as_ever(schedule: Schedule) -> None:
    decision = determine(view_of(schedule, enabled_at=NOON + minutes(10)), NOON + minutes(10))

    assert rows(decision) == [(0, 9, 10, SkipReason.DISABLED)]
    assert queued_minute(decision) == 10


def test_a_once_that_came_due_while_disabled_runs_when_enabled() -> None:
    decision = determine(view_of(Once(at=NOON), enabled_at=NOON + minutes(60)), NOON + minutes(61))

    assert queued_minute(decision) == 0


@pytest.mark.parametrize("policy", MisfirePolicy)
def test_a_once_runs_however_late_and_has_no_next_instant(policy: MisfirePolicy) -> None:
    decision = determine(view_of(Once(at=NOON), misfire_policy=policy), NOON + timedelta(days=3))

    assert queued_minute(decision) == 0
    assert decision.next_scheduled_run is None
    assert decision.next_look_at is None


@pytest.mark.parametrize(("guard", "reason"), GUARDS)
def test_a_guard_only_defers_a_once(guard: Changes, reason: SkipReason) -> None:
    assert determine(view_of(Once(at=NOON), **guard), NOON) == Decision(NOON, deferred_by=reason)


def test_an_exclusion_added_later_skips_a_once_with_a_row() -> None:
    decision = determine(view_of(Once(at=NOON), exclusions=TODAY), NOON)

    assert rows(decision) == [(0, 0, 1, SkipReason.EXCLUDED)]
    assert decision.next_scheduled_run is None


def test_a_once_is_looked_at_when_its_instant_comes() -> None:
    assert determine(view_of(Once(at=NOON)), NOON - minutes(1)).next_look_at == NOON


def test_a_dependent_follows_the_ends_of_its_parents() -> None:
    entry = Occurrence(NOON, NOON, Origin.DEPENDENT, 0)

    assert determine(dependent(), NOON) == Decision(None, occurrence=entry)


def test_without_a_new_end_of_each_parent_nothing_is_due() -> None:
    assert determine(dependent()._replace(parents_ended=False), NOON) == Decision(None)


def test_a_disabled_parent_holds_its_dependents_back() -> None:
    assert not determine(dependent(parents_enabled=False), NOON).has_verdict


@pytest.mark.parametrize(("guard", "reason"), GUARDS)
def test_a_guard_only_defers_a_dependent(guard: Changes, reason: SkipReason) -> None:
    assert determine(dependent(**guard), NOON) == Decision(None, deferred_by=reason)


def test_exclusions_do_not_apply_to_dependents() -> None:
    assert determine(dependent(exclusions=TODAY), NOON).occurrence is not None


@pytest.mark.parametrize("schedule", NEVER_BY_TIME)
def test_without_a_time_and_without_a_success_nothing_is_ever_due(schedule: Schedule) -> None:
    assert determine(view_of(schedule, next_scheduled_run=None), NOON) == Decision(None)


@pytest.mark.parametrize("schedule", [Cron("0 0 31 2 *"), Cron("* * * * *", "Mars/Olympus")])
def test_a_schedule_that_cannot_be_read_is_looked_at_later_and_says_why(schedule: Schedule) -> None:
    decision = determine(view_of(schedule), NOON)

    assert not decision.has_verdict
    assert decision.next_scheduled_run == NOON
    assert decision.next_look_at == NOON + timedelta(hours=1)
    assert decision.problem


def test_an_entry_that_cannot_be_queued_becomes_an_error_verdict_and_the_manifest_moves_on() -> None:
    decision = determine(view_of(EVERY_MINUTE), NOON)
    settled = as_error(decision)

    assert settled.occurrence is None
    assert rows(settled) == [(0, 0, 1, SkipReason.ERROR)]
    assert settled.next_scheduled_run == decision.next_scheduled_run
    assert as_error(settled) == settled
