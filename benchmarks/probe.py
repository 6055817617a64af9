"""What a measured stretch of work cost: wall clock, CPU of client and server, WAL, transactions."""

from __future__ import annotations

import os
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psycopg

    from benchmarks.server import Server

TICKS = os.sysconf("SC_CLK_TCK")
# Positions in /proc/PID/stat after the command name: parent, then own and reaped children's user and system time.
PARENT, OWN, REAPED = 1, slice(11, 13), slice(13, 15)


@dataclass(frozen=True, slots=True)
class Cost:
    """Totals of one stretch."""

    seconds: float
    client_cpu: float
    server_cpu: float
    wal_bytes: int
    transactions: int


class Meter:
    """Collects the cost of the block it wraps; `cost` is there once the block has ended."""

    def __init__(self, server: Server, connection: psycopg.Connection) -> None:
        self._server = server
        self._connection = connection
        self.cost = Cost(0.0, 0.0, 0.0, 0, 0)

    @contextmanager
    def measure(self) -> Iterator[None]:
        """Measure the block."""
        before = self._read()
        yield
        after = self._read()
        self.cost = Cost(
            seconds=after.seconds - before.seconds,
            client_cpu=after.client_cpu - before.client_cpu,
            server_cpu=after.server_cpu - before.server_cpu,
            wal_bytes=after.wal_bytes - before.wal_bytes,
            transactions=after.transactions - before.transactions,
        )

    def _read(self) -> Cost:
        wal_bytes, transactions = _server_counters(self._connection)
        return Cost(time.monotonic(), client_cpu(), server_cpu(self._server.pid), wal_bytes, transactions)


def _server_counters(connection: psycopg.Connection) -> tuple[int, int]:
    row = connection.execute(
        "SELECT (pg_current_wal_lsn() - '0/0'::pg_lsn)::bigint, xact_commit + xact_rollback"
        " FROM pg_stat_database WHERE datname = current_database()"
    ).fetchone()
    if row is None:
        message = "pg_stat_database does not list the current database"
        raise LookupError(message)
    return int(row[0]), int(row[1])


def client_cpu() -> float:
    """CPU seconds of this process and of the children it has reaped."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def server_cpu(parent: int) -> float:
    """CPU seconds of the server's parent process, its live children and those it has reaped."""
    ticks = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        fields = _stat_fields(stat)
        if stat.parent.name == str(parent):
            ticks += _ticks(fields[OWN]) + _ticks(fields[REAPED])
        elif fields and fields[PARENT] == str(parent):
            ticks += _ticks(fields[OWN])
    return ticks / TICKS


def _stat_fields(stat: Path) -> list[str]:
    try:
        return stat.read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def _ticks(fields: list[str]) -> int:
    return sum(int(field) for field in fields)
