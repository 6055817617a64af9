"""How many jobs that compute a command of Gandy ends in a second, once all its processes work."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from benchmarks.command import running
from benchmarks.cores.application import app, compute
from benchmarks.probe import family_cpu
from gandy.store.drivers.opening import migrate

if TYPE_CHECKING:
    import psycopg

    from benchmarks.rounds import Measured
    from benchmarks.server import Server

APPLICATION: Final = "benchmarks.cores.application:app"
#: Long beside what a claim and an end cost; short, since a hundred of them run in turn on the event loop.
MILLISECONDS: Final = 2
#: More than so many processes can end within the time.
JOBS_PER_SECOND: Final = 1_500
START_DEADLINE: Final = 60.0
LOOK_EVERY: Final = 0.05
ENDED: Final = b"SELECT count(*), count(DISTINCT worker_id) FROM gandy.history"


@dataclass(frozen=True, slots=True)
class Span:
    """The seconds for which jobs run before they are counted, and those for which they are."""

    warm_up: float
    window: float


class WorkerMissingError(RuntimeError):
    """Not every worker process ended a job within the time."""

    def __init__(self, found: int, wanted: int) -> None:
        super().__init__(f"{found} of {wanted} worker processes ended a job within {START_DEADLINE:g} s")
        self.found = found


def measure(server: Server, processes: int, span: Span) -> Measured:
    """Run `gandy up` with so many worker processes on a queue that outlasts the window, and count."""
    name = "bench_cores"
    with server.database(name), server.connect(name) as watcher:
        url = server.url(name)
        migrate(url)
        _fill(url, int(JOBS_PER_SECOND * (span.warm_up + span.window)))
        with running(url, APPLICATION, ("up", "--port", "0", "--workers", str(processes))) as process:
            _await_all(watcher, processes)
            time.sleep(span.warm_up)
            return _count(watcher, process.pid, span.window)


def _fill(url: str, jobs: int) -> None:
    app.configure({"database": {"url": url}})
    with app as sync:
        sync.enqueue_many(compute, [MILLISECONDS] * jobs)


def _await_all(watcher: psycopg.Connection, processes: int) -> None:
    deadline = time.monotonic() + START_DEADLINE
    while (found := _ended(watcher)[1]) < processes:
        if time.monotonic() > deadline:
            raise WorkerMissingError(found, processes)
        time.sleep(LOOK_EVERY)


def _count(watcher: psycopg.Connection, pid: int, window: float) -> Measured:
    begun, ended, busy = time.monotonic(), _ended(watcher)[0], family_cpu(pid)
    time.sleep(window)
    took = time.monotonic() - begun
    return {
        "per second": (_ended(watcher)[0] - ended) / took,
        "cores": (family_cpu(pid) - busy) / took,
    }


def _ended(watcher: psycopg.Connection) -> tuple[int, int]:
    row = watcher.execute(ENDED).fetchone()
    return (int(row[0]), int(row[1])) if row else (0, 0)
