"""The promises that type checkers keep: what must type-check does, and what must not is refused line by line."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Found = dict[str, set[int]]
FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]
FILES = ("accepted.py", "refused.py")

pytestmark = [pytest.mark.timeout(300), pytest.mark.xdist_group("type checkers")]


def mypy(cache: Path) -> Found:
    command = [
        *(sys.executable, "-m", "mypy", "--strict", "--config-file=", f"--cache-dir={cache}"),
        *("--disable-error-code=empty-body", "--no-error-summary", "--no-pretty", *FILES),
    ]
    done = subprocess.run(command, cwd=FOLDER, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    found = re.findall(r"^([^:\n]+):(\d+):(?:\d+:)? error: ", done.stdout, re.MULTILINE)
    return by_file((name, int(number)) for name, number in found)


def pyright(cache: Path) -> Found:
    settings = cache / "pyrightconfig.json"
    settings.write_text(
        json.dumps(
            {
                "include": [os.path.relpath(FOLDER / name, cache) for name in FILES],
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
    assert report["summary"]["filesAnalyzed"] >= len(FILES)
    errors = [each for each in report["generalDiagnostics"] if each["severity"] == "error"]
    return by_file((Path(each["file"]).name, each["range"]["start"]["line"] + 1) for each in errors)


def by_file(errors: Iterable[tuple[str, int]]) -> Found:
    """Sort the lines of errors; none is in any file but these."""
    found: Found = {name: set() for name in FILES}
    for name, number in errors:
        found[name].add(number)
    return found


def environment() -> dict[str, str]:
    return {**os.environ, "MYPYPATH": f"{ROOT / 'src'}{os.pathsep}{FOLDER}"}


@pytest.fixture(scope="module", params=[mypy, pyright])
def found(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Found:
    """What each checker refuses, by file; it reads the package and both files once."""
    check: Callable[[Path], Found] = request.param
    return check(tmp_path_factory.mktemp("cache"))


def test_right_inputs_are_accepted(found: Found) -> None:
    assert found["accepted.py"] == set()


def test_each_wrong_input_is_refused_and_nothing_else(found: Found) -> None:
    lines = (FOLDER / "refused.py").read_text().splitlines()
    marked = {number for number, line in enumerate(lines, 1) if line.endswith("# refused")}
    assert len(marked) > 20

    assert found["refused.py"] == marked
