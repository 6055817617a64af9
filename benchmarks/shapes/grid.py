"""Shapes: which there are, and how fast each could be."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

DATABASES: Final = ("postgres", "sqlite")
KINDS: Final = ("async", "thread", "process")
SLOTS: Final = (1, 2, 4, 8, 16, 64)
LENGTHS: Final = (1.0, 10.0, 50.0, 100.0, 500.0)
CAPS: Final = ("none", "1", "half")
#: The dispatcher's own cap, which a process reads at its start: a sample of the grid.
GLOBAL_CAPS: Final = ("global 1", "global half")
GLOBAL_SLOTS: Final = (4, 16)
CORES: Final = os.cpu_count() or 1
MOST_PROCESSES: Final = 4 * CORES


class Cap(NamedTuple):
    """How many may run at once, and who says so."""

    over: Literal["none", "group", "global"]
    places: int

    @classmethod
    def read(cls, text: str, slots: int) -> Cap:
        """Read `none`, `1`, `half`, `global 1`, `global half` or any number."""
        if text == "none":
            return cls("none", slots)
        is_global, word = text.startswith("global "), text.removeprefix("global ")
        places = max(slots // 2, 1) if word == "half" else int(word)
        return cls("global" if is_global else "group", places)


@dataclass(frozen=True, slots=True)
class Load:
    """What one process of `gandy up` is started for."""

    database: str
    kind: str
    slots: int
    #: The cap of all runs, as the process reads it at its start.
    global_cap: int | None = None


@dataclass(frozen=True, slots=True)
class Cell:
    """One shape."""

    load: Load
    cap: str
    milliseconds: float

    @property
    def jobs_at_once(self) -> int:
        """How many jobs can be under way at once."""
        return min(self.load.slots, Cap.read(self.cap, self.load.slots).places)

    @property
    def places(self) -> int:
        """How many jobs can make headway at once: those that compute share the cores."""
        return min(self.jobs_at_once, CORES) if self.load.kind == "process" else self.jobs_at_once

    @property
    def row(self) -> str:
        """The row of the table that it stands in."""
        slots = f"{self.load.slots} slot{'s' if self.load.slots > 1 else ''}"
        cap = Cap.read(self.cap, self.load.slots)
        word = {"none": "no cap", "group": f"group cap {cap.places}", "global": f"global cap {cap.places}"}
        return f"{self.load.database}, {self.load.kind}, {slots}, {word[cap.over]}"

    @property
    def column(self) -> str:
        """The column that it stands in."""
        return f"{self.milliseconds:g} ms"


def cells(
    *,
    databases: Sequence[str] = DATABASES,
    kinds: Sequence[str] = KINDS,
    slots: Sequence[int] = SLOTS,
    caps: Sequence[str] = CAPS,
    lengths: Sequence[float] = LENGTHS,
) -> list[Cell]:
    """The product, without shapes that are the same or that have more processes than four times the cores."""
    found = (
        Cell(Load(database, kind, count, _global_cap(cap, count)), cap, length)
        for database in databases
        for kind in kinds
        for count in slots
        if kind != "process" or count <= MOST_PROCESSES
        for cap in _different(caps, count)
        for length in sorted(lengths, reverse=True)
    )
    return list(found)


def full_grid() -> list[Cell]:
    """Every shape of the issue's table, and the global cap at two numbers of slots."""
    return [*cells(), *cells(kinds=("async",), slots=GLOBAL_SLOTS, caps=GLOBAL_CAPS)]


def quick_grid() -> list[Cell]:
    """A sample that shows that everything works."""
    return [
        *cells(kinds=("async",), slots=(4,), caps=("none", "1"), lengths=(10, 50)),
        *cells(kinds=("process",), slots=(2,), caps=("none",), lengths=(50,)),
    ]


def by_load(chosen: Iterable[Cell]) -> Iterator[tuple[Load, list[Cell]]]:
    """Gather what one process can measure: capped cells first, each with the longest jobs first.

    Runs that a worker claimed in advance then become shorter from cell to cell, and never hold one up.
    """
    loads: dict[Load, list[Cell]] = {}
    for cell in chosen:
        loads.setdefault(cell.load, []).append(cell)
    for load, theirs in loads.items():
        yield load, sorted(theirs, key=lambda cell: (cell.cap == "none", cell.cap, -cell.milliseconds))


def _global_cap(cap: str, slots: int) -> int | None:
    read = Cap.read(cap, slots)
    return read.places if read.over == "global" else None


def _different(caps: Sequence[str], slots: int) -> Iterator[str]:
    """Leave out a cap that is the same as one before it."""
    seen = set()
    for cap in caps:
        read = Cap.read(cap, slots)
        if read not in seen:
            seen.add(read)
            yield cap
