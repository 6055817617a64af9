"""A command of Gandy as its own process: started on a database, awaited, stopped."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks.shapes.stand import ROOT, stop

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

START_DEADLINE: Final = 60.0
LOOK_EVERY: Final = 0.25
#: What the log of `gandy up` says when its services run.
UP: Final = b" is up"


@contextmanager
def running(url: str, application: str, arguments: Sequence[str]) -> Iterator[subprocess.Popen[bytes]]:
    """Run `gandy` with these arguments, and wait until it is up."""
    with tempfile.TemporaryDirectory(prefix="gandy-bench-") as folder:
        log = Path(folder) / "log"
        environment = {
            **os.environ,
            "GANDY_DATABASE_URL": url,
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")]),
            "XDG_STATE_HOME": folder,
        }
        command = [sys.executable, "-m", "gandy", "--app", application, *arguments]
        with log.open("wb") as output:
            process = subprocess.Popen(
                command, cwd=folder, env=environment, stdout=output, stderr=output, start_new_session=True
            )
        try:
            _await_start(process, log)
            yield process
        finally:
            stop(process)


def _await_start(process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_DEADLINE
    while UP not in log.read_bytes():
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"it did not start; its log says:\n{log.read_text(errors='replace')[-2000:]}")
        time.sleep(LOOK_EVERY)
