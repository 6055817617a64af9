"""`make interactions`: switch every feature off once, and list the tests that do not notice."""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys

from tests.matrix.table import ROOT, read_matrix

RESULT = re.compile(r"^(PASSED|FAILED|ERROR) (tests/\S+::.+?)(?: - .*)?$", re.MULTILINE)

#: A test that fails leaves connections open, of which Python tells during another one.
PLUGIN = ("-p", "tests.matrix.inverting", "-W", "ignore::pytest.PytestUnraisableExceptionWarning")


def main() -> int:
    """Run the tests of each feature without it; 1 where one of them passes."""
    parser = argparse.ArgumentParser(prog="python -m tests.matrix", description=__doc__)
    parser.add_argument("--only", default="", help="features whose name contains this")
    wanted = parser.parse_args().only
    missed = 0
    _say("| feature | tests that notice | tests that do not |\n|---|---|---|")
    for name in read_matrix().features:
        if wanted in name:
            noticed, unnoticed = _tried(name)
            _say(f"| {name} | {len(noticed)} | {', '.join(unnoticed)} |")
            missed += len(unnoticed) + (not noticed)
    return int(missed > 0)


def _tried(feature: str) -> tuple[list[str], list[str]]:
    """Run the tests of a feature on both databases; return those that notice, and the others."""
    tests = read_matrix().features[feature].tests
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-rA", "-p", "no:cacheprovider", *PLUGIN, *tests],
        cwd=ROOT,
        env={**os.environ, "GANDY_TEST_WITHOUT": feature},
        capture_output=True,
        text=True,
        check=False,
    )
    found = RESULT.findall(ended.stdout)
    if not found:
        sys.exit(f"{feature}: no test was run\n{ended.stdout[-2000:]}{ended.stderr[-2000:]}")
    noticed = [test for how, test in found if how == "PASSED"]
    return noticed, [test for how, test in found if how != "PASSED"]


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201  # it talks to the terminal


if __name__ == "__main__":
    sys.exit(main())
