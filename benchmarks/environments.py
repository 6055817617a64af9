"""Virtual environments of the peers, and one for plotting: pinned, made when first needed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ENVIRONMENTS = HERE / ".venvs"
PEERS = HERE / "peers"
STAMP = "installed.txt"


class EnvironmentUnavailableError(RuntimeError):
    """A peer's environment could not be made, for want of a network perhaps; carries what pip said last."""

    def __init__(self, environment: str, said: str) -> None:
        super().__init__(f"no environment for {environment}: {said}")
        self.environment = environment
        self.said = said


def python_of(environment: str) -> Path:
    """The interpreter of a peer's environment, which is made anew when its pins have changed."""
    home = ENVIRONMENTS / environment
    pins = _pins(environment).read_text()
    stamp = home / STAMP
    if not stamp.exists() or stamp.read_text() != pins:
        _install(home, environment)
        stamp.write_text(pins)
    return home / "bin" / "python"


def _pins(environment: str) -> Path:
    of_peer = PEERS / f"{environment}.txt"
    return of_peer if of_peer.exists() else HERE / f"{environment}.txt"


def _install(home: Path, environment: str) -> None:
    print(f"making the environment of {environment} ...", file=sys.stderr, flush=True)
    adaptation = PEERS / f"{environment}_setup.py"
    _run(environment, [sys.executable, "-m", "venv", "--clear", home])
    pip: list[str | Path] = [home / "bin" / "python", "-m", "pip", "install", "--quiet"]
    pip += ["--disable-pip-version-check", "--retries", "2", "-r", _pins(environment)]
    if adaptation.exists():
        # It is what lets the peer run on a Python that its metadata refuses.
        _run(environment, [*pip, "--ignore-requires-python"])
        _run(environment, [home / "bin" / "python", adaptation])
    else:
        _run(environment, pip)


def _run(environment: str, command: list[str | Path]) -> None:
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        raise EnvironmentUnavailableError(environment, lines[-1] if lines else "no word of why")
