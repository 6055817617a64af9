"""`python -m benchmarks.plot FILE [--quick]`: the newest results as one picture; needs matplotlib.

`python -m benchmarks.report --plot FILE` runs it in an environment that has it.
"""

# The library is in an environment of its own, which the type checker does not see.
# mypy: disable-error-code="import-not-found"

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.result import newest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.result import Result
    from benchmarks.rounds import Summary

WIDE = 100  # from the least to the most: beyond it only powers of ten fit below the axis
#: The cases that are drawn, each with the contestant that stands for Gandy.
PANELS = {
    "throughput-1": "gandy",
    "throughput-2": "gandy",
    "enqueue": "gandy",
    "idle-pickup": "gandy",
    "tick-all-due": "gandy schedules",
    "pruning": "gandy by day",
}
COLUMNS = 2
OWN, DIRECT, PEER = "#c2410c", "#64748b", "#2563eb"
KINDS = {OWN: "Gandy", DIRECT: "direct SQL", PEER: "other libraries"}
DIRECT_NAMES = ("t1", "t3m", "t4", "t3m by COPY", "direct schedules", "direct deletion", "partition drop")
LARGE = 100


@dataclass(frozen=True, slots=True)
class Mark:
    """One contestant in a panel."""

    name: str
    value: Summary
    ratio: float
    colour: str

    @property
    def label(self) -> str:
        """Its figure, and how it compares with Gandy."""
        figure = f"{self.value.median:,.0f}" if self.value.median >= LARGE else f"{self.value.median:.3g}"
        return (
            figure
            if self.colour == OWN and math.isclose(self.ratio, 1.0)
            else f"{figure}   {self.ratio:.2g} x"
        )


def marks(result: Result, own: str) -> list[Mark]:
    """The contestants of a panel, best first; ratios to Gandy are taken inside rounds."""
    measured = result.measured
    found = [
        Mark(
            name=name,
            value=measured.summary(name, result.headline),
            ratio=measured.ratio(name, own, result.headline).median,
            colour=colour_of(name),
        )
        for name in result.contestants
    ]
    return sorted(found, key=lambda mark: mark.value.median, reverse=not result.headline.endswith("ms"))


def colour_of(name: str) -> str:
    """By kind, so that a colour means the same in every panel."""
    if name.startswith("gandy"):
        return OWN
    return DIRECT if name in DIRECT_NAMES else PEER


def draw(results: Sequence[Result], path: Path) -> None:
    """One panel a case: a dot for the median, a line for the middle half, a logarithmic axis."""
    import matplotlib as mpl  # noqa: PLC0415 only who draws needs it

    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415 after the backend is chosen

    plt.rcParams.update({"font.size": 9, "font.family": "DejaVu Sans", "axes.titlesize": 10.5})
    rows = math.ceil(len(results) / COLUMNS)
    heights = [
        max(len(result.contestants) for result in results[start : start + COLUMNS])
        for start in range(0, len(results), COLUMNS)
    ]
    figure, panels = plt.subplots(
        rows,
        min(COLUMNS, len(results)),
        figsize=(12, 0.3 * sum(heights) + 1.1 * rows + 1),
        squeeze=False,
        layout="constrained",
        height_ratios=heights,
    )
    flat = panels.flatten()
    for panel, result in zip(flat, results, strict=False):
        _draw_panel(panel, result)
    for panel in flat[len(results) :]:
        panel.axis("off")
    _draw_legend(figure, results)
    figure.savefig(path, dpi=150, facecolor="white")


def _draw_panel(panel: Any, result: Result) -> None:  # noqa: ANN401 the plotting library's own type
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter  # noqa: PLC0415 only who draws

    found = marks(result, PANELS[result.case])
    places = range(len(found), 0, -1)
    low, high = min(m.value.low for m in found), max(m.value.high for m in found)
    for place, mark in zip(places, found, strict=True):
        panel.plot([mark.value.low, mark.value.high], [place, place], color=mark.colour, lw=3, alpha=0.35)
        panel.plot(mark.value.median, place, "o", color=mark.colour, ms=7)
        offset = (9, 0)
        panel.annotate(
            mark.label,
            (mark.value.high, place),
            xytext=offset,
            textcoords="offset points",
            va="center",
            color=mark.colour,
        )
    panel.set_xscale("log")
    panel.xaxis.set_major_locator(LogLocator(subs=(1,) if high > WIDE * low else (1, 3)))
    panel.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    panel.xaxis.set_minor_formatter(NullFormatter())
    # Room on the right for the figures.
    panel.set_xlim(low / 1.6, high * (high / low) ** 0.35 * 2)
    panel.set_ylim(0.4, len(found) + 0.6)
    panel.set_yticks(list(places), [mark.name for mark in found])
    for tick, mark in zip(panel.get_yticklabels(), found, strict=True):
        tick.set_color(mark.colour)
        tick.set_fontweight("bold" if mark.colour == OWN else "normal")
    is_time = result.headline.endswith("ms")
    panel.set_title(result.title, loc="left", fontweight="bold")
    panel.set_xlabel(f"{result.headline}, less is better" if is_time else f"{result.unit} {result.headline}")
    panel.grid(axis="x", which="major", color="#e2e8f0")
    panel.set_axisbelow(True)
    panel.tick_params(axis="y", length=0)
    panel.spines[["top", "right", "left"]].set_visible(False)


def _draw_legend(figure: Any, results: Sequence[Result]) -> None:  # noqa: ANN401 the plotting library's own type
    from matplotlib.lines import Line2D  # noqa: PLC0415 only who draws needs it

    handles = [
        Line2D([], [], color=colour, marker="o", lw=3, alpha=0.9, label=kind)
        for colour, kind in KINDS.items()
    ]
    figure.legend(handles=handles, loc="outside upper left", ncols=len(handles), frameon=False)
    machine = max(results, key=lambda result: result.at).machine
    about = (
        f"{machine['cores']} cores ({machine['CPU']}), {machine['memory']}",
        f"PostgreSQL {machine['PostgreSQL']}",
        f"Python {machine['Python']}",
    )
    figure.supxlabel(
        f"Dot: median; line: middle half; x: beside Gandy, inside the same round. {'; '.join(about)}.",
        fontsize=8,
        color="#475569",
    )


def main() -> None:
    """Draw what was measured."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.plot", description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--quick", action="store_true", help="from quick runs instead of full ones")
    arguments = parser.parse_args()
    results = [
        result for result in newest(PANELS, is_quick=arguments.quick) if PANELS[result.case] in result.samples
    ]
    if not results:
        parser.error(f"no result of {', '.join(PANELS)} to draw")
    draw(results, arguments.file)


if __name__ == "__main__":
    main()
