from __future__ import annotations

from datetime import UTC, datetime, time, timedelta
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gandy.errors import CronExpressionError
from gandy.model.exclusion import Days, Exclusion, TimeWindow
from gandy.model.schedule import Cron, Dependent, Interval, Manual, MisfirePolicy, Once, Schedule, SkipReason
from gandy.rules.deciding import determine
from gandy.rules.preview import preview
from gandy.rules.schedules import first_cursor
from tests.unit.rules.views import EVERY_MINUTE, NOON, Changes, minutes, view_of
from tests.unit.rules.wall_clocks import CHANGES, window

SCHEDULES: list[Schedule] = [
    EVERY_MINUTE,
    Interval(timedelta(hours=7)),
    Cron("30 2 * * *", "Europe/Berlin"),
    Cron("*/20 1-3 * * *", "Europe/Berlin"),
    Cron("0 9 * * mon-fri", "Australia/Lord_Howe"),
    Once(at=NOON + minutes(5)),
]
EXCLUSIONS: list[tuple[Exclusion, ...]] = [
    (),
    (Days.on("sun"),),
    (TimeWindow(time(2), time(3)), Days.on("tue")),
]


@settings(max_examples=400, deadline=None)
@given(
    st.sampled_from(SCHEDULES),
    st.sampled_from(EXCLUSIONS),
    st.sampled_from([timedelta(0), timedelta(minutes=30)]),
    st.sampled_from(CHANGES),
)
def test_what_is_listed_is_what_runs(
    schedule: Schedule, exclusions: tuple[Exclusion, ...], variance: timedelta, change: tuple[str, str]
) -> None:
    now = window(change[1])[0]
    view = view_of(
        schedule, next_scheduled_run=first_cursor(schedule, now), exclusions=exclusions, variance=variance
    )

    for upcoming in preview(view, now, 12):
        decision = determine(view, upcoming.due_at)
        if upcoming.is_excluded:
            assert [(row.due_at, row.reason) for row in decision.skipped] == [
                (upcoming.due_at, SkipReason.EXCLUDED)
            ]
        else:
            assert decision.occurrence is not None
            assert decision.occurrence.due_at == upcoming.due_at
            assert decision.occurrence.scheduled_at == upcoming.scheduled_at
        view = view._replace(next_scheduled_run=decision.next_scheduled_run)


def test_it_lists_as_many_as_asked_and_never_without_end() -> None:
    assert len(preview(view_of(EVERY_MINUTE), NOON, 5)) == 5
    assert len(preview(view_of(EVERY_MINUTE), NOON, 10**9)) == 1000
    assert preview(view_of(EVERY_MINUTE), NOON, 0) == []


def test_a_clock_change_is_marked_where_it_first_shows() -> None:
    now = datetime(2026, 10, 24, 12, tzinfo=UTC)
    view = view_of(
        Cron("0 3 * * *", "Europe/Berlin"), next_scheduled_run=datetime(2026, 10, 25, 2, tzinfo=UTC)
    )
    listed = preview(view, now, 2)

    assert [upcoming.is_offset_changed for upcoming in listed] == [True, False]
    assert [upcoming.utc_offset for upcoming in listed] == [timedelta(hours=1)] * 2


@pytest.mark.parametrize("schedule", [Manual(), Dependent("parent")])
def test_what_no_clock_decides_lists_nothing(schedule: Schedule) -> None:
    assert preview(view_of(schedule, next_scheduled_run=None), NOON, 5) == []


def test_a_once_is_listed_until_it_is_decided() -> None:
    view = view_of(Once(at=NOON + minutes(1)), next_scheduled_run=NOON + minutes(1))

    assert [upcoming.due_at for upcoming in preview(view, NOON, 5)] == [NOON + minutes(1)]
    assert preview(view._replace(next_scheduled_run=None), NOON, 5) == []


def test_a_backlog_to_catch_up_is_listed_oldest_first() -> None:
    view = view_of(EVERY_MINUTE, misfire_policy=MisfirePolicy.CATCH_UP, has_active_execution=True)
    listed = [upcoming.due_at for upcoming in preview(view, NOON + minutes(3.5), 5)]

    assert listed == [NOON + minutes(number) for number in range(5)]


@pytest.mark.parametrize(
    "off", [Changes(is_enabled=False), Changes(group_enabled=False), Changes(is_orphaned=True)]
)
def test_a_disabled_manifest_lists_what_would_come_if_it_were_enabled_now(off: Changes) -> None:
    listed = preview(view_of(EVERY_MINUTE, **off), NOON + minutes(3.5), 2)

    assert [upcoming.due_at for upcoming in listed] == [NOON + minutes(4), NOON + minutes(5)]


@pytest.mark.parametrize("policy", MisfirePolicy)
@pytest.mark.parametrize("schedule", [EVERY_MINUTE, Cron("* * * * *")])
def test_a_parked_manifest_lists_what_would_come_if_its_letter_were_resolved_now(
    schedule: Schedule, policy: MisfirePolicy
) -> None:
    view = view_of(schedule, has_awaiting_dead_letter=True, misfire_policy=policy)

    assert [each.due_at for each in preview(view, NOON + minutes(90.5), 2)] == [
        NOON + minutes(91),
        NOON + minutes(92),
    ]


def test_a_schedule_that_cannot_be_read_is_an_error_and_not_an_endless_list() -> None:
    with pytest.raises(CronExpressionError):
        preview(view_of(Cron("0 0 31 2 *")), NOON, 5)


@pytest.mark.parametrize("exclusions", EXCLUSIONS, ids=["none", "a day", "a window and a day"])
@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda schedule: f"{schedule}"[:40])
@pytest.mark.parametrize(
    "at", ["9998-12-30T12:00Z", "9998-12-31T23:59Z", "9999-06-01T00:00Z", "9999-12-31T23:59:59Z"]
)
def test_the_end_of_the_calendar_is_an_end_and_no_error(
    schedule: Schedule, exclusions: tuple[Exclusion, ...], at: str
) -> None:
    now = datetime.fromisoformat(at)
    for policy, variance in product(MisfirePolicy, (timedelta(0), timedelta(hours=1))):
        view = view_of(schedule, next_scheduled_run=now, exclusions=exclusions, misfire_policy=policy)

        upcoming = preview(view._replace(variance=variance), now, 1_000)

        listed = [each.due_at for each in upcoming]
        assert listed == sorted(set(listed))
        assert all(each.scheduled_at >= each.due_at for each in upcoming)
