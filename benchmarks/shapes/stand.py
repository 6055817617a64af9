"""One `gandy up` on one seeded queue: caps and lengths are set while it runs, marks are read."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks.shapes.application import FOLDER_VARIABLE, GROUPS, LENGTH, MARK, TRAINS, app

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from benchmarks.shapes.grid import Cap, Load

ROOT: Final = Path(__file__).resolve().parents[2]
TOKEN: Final = "shapes-of-a-benchmark"  # noqa: S105 of a process that lives for seconds
START_DEADLINE: Final = 60.0
STOP_DEADLINE: Final = 15.0
LOOK_EVERY: Final = 0.02


class StandError(RuntimeError):
    """The process of a shape did not do what every process must; carries the end of its log."""

    def __init__(self, what: str, log: str) -> None:
        super().__init__(f"{what}; the end of its log says:\n{log[-2000:]}")
        self.what = what


@dataclass(slots=True)
class Queue:
    """A database with entries of one kind of job in three groups, and the files that its jobs use."""

    url: str
    folder: Path
    kind: str
    depth: int
    seeded: list[int] = field(default_factory=lambda: [0] * len(GROUPS))

    def prepare(self) -> None:
        """Make the files, and fill the queue."""
        (self.folder / "marks").touch()
        self.set_length(0.0)
        self.top_up()

    def set_length(self, milliseconds: float) -> None:
        """Say how long a job that begins from now on takes."""
        (self.folder / "length").write_bytes(LENGTH.pack(milliseconds))

    def marks(self) -> list[tuple[float, float, int]]:
        """Every execution that has ended."""
        data = (self.folder / "marks").read_bytes()
        whole = len(data) - len(data) % MARK.size
        return list(MARK.iter_unpack(data[:whole]))

    def top_up(self) -> None:
        """Queue again what was used up, group by group."""
        used = [0] * len(GROUPS)
        for _, _, group in self.marks():
            used[group] += 1
        app.configure({"database": {"url": self.url}})
        with app as sync:
            for group, name in enumerate(GROUPS):
                missing = self.depth // len(GROUPS) - (self.seeded[group] - used[group])
                if missing > self.depth // 20:
                    sync.enqueue_many(TRAINS[self.kind], [group] * missing, group=name)
                    self.seeded[group] += missing


@dataclass(slots=True)
class Stand:
    """A running process, and what is asked of it."""

    queue: Queue
    process: subprocess.Popen[bytes]
    log: Path
    port: int

    def await_work(self) -> None:
        """Wait until jobs end and the dashboard answers."""
        size = (self.queue.folder / "marks").stat().st_size
        self._wait(lambda: (self.queue.folder / "marks").stat().st_size > size, "no job ended")
        self._wait(self._answers, "its port did not answer")

    def apply(self, cap: Cap) -> None:
        """Set the cap: a group's cap is that of the only group that is enabled."""
        self.queue.set_length(0.0)
        is_capped = cap.over == "group"
        for name in GROUPS:
            self._post(f"groups/{name}/reset", None)
        if is_capped:
            self._post(f"groups/{GROUPS[0]}/set", {"max_active_jobs": cap.places})
            for name in GROUPS[1:]:
                self._post(f"groups/{name}/set", {"is_enabled": False})
            self._settle()

    def rate(self, milliseconds: float, *, warm_up: float, window: float, at_once: int) -> float:
        """Measure how many jobs are done in a second; of a job that is cut by the window, its part counts.

        `at_once` of them are under way at a time; those that the window cuts are waited for.
        """
        self.queue.set_length(milliseconds)
        self._pass(warm_up)
        begun = time.monotonic()
        self._pass(window)
        ended = time.monotonic()

        def is_complete() -> bool:
            return sum(job_begun > ended for job_begun, _, _ in self.queue.marks()) >= at_once

        self._wait(is_complete, "jobs did not end")
        if self.process.poll() is not None:
            raise StandError("the process ended", self._said())
        return sum(_parts(self.queue.marks(), begun, ended)) / (ended - begun)

    def _settle(self) -> None:
        """Wait until runs of the disabled groups, which were claimed before, are through."""

        def is_settled() -> bool:
            since = time.monotonic() - 0.3
            return all(group == 0 for _, ended, group in self.queue.marks() if ended > since)

        self._wait(is_settled, "jobs of a disabled group went on", pause=0.3)

    def _answers(self) -> bool:
        try:
            self._post(f"groups/{GROUPS[0]}/reset", None)
        except (urllib.error.URLError, ConnectionError):
            return False
        return True

    def _post(self, path: str, body: dict[str, object] | None) -> None:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/api/v1/{path}",
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"},
            method="POST",
        )
        with urllib.request.urlopen(request, timeout=20) as answer:  # noqa: S310
            answer.read()

    def _wait(self, condition: Callable[[], bool], what: str, *, pause: float = LOOK_EVERY) -> None:
        deadline = time.monotonic() + START_DEADLINE
        while True:
            self._pass(pause)
            if condition():
                return
            if time.monotonic() > deadline or self.process.poll() is not None:
                raise StandError(what, self._said())

    def _pass(self, seconds: float) -> None:
        time.sleep(seconds)

    def _said(self) -> str:
        return self.log.read_text(errors="replace")


@contextmanager
def running_up(queue: Queue, load: Load) -> Iterator[Stand]:
    """Start `gandy up` with its defaults, all services on; stop it at the end."""
    port, log = _free_port(), queue.folder / "up.log"
    environment = {
        **os.environ,
        FOLDER_VARIABLE: str(queue.folder),
        "GANDY_DATABASE_URL": queue.url,
        "GANDY_WEB_TOKEN": TOKEN,
        "PYTHONPATH": str(ROOT),
    }
    if load.kind == "process":
        environment["GANDY_WORKER_PROCESSES"] = str(load.slots)
    if load.global_cap is not None:
        environment["GANDY_DISPATCHER_MAX_ACTIVE_JOBS"] = str(load.global_cap)
    arguments = ["up", "--concurrency", str(load.slots), "--port", str(port)]
    command = [sys.executable, "-m", "gandy", "--app", "benchmarks.shapes.application:app", *arguments]
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, cwd=queue.folder, env=environment, stdout=output, stderr=output, start_new_session=True
        )
    try:
        stand = Stand(queue, process, log, port)
        queue.set_length(1.0)
        stand.await_work()
        yield stand
    finally:
        queue.set_length(0.0)
        stop(process)


def _parts(marks: list[tuple[float, float, int]], since: float, until: float) -> Iterator[float]:
    """Give the part of each execution that lies in a window."""
    for begun, ended, _ in marks:
        inside = min(ended, until) - max(begun, since)
        if inside > 0:
            yield inside / (ended - begun)


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


def stop(process: subprocess.Popen[bytes]) -> None:
    """Ask it to end; a process that does not is killed, with its children."""
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(timeout=STOP_DEADLINE)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
