"""`python -m benchmarks.report [--markdown FILE] [--plot FILE] [--quick]`: the newest results.

A file that is there keeps its text but for the places that ask for a table: what stands between
`<!-- case: NAME -->` and `<!-- /case -->` is replaced, and what stands between `<!-- machine -->` and
`<!-- /machine -->` too.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.cases import CASES
from benchmarks.environments import python_of
from benchmarks.result import RESULTS, newest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.result import Result
    from benchmarks.rounds import Summary

LARGE = 100
PLACE = re.compile(r"(<!-- (case: (?P<case>[\w-]+)|machine) -->\n).*?(<!-- /(case|machine) -->)", re.DOTALL)


def markdown(result: Result) -> str:
    """A section: medians, the middle half of the headline, and its ratio to the base taken round by round."""
    return "\n".join([f"### {result.title}", "", table(result)])


def table(result: Result) -> str:
    """The table, what it counts and who is missing."""
    head = _head(result)
    lines = [_caption(result), "", f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    lines += [_row(result, name) for name in result.contestants]
    remarks = [*result.notes, *(f"Left out: {name} ({why})." for name, why in result.left_out.items())]
    return "\n".join([*lines, *(f"\n{remark}" for remark in remarks), ""])


def machine_lines(results: Sequence[Result]) -> str:
    """The machine of the newest of these results, as a list."""
    latest = max(results, key=lambda result: result.at)
    return "".join(f"- {name}: {value}\n" for name, value in latest.machine.items())


def whole(results: Sequence[Result]) -> str:
    """Every table, under the machine that they were measured on."""
    return "\n".join([machine_lines(results), *(markdown(result) for result in results)])


def fill_places(text: str, results: Sequence[Result]) -> str:
    """Put tables and machine where a text asks for them; a case never measured keeps what stands there."""
    tables = {result.case: table(result) for result in results}

    def put(place: re.Match[str]) -> str:
        case = place["case"]
        if case is None:
            return f"{place[1]}{machine_lines(results)}{place[4]}"
        return f"{place[1]}{tables[case]}{place[4]}" if case in tables else place[0]

    return PLACE.sub(put, text)


def _caption(result: Result) -> str:
    sizes = {result.sizes[name] for name in result.contestants}
    count = f"{min(sizes):,} to {max(sizes):,}" if len(sizes) > 1 else f"{max(sizes):,}"
    kind = "; a quick run, which shows that it works and not how fast" if result.is_quick else ""
    rounds = f"{result.rounds} round{'s' if result.rounds > 1 else ''}"
    return f"`{result.case}`: {count} {result.unit} a round, {rounds}, medians{kind}."


def _head(result: Result) -> list[str]:
    if not result.base:  # a grid of figures: nothing is compared
        return ["", *_other_metrics(result)]
    own = ["a round"] if _sizes_differ(result) else []
    return [
        result.unit,
        *own,
        f"{result.headline} (middle half)",
        f"x {result.base} (middle half)",
        *_other_metrics(result),
    ]


def _row(result: Result, name: str) -> str:
    measured = result.measured
    reported = measured.metrics(name)
    cells = [
        _number(measured.summary(name, metric).median) if metric in reported else ""
        for metric in _other_metrics(result)
    ]
    if not result.base:
        return f"| {' | '.join([name, *cells])} |"
    own = [f"{result.sizes[name]:,}"] if _sizes_differ(result) else []
    headline = _spread(measured.summary(name, result.headline))
    is_compared = result.base in result.samples
    ratio = _spread(measured.ratio(name, result.base, result.headline)) if is_compared else ""
    return f"| {' | '.join([name, *own, headline, '1' if name == result.base else ratio, *cells])} |"


def _other_metrics(result: Result) -> list[str]:
    measured = result.measured
    every = dict.fromkeys(metric for name in result.contestants for metric in measured.metrics(name))
    return [metric for metric in every if metric != result.headline]


def _sizes_differ(result: Result) -> bool:
    return len({result.sizes[name] for name in result.contestants}) > 1


def _spread(summary: Summary) -> str:
    return f"{_number(summary.median)} ({_number(summary.low)} to {_number(summary.high)})"


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= LARGE else f"{value:.3g}"


def main() -> int:
    """Write what was asked for, from the newest results."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.report", description=__doc__)
    parser.add_argument(
        "--markdown", type=Path, metavar="FILE", help="the tables; standard output without it"
    )
    parser.add_argument("--plot", type=Path, metavar="FILE", help="a PNG")
    parser.add_argument("--quick", action="store_true", help="from quick runs instead of full ones")
    arguments = parser.parse_args()
    results = newest(CASES, is_quick=arguments.quick)
    if not results:
        print(f"no {'quick' if arguments.quick else 'full'} result in {RESULTS}", file=sys.stderr)
        return 1
    if arguments.markdown is None:
        print(whole(results))
    else:
        _write(arguments.markdown, results)
    if arguments.plot is not None:
        _draw(arguments.plot, is_quick=arguments.quick)
    return 0


def _write(path: Path, results: Sequence[Result]) -> None:
    """Fill the places of a file; only one that is not there yet is written whole."""
    if not path.exists():
        path.write_text(whole(results))
        return
    text = path.read_text()
    if not PLACE.search(text):
        sys.exit(
            f"{path} is there and has no place for a table: put <!-- case: NAME --> and <!-- /case --> in it"
        )
    path.write_text(fill_places(text, results))


def _draw(path: Path, *, is_quick: bool) -> None:
    """In an environment of its own: nothing else here needs a plotting library."""
    command: list[str | Path] = [python_of("plot"), "-m", "benchmarks.plot", path.resolve()]
    subprocess.run([*command, *(["--quick"] if is_quick else [])], cwd=RESULTS.parent.parent, check=True)


if __name__ == "__main__":
    sys.exit(main())
