"""Virtual environments of the peers: one each, pinned, made when first needed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ENVIRONMENTS = HERE / ".venvs"
REQUIREMENTS = HERE / "peers"
STAMP = "installed.txt"


def python_of(environment: str) -> Path:
    """The interpreter of a peer's environment, which is made anew when its pins have changed."""
    home = ENVIRONMENTS / environment
    pins = (REQUIREMENTS / f"{environment}.txt").read_text()
    stamp = home / STAMP
    if not stamp.exists() or stamp.read_text() != pins:
        _install(home, environment)
        stamp.write_text(pins)
    return home / "bin" / "python"


def _install(home: Path, environment: str) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--clear", home], check=True)
    pip: list[str | Path] = [
        home / "bin" / "python",
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
    ]
    subprocess.run([*pip, "-r", REQUIREMENTS / f"{environment}.txt"], check=True)
