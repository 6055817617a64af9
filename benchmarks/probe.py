"""What a measured stretch of work cost: wall clock, CPU of clients and server, WAL, commits."""

from __future__ import annotations

import os
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import psycopg

    from benchmarks.server import Server

TICKS = os.sysconf("SC_CLK_TCK")
# Places in /proc/PID/stat after the command name: parent; user and system time, own and of reaped children.
PARENT, OWN, REAPED = 1, slice(11, 13), slice(13, 15)
# Transactions that write get identifiers: counting these is exact at once, the statistics views lag.
COUNTERS = (
    "SELECT (pg_current_wal_lsn() - '0/0'::pg_lsn)::bigint, txid_snapshot_xmax(txid_current_snapshot())"
)


@dataclass(frozen=True, slots=True)
class Cost:
    """Totals of one stretch."""

    seconds: float
    client_cpu: float
    server_cpu: float
    wal_bytes: int
    transactions: int

    def minus(self, earlier: Cost) -> Cost:
        """What was added since an earlier reading."""
        return Cost(
            seconds=self.seconds - earlier.seconds,
            client_cpu=self.client_cpu - earlier.client_cpu,
            server_cpu=self.server_cpu - earlier.server_cpu,
            wal_bytes=self.wal_bytes - earlier.wal_bytes,
            transactions=self.transactions - earlier.transactions,
        )

    def per(self, count: int) -> dict[str, float]:
        """The figures of the tables: a rate, and costs per item."""
        return {
            "per second": count / self.seconds,
            "client µs": self.client_cpu / count * 1e6,
            "PostgreSQL µs": self.server_cpu / count * 1e6,
            "WAL bytes": self.wal_bytes / count,
            "write transactions": self.transactions / count,
        }


class Meter:
    """Collects the cost of the block it wraps; `cost` is there once the block has ended."""

    def __init__(self, server: Server, connection: psycopg.Connection, clients: Sequence[int] = ()) -> None:
        self._server = server
        self._connection = connection
        self._clients = clients or (os.getpid(),)
        self.cost = Cost(0.0, 0.0, 0.0, 0, 0)

    @contextmanager
    def measure(self) -> Iterator[None]:
        """Measure the block."""
        before = self._read()
        yield
        self.cost = self._read().minus(before)

    def _read(self) -> Cost:
        row = self._connection.execute(COUNTERS).fetchone()
        wal_bytes, transactions = (int(row[0]), int(row[1])) if row else (0, 0)
        clients = sum(family_cpu(pid) for pid in self._clients)
        return Cost(time.monotonic(), clients, family_cpu(self._server.pid), wal_bytes, transactions)


def family_cpu(parent: int) -> float:
    """CPU seconds of a process, its live children and the children it has reaped."""
    ticks = 0
    for pid, fields in _family(parent):
        ticks += _ticks(fields[OWN])
        if pid == parent:
            ticks += _ticks(fields[REAPED])
    return ticks / TICKS


def family(parent: int) -> list[int]:
    """A process and its live children."""
    return [pid for pid, _ in _family(parent)]


def _family(parent: int) -> Iterator[tuple[int, list[str]]]:
    for stat in Path("/proc").glob("[0-9]*/stat"):
        fields = _stat_fields(stat)
        pid = int(stat.parent.name)
        if fields and (pid == parent or fields[PARENT] == str(parent)):
            yield pid, fields


def _stat_fields(stat: Path) -> list[str]:
    try:
        return stat.read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def _ticks(fields: list[str]) -> int:
    return sum(int(field) for field in fields)
