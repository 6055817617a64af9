"""Slots x job length x kind x cap: the share of the ideal rate, through `gandy up` with its defaults."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from benchmarks.goals import Floor
from benchmarks.machine import describe
from benchmarks.result import Result
from benchmarks.rounds import Rounds
from benchmarks.shapes.grid import DATABASES, full_grid, quick_grid
from benchmarks.shapes.measuring import FULL, QUICK, measure

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from benchmarks.rounds import Measured
    from benchmarks.server import Server
    from benchmarks.shapes.grid import Cell

NOTES = (
    "A figure is the share of the ideal rate, places / length.",
    "Places: the slots, or the cap where that is smaller; for process jobs, not more than the cores.",
    "Length: what the job takes by itself on this machine. Jobs wait (async, thread) or compute (process).",
    "A group's cap is that of the only enabled group of three.",
    "The database and the worker use the same cores as process jobs.",
)


@dataclass(frozen=True, slots=True)
class Shapes:
    """The case: one row for each database, kind, number of slots and cap, one column for each length."""

    name: str = "shapes"
    title: str = "Shapes of load: the share of the ideal rate"
    contestants: tuple[str, ...] = tuple(f"gandy up on {database}" for database in DATABASES)

    def run(self, server: Server, *, is_quick: bool) -> Result:
        """Measure every cell once."""
        chosen, pace = (quick_grid(), QUICK) if is_quick else (full_grid(), FULL)
        shares: dict[str, dict[str, float]] = {}
        for number, figure in enumerate(measure(chosen, pace, server), start=1):
            shares.setdefault(figure.cell.row, {})[figure.cell.column] = figure.share
            said = f"{number} of {len(chosen)}: {figure.cell.row}, {figure.cell.column}: {figure.share:.2f}"
            print(said, file=sys.stderr, flush=True)
        samples = _in_order(shares, chosen)
        verdicts = [goal.verdict(Rounds(dict(samples))) for goal in goals(chosen)]
        return Result(
            case=self.name,
            title=self.title,
            unit="queued",
            headline="",
            base="",
            notes=(*NOTES, *verdicts),
            rounds=1,
            is_quick=is_quick,
            at=datetime.now(tz=UTC).isoformat(),
            machine=describe(server),
            sizes=dict.fromkeys(samples, pace.queued),
            left_out={},
            samples=samples,
        )


def goals(chosen: Sequence[Cell]) -> Iterator[Floor]:
    """At least 0.95 from 10 ms without a cap, 0.9 from 50 ms with one; by the kind of job."""
    for kind in dict.fromkeys(cell.load.kind for cell in chosen):
        for words, at_least, shortest in (("without a cap", 0.95, 10), ("with a cap", 0.9, 50)):
            held = [
                (cell.row, cell.column)
                for cell in chosen
                if cell.load.kind == kind
                and (cell.cap == "none") == (words == "without a cap")
                and cell.milliseconds >= shortest
            ]
            if held:
                asked = f"{kind} jobs {words} from {shortest} ms"
                yield Floor(asked=asked, held=tuple(held), at_least=at_least)


def _in_order(shares: Mapping[str, Mapping[str, float]], chosen: Sequence[Cell]) -> dict[str, list[Measured]]:
    """Rows in the order of the grid, short jobs first, whatever the order of the measurements was."""
    columns = dict.fromkeys(cell.column for cell in sorted(chosen, key=lambda cell: cell.milliseconds))
    return {
        cell.row: [{column: shares[cell.row][column] for column in columns if column in shares[cell.row]}]
        for cell in chosen
    }


CASES = (Shapes(),)
