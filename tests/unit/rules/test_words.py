from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gandy import cron
from gandy.errors import CronExpressionError
from gandy.rules.cron import plain_expression
from gandy.settings.bounds import LONGEST_EXPRESSION
from tests.unit.rules.expressions import occurrences

START = datetime(2026, 2, 27, 23, 59, 30, tzinfo=UTC)
DAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
#: By the position in an expression of five fields: the smallest and the largest value.
FIELDS = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 6))
OTHERS = ("0", "0", "*", "*", "*")


@pytest.mark.parametrize(
    ("word", "first"),
    [
        ("@hourly", datetime(2026, 2, 28, tzinfo=UTC)),
        ("@daily", datetime(2026, 2, 28, tzinfo=UTC)),
        ("@midnight", datetime(2026, 2, 28, tzinfo=UTC)),
        ("@weekly", datetime(2026, 3, 1, tzinfo=UTC)),
        ("@monthly", datetime(2026, 3, 1, tzinfo=UTC)),
        ("@yearly", datetime(2027, 1, 1, tzinfo=UTC)),
        ("@annually", datetime(2027, 1, 1, tzinfo=UTC)),
        (" @Daily ", datetime(2026, 2, 28, tzinfo=UTC)),
    ],
)
def test_a_nickname_is_five_fields(word: str, first: datetime) -> None:
    schedule = cron(word)

    assert len(schedule.expression.split()) == 5, "what is stored, every version reads"
    assert next(occurrences(schedule.expression, "UTC", START)) == first


@pytest.mark.parametrize(
    ("word", "said"),
    [("@reboot", "schedule_once"), ("@fortnightly", "@weekly"), ("@", "@weekly"), ("@daily 3", "@daily")],
)
def test_another_nickname_is_refused_with_a_word(word: str, said: str) -> None:
    with pytest.raises(CronExpressionError, match=said):
        cron(word)


def walked(start: int, end: int, step: int, bounds: tuple[int, int]) -> set[int]:
    """Walk from one value to the other, round the end of the field, and take every step-th value."""
    values, at = [], start
    while True:
        values.append(at)
        if at == end:
            return set(values[::step])
        at = bounds[0] if at == bounds[1] else at + 1


fields = st.integers(0, len(FIELDS) - 1)
ranges = fields.flatmap(lambda field: st.tuples(st.just(field), *[st.integers(*FIELDS[field])] * 2))


@settings(max_examples=150, deadline=None)
@given(ranges, st.integers(1, 6))
def test_a_range_goes_on_at_the_other_end_of_its_field(drawn: tuple[int, int, int], step: int) -> None:
    field, start, end = drawn
    if end == start:
        return
    written = f"{start}-{end}" + (f"/{step}" if step > 1 else "")
    values = ",".join(map(str, sorted(walked(start, end, step, FIELDS[field]))))
    ours, plain = (" ".join((*OTHERS[:field], text, *OTHERS[field + 1 :])) for text in (written, values))

    schedule = cron(ours)

    found = list(islice(occurrences(schedule.expression, "UTC", START), 40))
    assert found == list(islice(occurrences(plain, "UTC", START), 40))


@pytest.mark.parametrize(
    ("written", "plain"),
    [
        ("0 22-2 * * *", "0 22-23,0-2 * * *"),
        ("0 3 * * FRI-MON", "0 3 * * 5-6,0-1"),
        ("0 3 * * fri-sun", "0 3 * * 5-6,0"),
        ("0 3 * * 7-2", "0 3 * * 0-2"),
        ("0 3 * * 5-7", "0 3 * * 5-7"),
        ("0 3 * nov-feb *", "0 3 * 11-12,1-2 *"),
        ("50-10/5 * * * * *", "50-59/5,0-10/5 * * * * *"),
        ("0 23-1/2 * * *", "0 23,1 * * *"),
        ("0 1,20-4,6 * * *", "0 1,20-23,0-4,6 * * *"),
    ],
)
def test_what_wraps_is_cut_in_two_and_nothing_else_changes(written: str, plain: str) -> None:
    assert plain_expression(written) == plain


@pytest.mark.parametrize(
    "wrong", ["0 30-2 * * *", "0 3 * * 8-2", "60-5 * * * *", "0 22-2/0 * * *", "0 3 32-5 * *"]
)
def test_a_range_of_values_that_do_not_exist_is_still_refused(wrong: str) -> None:
    with pytest.raises(CronExpressionError):
        cron(wrong)


def test_days_of_a_wrapping_week_are_the_days_that_are_named() -> None:
    found = list(islice(occurrences(cron("0 3 * * FRI-MON").expression, "UTC", START), 30))

    assert {at.strftime("%a").upper() for at in found} == {"FRI", "SAT", "SUN", "MON"}
    assert all(late - early <= timedelta(days=4) for early, late in pairwise(found))


def test_the_longest_expression_is_one_number() -> None:
    longest = "0 0 * * " + ",".join(["1"] * 121)
    assert len(longest) == LONGEST_EXPRESSION - 1
    assert cron(longest + " ").expression == longest

    with pytest.raises(CronExpressionError, match=f"{LONGEST_EXPRESSION} characters"):
        cron(longest + ",1")
    with pytest.raises(CronExpressionError, match="are split"):
        cron("0 22-2 * * " + ",".join(["1"] * 119))
