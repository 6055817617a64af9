"""Small charts as inline SVG, each with a text that says the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from markupsafe import Markup

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gandy.desk.growth import SizeSample
    from gandy.desk.stats import StatsSlot

_WIDTH: Final = 120.0
_HEIGHT: Final = 24.0
_SHORTEST: Final = 4.0  # the length of a line of one point
_LOWEST: Final = 1.5  # the height of a bar that is not empty
_SVG: Final = Markup(
    '<svg class="spark" viewBox="0 0 120 24" preserveAspectRatio="none" role="img"><title>{}</title>{}</svg>'
)
_BARS: Final = Markup('<path class="{}" d="{}"/>')
_LINE: Final = Markup('<polyline points="{}"/>')


def run_bars(slots: Sequence[StatsSlot]) -> Markup:
    """Draw the runs of each slot, the failed ones at the foot."""
    runs = [slot.completed + slot.failed + slot.cancelled for slot in slots]
    highest = max(runs, default=0)
    if not highest:
        return Markup('<span class="none">none</span>')
    failed = [slot.failed for slot in slots]
    bars = [_BARS.format("is-run", _bars(runs, highest)), _BARS.format("is-failed", _bars(failed, highest))]
    said = f"{sum(runs)} runs, {sum(failed)} failed; at most {highest} in one bar"
    return _SVG.format(said, Markup("").join(bars))


def _bars(counts: Sequence[int], highest: int) -> str:
    """Return the path of all bars: one element, however many there are."""
    step = _WIDTH / len(counts)
    width = f"{step * 0.8:.2f}"
    return "".join(
        f"M{index * step:.2f} {_HEIGHT - _height(count, highest):.2f}h{width}V{_HEIGHT:g}h-{width}z"
        for index, count in enumerate(counts)
        if count
    )


def _height(count: int, highest: int) -> float:
    return max(_HEIGHT * count / highest, _LOWEST) if count else 0.0


def duration_line(slots: Sequence[StatsSlot], say: Callable[[float], str]) -> Markup:
    """Draw the 95th percentile of the duration; slots without runs are left out."""
    points = [
        (index, slot.duration_p95.total_seconds())
        for index, slot in enumerate(slots)
        if slot.duration_p95 is not None
    ]
    return _line(points, last=len(slots) - 1, words="p95 of the duration", say=say)


def growth_line(samples: Sequence[SizeSample], say: Callable[[float], str]) -> Markup:
    """Draw the size of a table, in bytes if they are known, else in rows."""
    has_bytes = any(each.bytes is not None for each in samples)
    values = [each.bytes if has_bytes else each.rows for each in samples]
    first, last = samples[0].at.timestamp(), samples[-1].at.timestamp()
    points = [
        (each.at.timestamp() - first, float(value))
        for each, value in zip(samples, values, strict=True)
        if value is not None
    ]
    return _line(points, last=last - first, words="size" if has_bytes else "rows", say=say)


def _line(
    points: Sequence[tuple[float, float]], *, last: float, words: str, say: Callable[[float], str]
) -> Markup:
    if not points:
        return Markup('<span class="none">none</span>')
    values = [value for _, value in points]
    highest = max(values) or 1.0
    places = [
        f"{_WIDTH * at / last if last else 0.0:.2f},{_HEIGHT - 1 - (_HEIGHT - 2) * value / highest:.2f}"
        for at, value in points
    ]
    if len(places) == 1:  # a line needs two points
        at, height = places[0].split(",")
        places = [
            f"{max(float(at) - _SHORTEST, 0):.2f},{height}",
            f"{float(at) if last else _WIDTH:.2f},{height}",
        ]
    said = f"{words}: {say(values[0])} at first, {say(max(values))} at most, {say(values[-1])} now"
    return _SVG.format(said, _LINE.format(" ".join(places)))
