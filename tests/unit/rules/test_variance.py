from __future__ import annotations

from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from gandy.rules.timetable import scheduled_at
from tests.unit.rules.views import NOON

spans = st.integers(1, 10**11).map(lambda micro: timedelta(microseconds=micro))


@settings(max_examples=300)
@given(st.text(max_size=20), st.integers(0, 10**8), spans)
def test_jitter_lies_between_nothing_and_the_variance(name: str, minute: int, variance: timedelta) -> None:
    due_at = NOON + timedelta(seconds=minute)
    start = scheduled_at(name, due_at, variance, next_due_at=None)

    assert timedelta(0) <= start - due_at <= variance


@settings(max_examples=300)
@given(st.text(max_size=20), spans, spans)
def test_jitter_never_reaches_the_next_instant(name: str, variance: timedelta, gap: timedelta) -> None:
    start = scheduled_at(name, NOON, variance, next_due_at=NOON + gap)

    assert NOON <= start < NOON + gap


def test_jitter_is_the_same_on_every_server_and_after_every_restart() -> None:
    start = scheduled_at("billing", NOON, timedelta(hours=1), next_due_at=None)

    assert start - NOON == timedelta(minutes=53, seconds=29, microseconds=831842)


def test_jitter_spreads_manifests_and_instants() -> None:
    hour = timedelta(hours=1)
    by_name = {scheduled_at(f"job-{number}", NOON, hour, next_due_at=None) for number in range(200)}
    by_instant = {
        scheduled_at("job", NOON + number * hour, hour, next_due_at=None) - number * hour
        for number in range(200)
    }

    assert len(by_name) == len(by_instant) == 200
    assert min(by_name) < NOON + hour / 10
    assert max(by_name) > NOON + hour * 9 / 10


def test_without_variance_an_instant_stays_where_it_is() -> None:
    assert scheduled_at("billing", NOON, timedelta(0), next_due_at=None) == NOON
