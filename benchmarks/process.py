"""A contestant's process, seen from the harness."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from benchmarks.environments import python_of

if TYPE_CHECKING:
    from types import TracebackType

ROOT = Path(__file__).resolve().parent.parent


class ContestantError(RuntimeError):
    """A contestant raised; carries its traceback."""

    def __init__(self, contestant: str, trace: str) -> None:
        super().__init__(f"contestant {contestant} failed:\n{trace}")
        self.contestant = contestant
        self.trace = trace


@dataclass(frozen=True, slots=True)
class Launch:
    """How a contestant is started: its module, and the pinned environment it needs, if not ours."""

    module: str
    environment: str | None = None
    arguments: tuple[str, ...] = ()

    def command(self) -> list[str]:
        """The command line."""
        python = python_of(self.environment) if self.environment else Path(sys.executable)
        return [str(python), "-m", self.module, *self.arguments]


class ContestantProcess:
    """Starts a contestant and passes it one request at a time."""

    def __init__(self, name: str, launch: Launch) -> None:
        self.name = name
        self._process = subprocess.Popen(
            launch.command(),
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.answer()

    @property
    def pid(self) -> int:
        """For reading its CPU time."""
        return self._process.pid

    def ask(self, verb: str, **arguments: object) -> None:
        """Send a request and return at once, so that several processes can work together."""
        if self._process.stdin is None:
            raise ContestantError(self.name, "its standard input is closed")
        self._process.stdin.write(json.dumps({"verb": verb, "arguments": arguments}) + "\n")
        self._process.stdin.flush()

    def answer(self) -> Any:  # noqa: ANN401 - whatever JSON the verb answers
        """Wait for the answer to the last request."""
        line = self._process.stdout.readline() if self._process.stdout else ""
        if not line:
            raise ContestantError(self.name, f"it ended with code {self._process.wait()}")
        message = json.loads(line)
        if "error" in message:
            raise ContestantError(self.name, message["error"])
        return message["result"]

    def call(self, verb: str, **arguments: object) -> Any:  # noqa: ANN401 - whatever JSON the verb answers
        """Send a request and wait for its answer."""
        self.ask(verb, **arguments)
        return self.answer()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
