from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gandy.errors import DurationFormatError
from gandy.settings import format_duration, parse_duration


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("250ms", timedelta(milliseconds=250)),
        ("90s", timedelta(seconds=90)),
        ("30m", timedelta(minutes=30)),
        ("1h30m", timedelta(hours=1, minutes=30)),
        ("7d", timedelta(days=7)),
        ("2w", timedelta(weeks=2)),
        (" 1h 30m ", timedelta(hours=1, minutes=30)),
        ("0s", timedelta()),
        ("1m1ms", timedelta(minutes=1, milliseconds=1)),
    ],
)
def test_a_duration_reads_as_people_write_it(text: str, span: timedelta) -> None:
    assert parse_duration(text) == span


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("30", "has no unit; write 30s or 30m"),
        ("-5s", "is negative"),
        ("", "is not a duration such as"),
        ("soon", "is not a duration such as"),
        ("30m1h", "is not a duration such as"),
        ("1h1h", "is not a duration such as"),
        ("1.5h", "is not a duration such as"),
        ("٣s", "is not a duration such as"),
        ("99999999999w", "is longer than any duration can be"),
        ("9" * 5000 + "s", "is longer than any duration can be"),
    ],
)
def test_what_is_no_duration_is_refused_with_the_reason(text: str, problem: str) -> None:
    with pytest.raises(DurationFormatError) as refused:
        parse_duration(text)

    assert refused.value.problem.startswith(problem)
    assert refused.value.text == text


@settings(max_examples=500)
@given(st.timedeltas(min_value=timedelta()))
def test_a_written_duration_reads_back_the_same(span: timedelta) -> None:
    assert parse_duration(format_duration(span)) == span


@settings(max_examples=500)
@given(st.text(alphabet="0123456789wdhmsu .-", max_size=12))
def test_any_text_is_read_or_refused_and_nothing_else(text: str) -> None:
    try:
        span = parse_duration(text)
    except DurationFormatError:
        return

    assert span >= timedelta()


@pytest.mark.parametrize(
    ("span", "text"),
    [
        (timedelta(days=14), "2w"),
        (timedelta(days=8), "8d"),
        (timedelta(seconds=90), "1m30s"),
        (timedelta(), "0s"),
        (timedelta(seconds=-5), "-5s"),
    ],
)
def test_a_duration_is_written_with_the_units_a_person_would_take(span: timedelta, text: str) -> None:
    assert format_duration(span) == text
