"""`python -m benchmarks.faults [--quick] [--fault NAME]...`: prints a Markdown table."""

from __future__ import annotations

import argparse
import os
import platform
import signal
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from gandy.store.drivers.opening import migrate
from tests.journeys.faults.measuring import measure, stage_on
from tests.journeys.faults.scenarios import ON_POSTGRES, ON_SQLITE, WAYS, hold_an_old_snapshot
from tests.journeys.faults.stage import LONG, SHORT
from tests.support import postgres_found
from tests.support.postgres import ThrowawayServer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.journeys.faults.scenarios import Fault
    from tests.journeys.faults.stage import Scale, Toll

WRONG_CALL = 2
TERMINATED = 143
HEAD = """\
| fault | jobs/s before | during it | after it | recovered after | jobs lost | executions repeated |
|---|---|---|---|---|---|---|"""


def main() -> int:
    """Measure the chosen faults one after the other, each on a database of its own."""
    # Ends as after an error, so that the processes and the server are stopped.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(TERMINATED))
    arguments = _parse()
    faults = {**ON_POSTGRES, **ON_SQLITE}
    unknown = [name for name in arguments.fault if name not in faults]
    if unknown:
        print(f"no such fault: {', '.join(unknown)}; there are: {', '.join(faults)}", file=sys.stderr)
        return WRONG_CALL
    tolls = list(_measured(arguments.fault or list(faults), SHORT if arguments.quick else LONG))
    return int(any(toll.lost for toll in tolls))


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.faults", description="What faults cost.")
    parser.add_argument(
        "--fault", action="append", default=[], metavar="NAME", help="only this one (repeatable)"
    )
    parser.add_argument("--quick", action="store_true", help="seconds instead of minutes")
    return parser.parse_args()


def _measured(names: list[str], scale: Scale) -> Iterator[Toll]:
    server = ThrowawayServer(postgres_found.newest(), durable=True, settings={"max_connections": "400"})
    try:
        print(f"{server.label}, {os.cpu_count()} cores, Python {platform.python_version()}; ", end="")
        print(f"{scale.workers} workers of 10 slots, jobs of {scale.job_milliseconds:g} ms\n")
        print(HEAD, flush=True)
        for name in names:
            on_postgres = ON_POSTGRES.get(name)
            toll = (
                _on_sqlite(name, ON_SQLITE[name], scale)
                if on_postgres is None
                else _on_postgres(name, on_postgres, scale, server=server)
            )
            print(_line(toll), flush=True)
            yield toll
    finally:
        server.close()


def _on_postgres(name: str, fault: Fault, scale: Scale, *, server: ThrowawayServer) -> Toll:
    if fault is hold_an_old_snapshot and scale is LONG:
        scale = replace(scale, fault_seconds=120, jobs=45_000)
    with _folder() as folder, server.database() as url:
        migrate(url)
        with stage_on(url, folder, scale, server, way=WAYS.get(fault, "direct")) as stage:
            return measure(stage, name, fault)


def _on_sqlite(name: str, fault: Fault, scale: Scale) -> Toll:
    with _folder() as folder:
        url = f"sqlite:///{folder / 'gandy.db'}"
        migrate(url)
        with stage_on(url, folder, scale) as stage:
            return measure(stage, name, fault)


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="gandy-faults-") as folder:
        yield Path(folder)


def _line(toll: Toll) -> str:
    after = "never" if toll.recovered_after is None else f"{toll.recovered_after:.1f} s"
    during = "-" if toll.during is None else f"{toll.during:.0%}"
    shares = f"{during} | {toll.recovered:.0%}"
    return f"| {toll.fault} | {toll.baseline:.0f} | {shares} | {after} | {toll.lost} | {toll.repeated} |"


if __name__ == "__main__":
    sys.exit(main())
