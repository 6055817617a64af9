from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gandy.errors import (
    CronExpressionError,
    IntervalError,
    NaiveInstantError,
    OnceError,
    ScheduleError,
    TimezoneNotFoundError,
)
from gandy.model.schedule import Cron, Interval, Once
from gandy.rules import cron as engine
from gandy.rules.schedules import cron, every, once


def test_every_adds_up_its_parts() -> None:
    assert every(weeks=1, days=1, hours=1, minutes=1, seconds=1.5) == Interval(
        timedelta(days=8, hours=1, minutes=1, seconds=1.5)
    )


@pytest.mark.parametrize("seconds", [0, -1, 0.999, float("nan"), float("inf"), 1e300, 4e9])
def test_an_interval_of_nothing_less_or_for_ever_is_refused(seconds: float) -> None:
    with pytest.raises(IntervalError, match="every"):
        every(seconds=seconds)


def test_a_cron_keeps_its_fields_in_one_spelling() -> None:
    assert cron("  0  3 * *   mon-fri ", timezone="Europe/Berlin") == Cron("0 3 * * mon-fri", "Europe/Berlin")


@pytest.mark.parametrize(
    "expression",
    [
        None,
        "",
        "* * * *",
        "* * * * * * *",
        "60 * * * *",
        "* 24 * * *",
        "*/0 * * * *",
        "5-61 * * * *",
        "@reboot",
        "0 0 31 2 *",
        "0 0 31 4,6,9,11 *",
        "0 0 30 2 */2",
        "0 0 */31 * MON#5",
        "* * * * " + ",".join("1" * 200),
        "9" * 10_000 + " * * * *",
        "a" * 1_000_000,
        "* * * * mon#9",
        "1,,2 * * * *",
    ],
)
def test_an_expression_that_cannot_be_read_or_never_matches_is_refused_at_once(expression: str) -> None:
    with pytest.raises(CronExpressionError, match="Write five fields") as caught:
        cron(expression)

    assert len(str(caught.value)) < 600


@pytest.mark.parametrize(
    "timezone", ["Mars/Olympus", "", "../etc/passwd", "/etc/localtime", "Europe", "a\0b", None]
)
def test_a_zone_that_is_not_known_is_refused_with_what_to_do(timezone: str) -> None:
    for build in (lambda: cron("* * * * *", timezone=timezone), lambda: every(hours=1, timezone=timezone)):
        with pytest.raises(TimezoneNotFoundError, match="IANA name"):
            build()


@settings(max_examples=400, deadline=None)
@given(st.text(alphabet="0123456789*/-,#L WMONSUNjan?", max_size=40))
def test_any_text_either_reads_and_comes_due_or_is_refused(text: str) -> None:
    try:
        schedule = cron(text)
    except CronExpressionError:
        return

    assert (
        engine.next_after(schedule.expression, schedule.timezone, datetime(2026, 1, 1, tzinfo=UTC))
        is not None
    )


def test_once_says_when_in_exactly_one_way() -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)

    assert once(at=at) == Once(at=at)
    assert once(delay=timedelta(minutes=5)) == Once(delay=timedelta(minutes=5))
    with pytest.raises(OnceError, match="either at="):
        once()
    with pytest.raises(OnceError, match="either at="):
        once(at=at, delay=timedelta(1))
    with pytest.raises(OnceError, match="delay must be a duration from 0s"):
        once(delay=timedelta(seconds=-1))
    with pytest.raises(NaiveInstantError):
        once(at=at.replace(tzinfo=None))


def test_every_refusal_of_a_schedule_is_one_kind_of_error() -> None:
    for wrong in (CronExpressionError, IntervalError, OnceError, TimezoneNotFoundError):
        assert issubclass(wrong, ScheduleError)
