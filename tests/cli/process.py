"""The command line as a real process, in a folder of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


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
