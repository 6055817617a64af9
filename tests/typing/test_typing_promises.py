"""The promises that type checkers keep: what must type-check does, and what must not is refused line by line."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Checker = Callable[[Path, Path], set[int]]
FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]

pytestmark = [pytest.mark.timeout(300), pytest.mark.xdist_group("type checkers")]


def mypy(file: Path, cache: Path) -> set[int]:
    command = [
        *(sys.executable, "-m", "mypy", "--strict", "--config-file=", f"--cache-dir={cache}"),
        *("--disable-error-code=empty-body", "--no-error-summary", "--no-pretty", file.name),
    ]
    done = subprocess.run(command, cwd=FOLDER, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    found = re.findall(r"^([^:\n]+):(\d+):(?:\d+:)? error: (.*)$", done.stdout, re.MULTILINE)
    elsewhere = [line for line in found if line[0] != file.name]
    assert not elsewhere
    return {int(number) for _, number, _ in found}


def pyright(file: Path, cache: Path) -> set[int]:
    settings = cache / "pyrightconfig.json"
    settings.write_text(
        json.dumps(
            {
                "include": [os.path.relpath(file, cache)],
                "extraPaths": [str(ROOT / "src"), str(FOLDER)],
                "typeCheckingMode": "standard",
                "pythonVersion": "3.11",
            }
        )
    )
    command = [
        sys.executable,
        "-m",
        "pyright",
        "--outputjson",
        f"--pythonpath={sys.executable}",
        "-p",
        str(settings),
    ]
    done = subprocess.run(command, cwd=FOLDER, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert report["summary"]["filesAnalyzed"] >= 1
    errors = [each for each in report["generalDiagnostics"] if each["severity"] == "error"]
    return {each["range"]["start"]["line"] + 1 for each in errors}


def environment() -> dict[str, str]:
    return {**os.environ, "MYPYPATH": f"{ROOT / 'src'}{os.pathsep}{FOLDER}"}


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for what a checker keeps from file to file."""
    return tmp_path_factory.mktemp("cache")


@pytest.mark.parametrize("check", [mypy, pyright])
def test_right_inputs_are_accepted(check: Checker, cache: Path) -> None:
    assert check(FOLDER / "accepted.py", cache) == set()


@pytest.mark.parametrize("check", [mypy, pyright])
def test_each_wrong_input_is_refused_and_nothing_else(check: Checker, cache: Path) -> None:
    lines = (FOLDER / "refused.py").read_text().splitlines()
    marked = {number for number, line in enumerate(lines, 1) if line.endswith("# refused")}
    assert len(marked) > 20

    assert check(FOLDER / "refused.py", cache) == marked
