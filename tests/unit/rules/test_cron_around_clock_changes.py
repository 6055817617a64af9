from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import takewhile
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gandy.rules.cron import count_between, last_between, next_after
from tests.unit.rules.expressions import expressions, occurrences
from tests.unit.rules.wall_clocks import CHANGES, Fields, brute_force, walk, window

MOMENT = timedelta(microseconds=1)
PARTS = {
    "*": range(60),
    "*/20": (0, 20, 40),
    "15,45": (15, 45),
    "0-3": range(4),
    "1-23/2": range(1, 24, 2),
}
TELLING = (
    "30 2 * * *",
    "0 0 * * *",
    "15,45 0-3 * * *",
    "*/20 2 * * *",
    "7 * * * *",
    "0 1-23/2 * * *",
    "59 23 * * *",
)


def fields_of(text: str) -> Fields:
    minute, hour = (frozenset(PARTS.get(part) or [int(part)]) for part in text.split()[:2])
    return Fields(text, minute, hour, frozenset(range(1, 32)), frozenset(range(1, 13)), frozenset(range(7)))


def found(text: str, zone: str, day: str) -> list[datetime]:
    start, end = window(day)
    return list(takewhile(lambda at: at <= end, occurrences(text, zone, start)))


@pytest.mark.parametrize(("zone", "day"), CHANGES)
def test_every_listed_day_really_changes_the_clock(zone: str, day: str) -> None:
    offsets = {wall - at.replace(tzinfo=None) for at, wall in walk(zone, day)}

    assert len(offsets) == 2


@pytest.mark.parametrize(("zone", "day"), CHANGES)
@pytest.mark.parametrize("text", TELLING)
def test_telling_expressions_agree_with_a_minute_walk(zone: str, day: str, text: str) -> None:
    expected = brute_force(fields_of(text), zone, day)

    assert expected
    assert found(text, zone, day) == expected


@settings(max_examples=400, deadline=None)
@given(expressions(), st.sampled_from(CHANGES))
def test_any_expression_agrees_with_a_minute_walk(fields: Fields, change: tuple[str, str]) -> None:
    try:
        actual = found(fields.text, *change)
    except ValueError:  # no date ever matches: the walk must find none either
        actual = []

    assert actual == brute_force(fields, *change)


@settings(max_examples=400, deadline=None)
@given(expressions(any_day=True), st.sampled_from(CHANGES), st.data())
def test_counting_and_looking_back_agree_with_walking(
    fields: Fields, change: tuple[str, str], data: st.DataObject
) -> None:
    start, end = window(change[1])
    seconds = st.integers(60, int((end - start).total_seconds()))
    since, until = sorted(start + timedelta(seconds=data.draw(seconds)) for _ in range(2))
    walked = [at for at in brute_force(fields, *change) if since <= at <= until]

    assert count_between(fields.text, change[0], since=since, until=until) == len(walked)
    assert last_between(fields.text, change[0], since=since, until=until) == (walked[-1] if walked else None)


@settings(max_examples=300, deadline=None)
@given(expressions(any_day=True), st.sampled_from(CHANGES), st.data())
def test_an_answer_is_never_in_the_past_wherever_the_question_is_asked(
    fields: Fields, change: tuple[str, str], data: st.DataObject
) -> None:
    start, end = window(change[1])
    asked = start + timedelta(
        microseconds=data.draw(st.integers(0, (end - start) // timedelta(microseconds=1)))
    )
    answer = next_after(fields.text, change[0], asked)

    assert answer is not None
    assert answer > asked
    assert count_between(fields.text, change[0], since=asked + MOMENT, until=answer) == 1


def berlin(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def test_a_time_in_the_gap_runs_at_the_first_instant_after_it() -> None:
    answer = next_after("30 2 * * *", "Europe/Berlin", berlin("2026-03-29T01:00+01:00"))

    assert answer == berlin("2026-03-29T03:00+02:00")


def test_several_times_in_the_gap_are_one_occurrence() -> None:
    start = berlin("2026-03-29T01:00+01:00")
    after = occurrences("0,10,50 2-3 * * *", "Europe/Berlin", start)

    assert [next(after) for _ in range(3)] == [
        berlin(f"2026-03-29T03:{minute}+02:00") for minute in ("00", "10", "50")
    ]


def test_a_time_that_exists_twice_runs_once_also_when_asked_from_inside_the_repetition() -> None:
    inside = berlin("2026-10-25T02:10+01:00")
    answer = next_after("30 2 * * *", "Europe/Berlin", inside)

    assert inside.astimezone(ZoneInfo("Europe/Berlin")).fold == 1
    assert answer == berlin("2026-10-26T02:30+01:00")


def test_a_star_in_the_hour_goes_on_through_both_hours() -> None:
    start = berlin("2026-10-25T01:59+02:00")
    after = occurrences("30 * * * *", "Europe/Berlin", start)

    assert [next(after) for _ in range(3)] == [
        berlin("2026-10-25T02:30+02:00"),
        berlin("2026-10-25T02:30+01:00"),
        berlin("2026-10-25T03:30+01:00"),
    ]


def test_a_star_in_the_minute_leaves_out_an_hour_that_does_not_exist() -> None:
    answer = next_after("*/30 2 * * *", "Europe/Berlin", berlin("2026-03-29T01:00+01:00"))

    assert answer == berlin("2026-03-30T02:00+02:00")


def test_seconds_do_not_change_how_a_fixed_time_meets_the_gap() -> None:
    start = berlin("2026-03-29T01:00+01:00")
    after = occurrences("*/20 30 2 * * *", "Europe/Berlin", start)

    assert [next(after), next(after)] == [berlin("2026-03-29T03:00+02:00"), berlin("2026-03-30T02:30+02:00")]


def test_seconds_of_a_fixed_minute_run_in_the_first_of_two_hours_only() -> None:
    start = berlin("2026-10-25T02:29+02:00")
    after = occurrences("*/30 30 2 * * *", "Europe/Berlin", start)

    assert [next(after) for _ in range(3)] == [
        berlin("2026-10-25T02:30:00+02:00"),
        berlin("2026-10-25T02:30:30+02:00"),
        berlin("2026-10-26T02:30:00+01:00"),
    ]


def test_a_day_that_a_zone_left_out_runs_when_the_next_one_begins() -> None:
    answer = next_after("0 12 30 12 *", "Pacific/Apia", datetime(2011, 12, 1, tzinfo=UTC))

    assert answer is not None
    assert answer.astimezone(ZoneInfo("Pacific/Apia")).isoformat() == "2011-12-31T00:00:00+14:00"
