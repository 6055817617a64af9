"""The wheel, built once, and an environment that holds nothing else."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).parents[2]
INSTALL_SECONDS = 300


@dataclass(frozen=True, slots=True)
class CleanEnvironment:
    """An environment with the wheel in it, and a folder to run from where no source is near."""

    programs: Path
    folder: Path

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment as a user would who never saw this repository."""
        variables = {
            name: value for name, value in os.environ.items() if not name.startswith(("GANDY_", "PYTHON"))
        }
        return subprocess.run(
            [self.programs / command[0], *command[1:]],
            cwd=self.folder,
            env=variables,
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The distribution as it would be published."""
    folder = tmp_path_factory.mktemp("wheel")
    _pip(["wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), str(ROOT)])
    (built,) = folder.glob("gandy-*.whl")
    return built


@pytest.fixture(scope="session")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> CleanEnvironment:
    """A new environment with the wheel and every extra, and nothing of this repository."""
    folder = tmp_path_factory.mktemp("clean")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "venv"], check=True)
    programs = folder / "venv" / "bin"
    constraints = ["--require-hashes", "--constraint", str(ROOT / "constraints.txt")]
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    wanted = f"gandy[all] @ {wheel.as_uri()}#sha256={digest}"
    _pip(["--python", str(programs / "python"), "install", "--no-compile", *constraints, wanted])
    (folder / "elsewhere").mkdir()
    return CleanEnvironment(programs, folder / "elsewhere")


def _pip(arguments: Sequence[str]) -> None:
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=INSTALL_SECONDS)
    assert result.returncode == 0, result.stdout + result.stderr
