"""Runs jobs through a layout: enqueue, then claim and finish on one connection or overlapped on two."""

from __future__ import annotations

import secrets
import threading
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from queue import SimpleQueue
from typing import TYPE_CHECKING

from benchmarks.probe import Cost, Meter
from benchmarks.spikes.layout.schema import KEEP_DAYS, dead_day

if TYPE_CHECKING:
    import psycopg

    from benchmarks.server import Server
    from benchmarks.spikes.layout.schema import Layout

WORKER = uuid.UUID(int=7)
OUTPUT = '{"ok": true, "seconds": 0.01}'
Claimed = list[tuple[int, str, str, int]]

ENQUEUE = """
INSERT INTO work_queue (
    owner, train_name, input, group_id, priority, due_at, scheduled_at, is_ready, created_at)
SELECT 'bench', 'send_invoice', i.input::text::{json}, 1, 10, now(), now(), true, now()
FROM unnest(%s::text[]) AS i (input)
"""


@dataclass(frozen=True, slots=True)
class Load:
    """How much and how: jobs, batch size, overlap, input size, a snapshot held open."""

    jobs: int
    batch: int = 500
    overlapped: bool = True
    input_bytes: int = 40
    old_snapshot: bool = False


@dataclass(frozen=True, slots=True)
class Desk:
    """One layout's database: where contestants are prepared and run."""

    server: Server
    layout: Layout
    database: str

    def connect(self) -> psycopg.Connection:
        """A connection to this layout's database."""
        connection = self.server.connect(self.database)
        for setting in self.layout.settings:
            connection.execute(setting.encode())
        return connection

    def create(self) -> None:
        """Make the tables."""
        with self.server.connect() as admin:
            admin.execute(f'CREATE DATABASE "{self.database}"'.encode())
        with self.connect() as connection:
            connection.execute(self.layout.ddl.encode(), prepare=False)


def warm_up(desk: Desk) -> None:
    """A few jobs, then statistics, so that no layout starts with the planner's guesses about new tables."""
    run_load(desk, Load(jobs=2_000))
    with desk.connect() as connection:
        connection.execute("ANALYZE")


def run_load(desk: Desk, load: Load) -> Cost:
    """Enqueue untimed, then measure claiming and finishing every job."""
    with desk.connect() as control, desk.connect() as watcher:
        control.execute("TRUNCATE work_queue")
        control.execute("CHECKPOINT")
        _enqueue(control, desk.layout, load)
        if load.old_snapshot:
            control.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
            control.execute("SELECT count(*) FROM manifest")
        meter = Meter(desk.server, watcher)
        with desk.connect() as claimer, desk.connect() as finisher, meter.measure():
            done = (
                _overlapped(desk.layout, load, claimer=claimer, finisher=finisher)
                if load.overlapped
                else _serial(desk.layout, load, claimer)
            )
    if done != load.jobs:
        message = f"{desk.layout.name}: finished {done} of {load.jobs} jobs"
        raise AssertionError(message)
    return meter.cost


def _enqueue(connection: psycopg.Connection, layout: Layout, load: Load) -> None:
    filler = secrets.token_urlsafe(load.input_bytes)[: max(0, load.input_bytes - 20)]
    column_type = "jsonb" if "input jsonb" in layout.ddl else "json"
    inputs = [f'{{"id": {n}, "f": "{filler}"}}' for n in range(load.jobs)]
    connection.execute(ENQUEUE.format(json=column_type).encode(), [inputs])
    connection.execute("ANALYZE work_queue")


def _serial(layout: Layout, load: Load, connection: psycopg.Connection) -> int:
    done = 0
    while claimed := _claim(layout, load, connection):
        done += _finish(layout, claimed, connection)
    return done


def _overlapped(
    layout: Layout, load: Load, *, claimer: psycopg.Connection, finisher: psycopg.Connection
) -> int:
    handover: SimpleQueue[Claimed] = SimpleQueue()

    def claim_all() -> None:
        while True:
            claimed = _claim(layout, load, claimer)
            handover.put(claimed)
            if not claimed:
                return

    thread = threading.Thread(target=claim_all)
    thread.start()
    done = 0
    while claimed := handover.get():
        done += _finish(layout, claimed, finisher)
    thread.join()
    return done


def _claim(layout: Layout, load: Load, connection: psycopg.Connection) -> Claimed:
    parameters = {
        "batch": load.batch,
        "now": datetime.now(tz=UTC),
        "worker": WORKER,
        "keep_until": keep_until(),
    }
    return connection.execute(layout.claim.encode(), parameters).fetchall()


def _finish(layout: Layout, claimed: Claimed, connection: psycopg.Connection) -> int:
    parameters = {
        "ids": [row[0] for row in claimed],
        "fences": [row[3] for row in claimed],
        "outputs": [OUTPUT] * len(claimed),
        "now": datetime.now(tz=UTC),
        "worker": WORKER,
        "bucket": dead_day(),
        "keep_until": keep_until(),
    }
    row = connection.execute(layout.finish.encode(), parameters).fetchone()
    return int(row[0]) if row else 0


def keep_until() -> datetime:
    """The instant until which today's runs are kept: the end of the day they die on, so one value per day."""
    return datetime.combine(dead_day(), time(), tzinfo=UTC) + timedelta(hours=KEEP_DAYS)
