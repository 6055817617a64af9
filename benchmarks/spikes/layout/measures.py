"""What is asked of each layout beside claim and finish: retention, locks, lookups, sizes, log rows."""

from __future__ import annotations

import statistics
import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from datetime import time as clock
from typing import TYPE_CHECKING, Self

from benchmarks.probe import Meter
from benchmarks.spikes.layout.drive import keep_until
from benchmarks.spikes.layout.schema import TODAY, dead_day, partition_days, partition_name
from benchmarks.statements import load_statements

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import date

    import psycopg

    from benchmarks.spikes.layout.drive import Desk

SQL = load_statements(__file__)
PRELOAD = SQL["preload"]
DELETE_BATCH = SQL["delete_batch"]
LOG_ROWS = SQL["log_rows"]
ACTIVE = SQL["active"]
DELETE_SIZE = 5000
PROBE_ID = -1_000_000_000


@dataclass(slots=True)
class Prober:
    """A writer that never stops: its slowest statement is the longest lock that others saw."""

    desk: Desk
    longest: float = 0.0
    _stop: threading.Event | None = None
    _thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._probe)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._stop is not None and self._thread is not None:
            self._stop.set()
            self._thread.join()

    def _probe(self) -> None:
        statement = preload_statement(self.desk)
        with self.desk.connect() as connection:
            number = 0
            while self._stop is not None and not self._stop.is_set():
                number += 1
                started = time.monotonic()
                with connection.transaction(force_rollback=True):
                    connection.execute(statement, run_values(rows=1, day=TODAY, first=PROBE_ID - number))
                self.longest = max(self.longest, time.monotonic() - started)
                time.sleep(0.001)


def preload_statement(desk: Desk) -> bytes:
    """The statement that writes finished runs in this layout."""
    keyed = "bucket date" in desk.layout.ddl.split("LIKE", 1)[0] and desk.layout.active == "metadata_live"
    return PRELOAD.format(
        table="metadata", bucket="bucket," if keyed else "", value="%(bucket)s," if keyed else ""
    ).encode()


def run_values(*, rows: int, day: date, first: int) -> dict[str, object]:
    """Parameters of a statement that writes finished runs which die on one day."""
    return {
        "keep_until": datetime.combine(day, clock(7), tzinfo=UTC),
        "bucket": day,
        "rows": rows,
        "first": first,
    }


def preload(desk: Desk, rows: int) -> None:
    """Write finished runs: some on every day, and the given number on the day that retention will remove."""
    with desk.connect() as connection:
        statement = preload_statement(desk)
        for number, day in enumerate(partition_days()):
            connection.execute(statement, run_values(rows=rows // 100, day=day, first=-(number + 1) * rows))
        connection.execute(statement, run_values(rows=rows, day=dead_day(), first=0))
        connection.execute("VACUUM ANALYZE metadata")


def retention(desk: Desk, rows: int) -> Mapping[str, float]:
    """Remove the preloaded runs the way this layout would."""
    with desk.connect() as connection, Prober(desk) as prober:
        connection.execute("CHECKPOINT")
        meter = Meter(desk.server, connection)
        with meter.measure():
            longest = drop_day(connection) if desk.layout.daily else delete_rows(connection)
        vacuum = _vacuum_seconds(connection)
    return {
        "rows/s": rows / meter.cost.seconds,
        "WAL bytes/row": meter.cost.wal_bytes / rows,
        "longest statement ms": longest * 1000,
        "longest wait of a writer ms": prober.longest * 1000,
        "vacuum afterwards s": vacuum,
    }


def _vacuum_seconds(connection: psycopg.Connection) -> float:
    started = time.monotonic()
    connection.execute("VACUUM metadata")
    return time.monotonic() - started


def delete_rows(connection: psycopg.Connection) -> float:
    """Keyset walk in batches; answers the longest batch."""
    longest, after_at, after_id = 0.0, datetime.combine(dead_day(), clock(), tzinfo=UTC), -(10**12)
    while True:
        started = time.monotonic()
        row = connection.execute(
            DELETE_BATCH,
            {"after_at": after_at, "after_id": after_id, "keep_until": keep_until(), "batch": DELETE_SIZE},
        ).fetchone()
        longest = max(longest, time.monotonic() - started)
        if row is None or not row[2]:
            return longest
        after_at, after_id = row[0], row[1]


def drop_day(connection: psycopg.Connection) -> float:
    """Detach the day without blocking anyone, then drop it; answers the longer of the two."""
    name = partition_name("metadata", dead_day())
    started = time.monotonic()
    connection.execute(f"ALTER TABLE metadata DETACH PARTITION {name} CONCURRENTLY".encode(), prepare=False)
    detached = time.monotonic()
    connection.execute(f"DROP TABLE {name}".encode())
    return max(detached - started, time.monotonic() - detached)


def lookups(desk: Desk, repetitions: int = 300) -> Mapping[str, float]:
    """A run by its id alone, and the active runs: time and buffers, with no settings of ours."""
    with desk.server.connect(desk.database) as connection:
        row = connection.execute("SELECT max(id) FROM metadata").fetchone()
        newest = int(row[0]) if row else 0
        by_id = b"SELECT * FROM metadata WHERE id = %s"
        active = ACTIVE.format(table=desk.layout.active).encode()
        return {
            "by id µs": _median_micros(connection, by_id, [newest], repetitions=repetitions),
            "by id buffers": _buffers(connection, by_id, [newest]),
            "active µs": _median_micros(connection, active, [], repetitions=repetitions // 10),
            "active buffers": _buffers(connection, active, []),
        }


def _median_micros(
    connection: psycopg.Connection, statement: bytes, parameters: list[object], *, repetitions: int
) -> float:
    taken = []
    for _ in range(repetitions):
        started = time.perf_counter()
        connection.execute(statement, parameters).fetchall()
        taken.append(time.perf_counter() - started)
    return statistics.median(taken) * 1e6


def _buffers(connection: psycopg.Connection, statement: bytes, parameters: list[object]) -> float:
    row = connection.execute(b"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + statement, parameters).fetchone()
    plan = row[0][0]["Plan"] if row else {}
    return float(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])


def sizes(desk: Desk) -> Mapping[str, float]:
    """Bytes of the history, tables and indexes."""
    with desk.connect() as connection:
        row = connection.execute(
            "SELECT sum(pg_table_size(c.oid)), sum(pg_indexes_size(c.oid)) FROM pg_class c"
            " WHERE c.relname LIKE 'metadata%' AND c.relkind = 'r'"
        ).fetchone()
    return {"table MB": float(row[0]) / 1e6, "indexes MB": float(row[1]) / 1e6} if row else {}


def log_rows(desk: Desk, rows: int, *, leaf: bool) -> Mapping[str, float]:
    """Insert log rows as one batch after another of 1,500."""
    table = partition_name(desk.layout.log, dead_day()) if leaf else desk.layout.log
    statement = LOG_ROWS.format(table=table).encode()
    with desk.connect() as connection:
        meter = Meter(desk.server, connection)
        with meter.measure():
            for _ in range(rows // 1500):
                connection.execute(statement, {"bucket": dead_day(), "rows": 1500})
    return {"rows/s": rows / meter.cost.seconds, "PostgreSQL µs/row": meter.cost.server_cpu / rows * 1e6}
