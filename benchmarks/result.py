"""One case's outcome: kept as JSON with every sample, read again for tables and plots."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.rounds import Rounds

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from benchmarks.rounds import Measured

RESULTS = Path(__file__).resolve().parent / "results"


@dataclass(frozen=True, slots=True)
class Result:
    """Everything that a table says."""

    case: str
    title: str
    unit: str
    headline: str
    base: str
    notes: tuple[str, ...]
    rounds: int
    is_quick: bool
    at: str
    machine: Mapping[str, str]
    #: Items a round, by contestant.
    sizes: Mapping[str, int]
    #: Why a contestant is missing.
    left_out: Mapping[str, str]
    samples: Mapping[str, list[Measured]]

    @property
    def contestants(self) -> list[str]:
        """Who was measured, in the order of the case."""
        return [name for name in self.sizes if name in self.samples]

    @property
    def measured(self) -> Rounds[str]:
        """The samples, ready to be summarised."""
        return Rounds(dict(self.samples))


def save(result: Result, folder: Path = RESULTS) -> Path:
    """Write it under its time and case."""
    folder.mkdir(exist_ok=True)
    stamp = result.at[:19].replace("-", "").replace(":", "")
    path = folder / f"{stamp}-{result.case}{'-quick' if result.is_quick else ''}.json"
    path.write_text(json.dumps(asdict(result), indent=1))
    return path


def load(path: Path) -> Result | None:
    """Read one back; what an older harness wrote is none."""
    record = json.loads(path.read_text())
    if record.keys() != Result.__dataclass_fields__.keys():
        return None
    return Result(**{**record, "notes": tuple(record["notes"])})


def newest(cases: Iterable[str], *, is_quick: bool = False, folder: Path = RESULTS) -> list[Result]:
    """The latest result of each case, in the order given; cases never measured are left out."""
    latest: dict[str, Result] = {}
    for path in sorted(folder.glob("*.json")):
        result = load(path)
        if result is not None and result.is_quick == is_quick:
            latest[result.case] = result
    return [latest[case] for case in cases if case in latest]
