"""Workers under a steady load, and what can be measured of them from outside."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import psycopg

from tests.journeys.apps.witness import Job, app, block_the_loop, end_unstorably, tick_off
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable

    from tests.journeys.processes import Fleet
    from tests.support.pgbouncer import PgBouncer
    from tests.support.postgres import ThrowawayServer
    from tests.support.proxy import Proxy

UNFINISHED = """
SELECT (SELECT count(*) FROM {schema}work_queue WHERE status = 'queued')
     + (SELECT count(*) FROM {schema}metadata WHERE train_state IN ('pending', 'in_progress'))
"""
COMPLETED = """
SELECT count(DISTINCT input ->> 'number') FROM {schema}metadata
WHERE train_state = 'completed' AND name = 'tick_off'
"""
HOSTILE = {"block_the_loop": block_the_loop, "end_unstorably": end_unstorably}


@dataclass(frozen=True, slots=True)
class Scale:
    """How long each part takes; jobs wait more than they work, so that a busy machine hardly matters."""

    jobs: int  #: that wait when the fault comes
    job_milliseconds: float
    measure_seconds: float
    fault_seconds: float
    workers: int = 2


SHORT = Scale(jobs=900, job_milliseconds=120, measure_seconds=1.0, fault_seconds=3.0)
LONG = Scale(jobs=9_000, job_milliseconds=60, measure_seconds=5.0, fault_seconds=15.0)


@dataclass(frozen=True, slots=True)
class Toll:
    """What a fault cost."""

    fault: str
    baseline: float  #: jobs a second before it
    during: float | None  #: as a share of the baseline; None: it was over in a moment
    recovered: float  #: as a share of the baseline
    recovered_after: float | None  #: seconds from the fault's end to 80 % of the baseline; None: never
    lost: int  #: jobs that are not on record as completed in the end
    repeated: int  #: executions beyond the first of each job


@dataclass(slots=True)
class Stage:
    """One database, the processes on it, and the server where it is our own."""

    ships: Fleet
    scale: Scale
    server: ThrowawayServer | None = None  #: None: the database is a file
    proxy: Proxy | None = None  #: between the processes and the notifications of a server
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)
    queued: int = 0
    pooler: PgBouncer | None = None  #: between the processes and the server
    beside: str = ""  #: the database without what stands between it and the processes

    @property
    def url(self) -> str:
        return self.beside or self.ships.url

    def load(self, jobs: int) -> None:
        """Queue so many more jobs."""
        numbers = range(self.queued, self.queued + jobs)
        app.configure({"database": {"url": self.url}})
        with app as sync:
            sync.enqueue_many(
                tick_off, [Job(number=n, milliseconds=self.scale.job_milliseconds) for n in numbers]
            )
        self.queued += jobs

    def add_hostile(self, name: str, *, jobs: int, milliseconds: float = 0.0) -> None:
        """Queue jobs that hurt; they are not counted among the others."""
        app.configure({"database": {"url": self.url}})
        with app as sync:
            hostile = [Job(number=-1 - number, milliseconds=milliseconds) for number in range(jobs)]
            sync.enqueue_many(HOSTILE[name], hostile, priority=31)

    def top_up(self, least: int) -> None:
        """See that there is something to do: queue more until so many are left."""
        left = self.queued - self.ended()
        if left < least:
            self.load(least - left)

    def ended(self) -> int:
        """How many executions have come to their end."""
        return len(self.ships.witnessed("end"))

    def pass_time(self, seconds: float) -> None:
        """Let things go on."""
        begun = time.monotonic()
        wait_until(lambda: time.monotonic() - begun >= seconds, "time has passed", within=seconds + 5)

    def rate(self, seconds: float) -> float:
        """Measure how many jobs end in a second."""
        return self.rate_while(lambda: self.pass_time(seconds))

    def rate_while(self, work: Callable[[], None]) -> float:
        """Measure how many jobs end in a second while something happens."""
        begun, before = time.monotonic(), self.ended()
        work()
        return (self.ended() - before) / (time.monotonic() - begun)

    def wait_for_rate(self, wanted: float, within: float = 60.0) -> float | None:
        """Wait until so many jobs end in a second, and say how long that took; None: it never was so."""
        begun = time.monotonic()
        while time.monotonic() - begun < within:
            self.top_up(self.scale.jobs // 3)
            if self.rate(0.5) >= wanted:
                return time.monotonic() - begun
        return None

    def ask(self, query: str) -> int:
        """One number."""
        if self.server is None:
            with closing(sqlite3.connect(self.url.removeprefix("sqlite:///"), timeout=30)) as link:
                return int(link.execute(query.format(schema="")).fetchone()[0])
        with psycopg.connect(self.url, autocommit=True, connect_timeout=10) as connection:
            row = connection.execute(query.format(schema="gandy.").encode()).fetchone()
        assert row is not None
        return int(row[0])

    def is_over(self) -> bool:
        """Whether nothing waits and nothing runs; while the database is away, nobody knows."""
        try:
            return self.ask(UNFINISHED) == 0
        except psycopg.OperationalError:
            return False

    def repeated(self) -> int:
        """Executions beyond the first of each job."""
        begun = [line.split()[1] for line in self.ships.witnessed("begin")]
        return len(begun) - len(set(begun))

    def lost(self) -> int:
        """Jobs that are not on record as completed."""
        return self.queued - self.ask(COMPLETED)
