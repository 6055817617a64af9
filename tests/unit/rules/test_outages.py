from __future__ import annotations

from datetime import timedelta
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gandy.model.exclusion import TimeWindow
from gandy.model.schedule import Cron, Interval, MisfirePolicy
from gandy.rules.ending import with_jitter
from gandy.rules.recurring import Rhythm, is_denser
from tests.unit.rules.outage import Job, as_decided, as_written
from tests.unit.rules.views import NOON, minutes

PERIODS = (5, 60, 299, 300, 301, 420, 900, 3_599, 7_200)
DELAYS = (0, 1, 30, 300, 1_800, 7_200)
LIMITS = (1, 2, 3, 5)


@pytest.mark.parametrize("misfire", list(MisfirePolicy))
@pytest.mark.parametrize("delay", DELAYS)
def test_an_outage_goes_as_the_rule_is_written(delay: int, misfire: MisfirePolicy) -> None:
    for period, limit in product(PERIODS, LIMITS):
        job = Job(period, delay, limit, misfire)
        until = max(4 * period, 4 * 3_600) if period > 5 else 1_200

        assert as_decided(job, until=until) == as_written(job, until=until), job


@settings(max_examples=200)
@given(st.integers(1, 9_000), st.integers(0, 9_000), st.integers(1, 6), st.sampled_from(list(MisfirePolicy)))
def test_any_outage_goes_as_the_rule_is_written(
    period: int, delay: int, limit: int, misfire: MisfirePolicy
) -> None:
    job = Job(period, delay, limit, misfire)

    assert as_decided(job, until=200 * period) == as_written(job, until=200 * period)


def test_five_seconds_apart_neither_silent_for_minutes_nor_parked_by_seconds() -> None:
    story = as_decided(Job(period=5, delay=300, limit=3), until=2_000)

    assert story.runs == list(range(0, 900, 5))
    assert story.skipped == []
    assert story.parked == 900


def test_a_retry_that_waits_keeps_its_delay() -> None:
    story = as_decided(Job(period=420, delay=300, limit=3), until=2_000)

    assert story.runs[:2] == [0, 300]


BERLIN = "Europe/Berlin"
NIGHT = (TimeWindow((NOON + minutes(30)).time(), NOON.replace(hour=5).time()),)


@pytest.mark.parametrize(
    ("schedule", "cursor", "now", "is_short"),
    [
        (Cron("* * * * *"), 1, 0.5, True),
        (Cron("*/20 * * * *"), 20, 0.5, False),
        (Cron("0-5 * * * *"), 5, 4.5, True),
        (Cron("0-5 * * * *"), 60, 5.5, False),
        (Cron("0-5 * * * *"), 5, 5.5, True),
        (Cron("0 12 * * *"), 24 * 60, 0.5, False),
        (Cron("* * * * *", BERLIN), 1, 0.5, True),
        (Interval(minutes(4)), 4, 0.5, True),
        (Interval(minutes(10)), 10, 9.5, False),
        (Cron("not an expression"), 1, 0.5, False),
    ],
)
def test_the_period_is_the_gap_between_the_instants_around_now(
    schedule: Cron | Interval, cursor: float, now: float, *, is_short: bool
) -> None:
    rhythm = Rhythm(schedule, (), NOON + minutes(cursor), NOON + minutes(now), NOON)

    assert is_denser(rhythm, minutes(10)) is is_short


@pytest.mark.parametrize(("now", "is_short"), [(10.5, True), (29.5, False), (30.5, False)])
def test_excluded_instants_are_no_retries(now: float, *, is_short: bool) -> None:
    for schedule in (Interval(minutes(1)), Cron("* * * * *")):
        rhythm = Rhythm(schedule, NIGHT, NOON + minutes(int(now) + 1), NOON + minutes(now), NOON)

        assert is_denser(rhythm, minutes(10)) is is_short


@settings(max_examples=300)
@given(st.timedeltas(timedelta(0), timedelta(days=3_650)), st.integers(1, 2**63 - 1), st.floats(0, 1))
def test_jitter_only_adds_and_is_bounded(delay: timedelta, run_id: int, share: float) -> None:
    jittered = with_jitter(delay, run_id, share)

    assert delay <= jittered <= delay + delay * share
    assert jittered == with_jitter(delay, run_id, share)


def test_jitter_spreads_what_failed_together() -> None:
    delays = [with_jitter(minutes(5), run_id, 0.1) for run_id in range(1_000)]

    tenths = {int((delay - minutes(5)) / timedelta(seconds=3)) for delay in delays}
    assert tenths == set(range(10))


def test_the_table_of_the_how_to_is_what_the_rule_gives() -> None:
    page = Path("docs/how-to/retry-and-dead-letters.md").read_text()

    for line in table():
        assert line in page


def table() -> list[str]:
    """What an outage does to jobs of several periods, with the settings as they come."""
    head = ["| every | attempts | the longest pause | parked after |", "|---|---|---|---|"]
    return head + [_row(word, period) for word, period in OUTAGES.items()]


OUTAGES = {"5s": 5, "1m": 60, "4m": 240, "5m": 300, "10m": 600, "1h": 3_600, "1d": 86_400}


def _row(word: str, period: int) -> str:
    story = as_written(Job(period, delay=300, limit=3), until=200_000)
    pauses = [late - early for early, late in zip(story.runs, story.runs[1:], strict=False)]
    assert story.parked is not None
    return f"| {word} | {len(story.runs)} | {_span(max(pauses))} | {_span(story.parked)} |"


def _span(seconds: int) -> str:
    return f"{seconds}s" if seconds < 60 else f"{seconds // 60}m"
