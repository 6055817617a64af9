"""A writer of the same table at a fixed rate: how long it waits, alone, beside the sweep, beside the loop."""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.lifecycle.events import SQL, Events
from benchmarks.lifecycle.limited_loop import delete_in_batches
from benchmarks.protocol import serve
from benchmarks.server import default_binaries
from gandy.lifecycle import Contract, SweepOptions, Table, older_than, run_contracts
from gandy.sweep import Budget

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PER_SECOND = 500
CLIENTS = 4
WARM_UP = 1.0
LOOP_BATCH = 500
SCRIPT = Path(__file__).with_name("writer.pgbench")


class PgbenchMissingError(RuntimeError):
    """There is no pgbench, neither beside the server nor on the path."""

    def __init__(self, looked_in: Path) -> None:
        super().__init__(
            f"no pgbench in {looked_in} nor on PATH: install PostgreSQL's client programs"
            " (Debian: postgresql-contrib), or set GANDY_BENCH_PG_BIN to a bin folder that has it"
        )


@dataclass(frozen=True, slots=True)
class Transaction:
    """One line of pgbench's log."""

    ended_at: float
    seconds: float  # from the instant it was due


class Writer(Events):
    """Inserts one row and changes another, so many times a second, whatever else happens."""

    def __init__(self, deleting: str) -> None:
        self._deleting = deleting

    def setup(self, url: str) -> None:
        """Make the table, and numbers for new rows."""
        super().setup(url)
        with self.connected(url) as connection:
            connection.execute(SQL["create_numbers"])

    def write(self, rows: int, seconds: int) -> dict[str, float]:
        """Write for so long; answers the latencies of what was due while rows were being deleted."""
        with tempfile.TemporaryDirectory(prefix="gandy-writer-") as folder:
            with _writing(self.url, Path(folder), rows=rows, seconds=seconds) as pgbench:
                time.sleep(WARM_UP)
                began_at = time.time()
                self._delete(until=began_at + seconds - WARM_UP)
                ended_at = time.time()
                pgbench.wait()
            taken = [each for each in _read_log(Path(folder)) if began_at <= each.ended_at <= ended_at]
        return {**_figures([each.seconds * 1000 for each in taken]), "deleting s": ended_at - began_at}

    def _delete(self, *, until: float) -> None:
        ways: dict[str, Callable[[], object]] = {
            "nothing": lambda: time.sleep(max(0.0, until - time.time())),
            "sweep": self._sweep,
            "loop": lambda: delete_in_batches(self.connection, LOOP_BATCH),
        }
        ways[self._deleting]()

    def _sweep(self) -> None:
        """Sweep as an application does, with every default but the budget, until nothing is left."""
        contract = Contract("bench", [Table("event", [older_than("at", keep_for="1h")])], budget=Budget())
        by = SweepOptions(confirm=lambda _held: True)
        [report] = run_contracts([contract], self.url, options=by)
        if not report.is_clean:
            raise AssertionError(report.failures)


@contextmanager
def _writing(url: str, folder: Path, *, rows: int, seconds: int) -> Iterator[subprocess.Popen[bytes]]:
    command: list[str | Path] = [
        _pgbench(),
        "--no-vacuum",
        "--protocol=prepared",
        f"--client={CLIENTS}",
        f"--rate={PER_SECOND}",
        f"--time={seconds}",
        f"--define=rows={rows}",
        f"--file={SCRIPT}",
        "--log",
        url,
    ]
    with (folder / "said").open("wb") as said:
        process = subprocess.Popen(command, cwd=folder, stdout=said, stderr=said)
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()
    if process.returncode:
        raise RuntimeError((folder / "said").read_text(errors="replace"))


def _pgbench() -> Path:
    beside = default_binaries() / "pgbench"
    found = beside if beside.exists() else shutil.which("pgbench")
    if found is None:
        raise PgbenchMissingError(beside.parent)
    return Path(found)


def _read_log(folder: Path) -> Iterator[Transaction]:
    """Lines are: client, number, microseconds, script, second and microsecond of the end, lag."""
    for log in folder.glob("pgbench_log.*"):
        for line in log.read_text().splitlines():
            fields = line.split()
            yield Transaction(int(fields[4]) + int(fields[5]) / 1e6, int(fields[2]) / 1e6)


def _figures(milliseconds: list[float]) -> dict[str, float]:
    cuts = statistics.quantiles(milliseconds, n=100, method="inclusive")
    return {
        "writes": len(milliseconds),
        "p50 ms": cuts[49],
        "p99 ms": cuts[98],
        "max ms": max(milliseconds),
    }


if __name__ == "__main__":
    serve(Writer(sys.argv[1]))
