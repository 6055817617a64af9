"""Gandy's own processes, started as a user would, and hurt as production does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ROOT = Path(__file__).resolve().parents[2]
SCALED = {
    "GANDY_WORKER_LEASE_FOR": "2s",
    "GANDY_WORKER_HEARTBEAT_EVERY": "300ms",
    "GANDY_WORKER_POLL_EVERY": "200ms",
    "GANDY_WORKER_SHUTDOWN_GRACE": "3s",
    "GANDY_MANIFEST_MANAGER_POLL_EVERY": "300ms",
    "GANDY_DISPATCHER_POLL_EVERY": "300ms",
    "GANDY_DATABASE_CONNECT_TIMEOUT": "2s",
}


@dataclass(slots=True)
class Fleet:
    """The processes of one journey."""

    url: str
    folder: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    app: str = "tests.journeys.apps.witness:app"
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def witness(self) -> Path:
        """The file that the jobs append to."""
        return self.folder / "witness"

    def start(self, *arguments: str, hook: Path | None = None) -> subprocess.Popen[bytes]:
        """Start `gandy` with these arguments; the hook is a folder whose sitecustomize Python runs first."""
        log = (self.folder / f"process-{len(self.processes)}.log").open("wb")
        environment = {
            **os.environ,
            **SCALED,
            **self.environment,
            "GANDY_DATABASE_URL": self.url,
            "WITNESS": str(self.witness),
            "PYTHONPATH": os.pathsep.join(map(str, [ROOT] if hook is None else [hook, ROOT])),
        }
        command = [sys.executable, "-m", "gandy", "--app", self.app, *arguments]
        process = subprocess.Popen(
            command, cwd=self.folder, env=environment, stdout=log, stderr=log, start_new_session=True
        )
        log.close()
        self.processes.append(process)
        return process

    def start_worker(self, hook: Path | None = None) -> subprocess.Popen[bytes]:
        """Start a worker."""
        return self.start("work", hook=hook)

    def start_manager(self) -> subprocess.Popen[bytes]:
        """Start what reaps and dispatches, in a process that nobody hurts."""
        return self.start("up", "--services", "manifest-manager,dispatcher")

    def log_of(self, process: subprocess.Popen[bytes]) -> str:
        """What a process has said so far."""
        return (self.folder / f"process-{self.processes.index(process)}.log").read_text(errors="replace")

    def witnessed(self, word: str) -> list[str]:
        """The lines of the witness that begin with a word."""
        if not self.witness.exists():
            return []
        return [line for line in self.witness.read_text().splitlines() if line.startswith(f"{word} ")]

    def unended(self, process: subprocess.Popen[bytes]) -> int:
        """How many jobs of a process have begun and not ended."""
        begun, ended = (
            sum(1 for line in self.witnessed(word) if line.endswith(f" {process.pid}"))
            for word in ("begin", "end")
        )
        return begun - ended

    def logs(self) -> str:
        """What all processes have said, for a failing test's message."""
        return "\n".join(f"--- {p.pid}\n{self.log_of(p)[-2000:]}" for p in self.processes)


@contextmanager
def fleet(url: str, folder: Path, **environment: str) -> Iterator[Fleet]:
    """Start processes; whatever happens, none is left."""
    ships = Fleet(url, folder, environment)
    try:
        yield ships
    finally:
        for process in ships.processes:
            process.send_signal(signal.SIGCONT)
            process.kill()
            process.wait()


def freeze_mid_run(ships: Fleet, process: subprocess.Popen[bytes]) -> None:
    """Stop a worker at an instant when a job of its own has begun and not ended."""

    def is_caught() -> bool:
        process.send_signal(signal.SIGSTOP)
        if ships.unended(process):
            return True
        process.send_signal(signal.SIGCONT)
        return False

    wait_until(is_caught, "the worker is frozen in the middle of a job", within=60)


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kill with -9, and see it gone."""
    process.kill()
    wait_until(lambda: process.poll() is not None, "the killed process is gone")
