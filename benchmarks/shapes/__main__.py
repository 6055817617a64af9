"""`python -m benchmarks.shapes`: single cells of case `shapes`, to tune by.

python -m benchmarks.shapes --database postgres --slots 1 --ms 20 --kind async --cap none
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from contextlib import nullcontext
from typing import TYPE_CHECKING

from benchmarks.server import running_server
from benchmarks.shapes.grid import CAPS, DATABASES, KINDS, LENGTHS, SLOTS, cells, full_grid, quick_grid
from benchmarks.shapes.measuring import Pace, measure

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from benchmarks.server import Server
    from benchmarks.shapes.grid import Cell
    from benchmarks.shapes.measuring import Figure

WRONG_CALL = 2
TERMINATED = 143
HEAD = (
    f"{'database':9} {'kind':8} {'slots':>5} {'cap':>12} {'ms':>5} {'ideal/s':>9} {'jobs/s':>9} {'share':>6}"
)


def main() -> int:
    """Measure the chosen cells, and print each as it comes."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(TERMINATED))
    arguments = _parse()
    try:
        chosen = _chosen(arguments)
    except ValueError as error:
        print(error, file=sys.stderr)
        return WRONG_CALL
    if arguments.list:
        print("\n".join(f"{cell.row}, {cell.column}" for cell in chosen))
        return 0
    begun = time.monotonic()
    print(HEAD, flush=True)
    with _server(chosen) as server:
        pace = Pace(queued=arguments.queued, window=arguments.window, jobs=arguments.jobs)
        for figure in measure(chosen, pace, server):
            print(_line(figure), flush=True)
    print(f"{len(chosen)} cells in {time.monotonic() - begun:.0f} s", file=sys.stderr)
    return 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.shapes", description=__doc__)
    parser.add_argument(
        "--database", default=",".join(DATABASES), help="postgres, sqlite, or both by a comma"
    )
    parser.add_argument("--kind", default=",".join(KINDS), help="of async, thread, process")
    parser.add_argument("--slots", default="", help="numbers, separated by commas")
    parser.add_argument("--ms", default="", help="lengths of a job in milliseconds, separated by commas")
    parser.add_argument("--cap", default="", help='of none, half, a number, "global 1", "global half"')
    parser.add_argument("--cells", choices=("full", "quick"), help="a whole grid instead")
    parser.add_argument("--queued", type=int, default=20_000, help="entries that wait (full: 100,000)")
    parser.add_argument("--window", type=float, default=1.0, help="seconds that are measured, at least")
    parser.add_argument("--jobs", type=float, default=8.0, help="jobs of a slot that are measured, at least")
    parser.add_argument("--list", action="store_true", help="name the cells and end")
    return parser.parse_args()


def _chosen(arguments: argparse.Namespace) -> list[Cell]:
    if arguments.cells:
        return full_grid() if arguments.cells == "full" else quick_grid()
    return cells(
        databases=_split(arguments.database),
        kinds=_split(arguments.kind),
        slots=[int(each) for each in _split(arguments.slots)] or SLOTS,
        caps=_split(arguments.cap) or CAPS,
        lengths=[float(each) for each in _split(arguments.ms)] or LENGTHS,
    )


def _split(text: str) -> list[str]:
    return [each.strip() for each in text.split(",") if each.strip()]


def _server(chosen: Sequence[Cell]) -> AbstractContextManager[Server | None]:
    return running_server() if any(cell.load.database == "postgres" for cell in chosen) else nullcontext()


def _line(figure: Figure) -> str:
    cell = figure.cell
    shape = f"{cell.load.database:9} {cell.load.kind:8} {cell.load.slots:>5} {cell.cap:>12}"
    return f"{shape} {cell.milliseconds:>5g} {figure.ideal:>9.1f} {figure.rate:>9.1f} {figure.share:>6.2f}"


if __name__ == "__main__":
    sys.exit(main())
