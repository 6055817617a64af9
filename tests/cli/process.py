"""The command line as a real process, in a folder of its own."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

PATIENCE = 40


def run_gandy(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run `python -m gandy` as a user would, with nothing of Gandy's in the environment."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("GANDY_")}
    return subprocess.run(
        [sys.executable, "-m", "gandy", *arguments],
        cwd=folder,
        env={**inherited, **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=55,
    )


def read_until(channel: int, word: bytes) -> bytes:
    """Read until a word has come, or the other side is gone."""
    read, until = b"", time.monotonic() + PATIENCE
    while word not in read:
        ready, _, _ = select.select([channel], [], [], until - time.monotonic())
        assert ready, f"{word!r} did not come: {read!r}"
        try:
            part = os.read(channel, 4096)
        except OSError:  # how a terminal says that nobody writes any more
            break
        if not part:
            break
        read += part
    return read
