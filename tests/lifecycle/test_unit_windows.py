"""The windows of the units: a number is an instant of one unit, or of none."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gandy.lifecycle.database.instants import WINDOWS, Form, InstantKind, kind_of_number, read_instant

LARGEST = 2**63 - 1


@given(value=st.integers(-(2**63), 2**63 - 1))
def test_a_number_fits_one_unit_at_most(value: int) -> None:
    fitting = [kind for kind, window in WINDOWS.items() if window.holds(value)]

    assert len(fitting) <= 1
    assert kind_of_number(value) == (fitting[0] if fitting else None)


@given(
    at=st.datetimes(min_value=datetime(1990, 1, 2), max_value=datetime(2100, 12, 31)),  # noqa: DTZ001
    kind=st.sampled_from(list(WINDOWS)),
)
def test_an_instant_is_written_and_read_back_in_every_unit(at: datetime, kind: InstantKind) -> None:
    instant = at.replace(tzinfo=UTC)
    written = WINDOWS[kind].number(instant)

    read = read_instant(written, Form(kind))

    assert kind_of_number(written) is kind
    assert read is not None
    assert read <= instant
    span = timedelta(days=2) if kind is InstantKind.DAY_NUMBER else timedelta(seconds=1)
    assert instant - read < span


@pytest.mark.parametrize("kind", [*WINDOWS, InstantKind.UNKNOWN])
def test_a_value_that_is_no_instant_reads_as_none(kind: InstantKind) -> None:
    values = [0, -1, LARGEST, float("nan"), float("inf"), Decimal("NaN"), "x", None]

    assert {read_instant(value, Form(kind)) for value in values} == {None}
