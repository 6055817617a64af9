"""Start a command of Gandy on an empty queue, let it settle, and read what it holds and uses."""

from __future__ import annotations

import re
import statistics
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks.command import running
from benchmarks.probe import family, family_cpu
from gandy.store.drivers.opening import migrate

if TYPE_CHECKING:
    from collections.abc import Sequence

    import psycopg

    from benchmarks.rounds import Measured
    from benchmarks.server import Server

APPLICATION: Final = "benchmarks.rest.application:app"
LOOK_EVERY: Final = 0.25
KIB_PER_MIB: Final = 1024

# The counters of a session are published when it has rested for some seconds: a span must be much longer.
_TRANSACTIONS: Final = "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = %s"
_CONNECTIONS: Final = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = %s AND backend_type = 'client backend'"
)


@dataclass(frozen=True, slots=True)
class Span:
    """The seconds for which a process settles, and for which it is then measured."""

    settle: float
    measure: float


def measure(server: Server, arguments: Sequence[str], span: Span) -> Measured:
    """Run `gandy` with these arguments on an empty queue, and return the figures."""
    name = "bench_at_rest"
    with server.database(name), server.connect() as watcher:
        migrate(server.url(name))
        with running(server.url(name), APPLICATION, arguments) as process:
            time.sleep(span.settle)
            return _figures(process.pid, name, watcher, seconds=span.measure)


def _figures(pid: int, name: str, watcher: psycopg.Connection, *, seconds: float) -> Measured:
    begun, busy, transactions = time.monotonic(), family_cpu(pid), _ask(watcher, _TRANSACTIONS, name)
    connections = []
    while time.monotonic() < begun + seconds:
        connections.append(_ask(watcher, _CONNECTIONS, name))
        time.sleep(LOOK_EVERY)
    took = time.monotonic() - begun
    children = [_memory(each) for each in family(pid) if each != pid]
    return {
        "connections": max(connections),
        "transactions/s": (_ask(watcher, _TRANSACTIONS, name) - transactions) / took,
        "% of a core": (family_cpu(pid) - busy) / took * 100,
        "MiB, parent": _memory(pid) / KIB_PER_MIB,
        "MiB, each child": statistics.fmean(children) / KIB_PER_MIB if children else 0.0,
    }


def _ask(watcher: psycopg.Connection, question: str, name: str) -> int:
    row = watcher.execute(question.encode(), (name,)).fetchone()
    return int(row[0]) if row else 0


def _memory(pid: int) -> int:
    """Return the memory of a process in KiB; of pages that are shared, its part."""
    found = re.search(r"^Pss:\s*(\d+)", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.MULTILINE)
    return int(found.group(1)) if found else 0
