"""Small charts: what is drawn is right, and on the right scale."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from gandy.desk.growth import SizeSample
from gandy.desk.runs import JunctionRun
from gandy.web.measures.sparklines import duration_line, growth_line, run_bars
from gandy.web.rendering import size, span
from gandy.web.runs import waterfall_of

if TYPE_CHECKING:
    from gandy.desk.runs import RunDetail

NOW = datetime(2026, 1, 5, tzinfo=UTC)


def a_run(*junctions: JunctionRun, took: timedelta | None) -> RunDetail:
    found: Any = SimpleNamespace(junctions=junctions, took=took, failure_junction="second")
    run: RunDetail = found
    return run


def junction(name: str, started: float, took: float) -> JunctionRun:
    return JunctionRun(junction=name, started=timedelta(seconds=started), took=timedelta(seconds=took))


def a_slot(completed: int, failed: int, p95: timedelta | None) -> Any:  # noqa: ANN401 a part of a slot
    return SimpleNamespace(completed=completed, failed=failed, cancelled=0, duration_p95=p95)


def test_a_junction_is_drawn_on_the_scale_of_its_run() -> None:
    first, second = waterfall_of(
        a_run(junction("first", 2, 2), junction("second", 4, 1), took=timedelta(seconds=10))
    )

    assert (first.left, first.width, first.is_failed) == (20, 20, False)
    assert (second.left, second.width, second.is_failed) == (40, 10, True)


def test_a_junction_of_a_run_that_goes_on_is_drawn_on_the_scale_of_those_that_are_over() -> None:
    (first,) = waterfall_of(a_run(junction("first", 1, 3), took=None))

    assert (first.left, first.width) == (25, 75)


def test_one_bar_is_drawn_for_each_slot_with_runs_and_the_failed_ones_at_its_foot() -> None:
    drawn = run_bars([a_slot(3, 1, None), a_slot(0, 0, None), a_slot(2, 0, None)])
    whole, failed = re.findall(r' d="([^"]*)"', drawn)

    assert "<title>6 runs, 1 failed; at most 4 in one bar</title>" in drawn
    assert whole == "M0.00 0.00h32.00V24h-32.00zM80.00 12.00h32.00V24h-32.00z"
    assert failed == "M0.00 18.00h32.00V24h-32.00z"


def test_a_single_figure_is_drawn_where_it_belongs_and_can_be_seen() -> None:
    slots = [a_slot(0, 0, None), a_slot(1, 0, timedelta(seconds=1)), a_slot(0, 0, None)]
    sample = SizeSample(at=NOW, rows=5, bytes=2048, lag=None)

    assert points(duration_line(slots, span)) == [(56, 1), (60, 1)]
    assert points(growth_line([sample], size)) == [(0, 1), (120, 1)]
    assert "<title>size: 2.0 KiB at first, 2.0 KiB at most, 2.0 KiB now</title>" in growth_line(
        [sample], size
    )


def points(drawn: str) -> list[tuple[float, float]]:
    (found,) = re.findall(r'points="([^"]*)"', drawn)
    return [(float(x), float(y)) for x, y in (point.split(",") for point in found.split())]
