"""Random cron expressions, as text together with the sets that they stand for."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hypothesis import strategies as st

from gandy.rules.cron import next_after
from tests.unit.rules.wall_clocks import Fields

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime


def occurrences(expression: str, timezone: str, after: datetime) -> Iterator[datetime]:
    """Walk the occurrences after an instant."""
    found = next_after(expression, timezone, after)
    while found is not None:
        yield found
        found = next_after(expression, timezone, found)


class Field(NamedTuple):
    text: str
    values: frozenset[int]


@st.composite
def fields(draw: st.DrawFn, low: int, high: int, *, steps_from_star: bool = True) -> Field:
    kinds = ["star", "value", "list", "range", "stepped range"] + (
        ["stepped star"] if steps_from_star else []
    )
    kind = draw(st.sampled_from(kinds))
    everything = range(low, high + 1)
    if kind == "star":
        return Field("*", frozenset(everything))
    if kind == "stepped star":
        step = draw(st.integers(2, high))
        return Field(f"*/{step}", frozenset(everything[::step]))
    if kind in {"value", "list"}:
        values = draw(st.sets(st.integers(low, high), min_size=1, max_size=1 if kind == "value" else 6))
        return Field(",".join(map(str, sorted(values))), frozenset(values))
    # A range of one value is left out: croniter reads 11-11 as every hour.
    first = draw(st.integers(low, high - 1))
    last = draw(st.integers(first + 1, high))
    step = draw(st.integers(2, 12)) if kind == "stepped range" else 1
    text = f"{first}-{last}" + (f"/{step}" if step > 1 else "")
    return Field(text, frozenset(range(first, last + 1, step)))


@st.composite
def expressions(draw: st.DrawFn, *, any_day: bool = False) -> Fields:
    minute, hour = draw(fields(0, 59)), draw(fields(0, 23))
    day = Field("*", frozenset(range(1, 32))) if any_day else draw(fields(1, 31))
    month = Field("*", frozenset(range(1, 13))) if any_day else draw(fields(1, 12))
    weekday = Field("*", frozenset(range(7))) if any_day else draw(fields(0, 6))
    parts = (minute, hour, day, month, weekday)
    return Fields(" ".join(part.text for part in parts), *(part.values for part in parts))
