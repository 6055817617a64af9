from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from croniter import croniter
from cronsim import CronSim
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from gandy.errors import CronExpressionError
from gandy.rules.cron import next_after, parse
from tests.unit.rules.expressions import expressions, fields, occurrences

if TYPE_CHECKING:
    from tests.unit.rules.wall_clocks import Fields

starts = st.integers(0, 73_000).map(lambda days: datetime(1971, 1, 1, tzinfo=UTC) + timedelta(days, 4711))
LONGEST = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
special_days = st.sampled_from(["L", "LW", "1,L", "15", "*/10"])
special_weekdays = st.sampled_from(["MON#1", "5L", "FRI#5", "0", "7", "1-5", "SUN,WED", "*", "*/2"])


def possible(text: str) -> bool:
    try:
        parse(text)
    except CronExpressionError:
        return False
    return True


@settings(max_examples=300, deadline=None)
@given(expressions(), starts)
def test_croniter_finds_the_same_instants_in_utc(expression: Fields, start: datetime) -> None:
    assume(possible(expression.text))
    # "0 0 30 2 mon" means the Mondays of February; croniter gives up because of the 30th.
    assume(min(expression.days) <= max(LONGEST[month - 1] for month in expression.months))
    # Around clock changes croniter fires twice in the repeated hour: there the minute walk is the judge.
    other = croniter(expression.text, start, implement_cron_bug=True, max_years_between_matches=50)
    ours = occurrences(expression.text, "UTC", start)

    for _ in range(4):
        assert next(ours) == other.get_next(datetime)


@settings(max_examples=300, deadline=None)
@given(fields(0, 59), fields(0, 59), special_days, special_weekdays, starts)
def test_the_special_words_of_cronsim_are_read_as_it_reads_them(
    second: tuple[str, frozenset[int]],
    minute: tuple[str, frozenset[int]],
    day: str,
    weekday: str,
    start: datetime,
) -> None:
    text = f"{second[0]} {minute[0]} 4,16 {day} * {weekday}"
    assume(possible(text))
    theirs, ours = CronSim(text, start), occurrences(text, "UTC", start)

    for _ in range(4):
        assert next(ours) == next(theirs)


def test_the_rarest_date_lies_within_the_horizon() -> None:
    answer = next_after("0 0 29 2 */7", "UTC", datetime(2088, 3, 1, tzinfo=UTC))

    assert answer == datetime(2128, 2, 29, tzinfo=UTC)
    assert answer.weekday() == 6


def test_a_zone_with_seconds_in_its_offset_keeps_whole_local_minutes() -> None:
    start = datetime(1880, 1, 1, tzinfo=UTC)
    answer = next_after("*/15 * * * *", "Europe/Berlin", start)

    assert answer is not None
    assert answer - start == timedelta(minutes=6, seconds=32)
