"""One deliberate mistake in the lifecycle, and how it is tried."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.replacing import ROOT, SOURCE, TrialError, replaced

if TYPE_CHECKING:
    from collections.abc import Sequence

_NOTICED = ("FAILED tests", "ERROR tests")
FAILED = 1  # what pytest says where a test failed; anything else is a fault of the trial itself


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """A piece of one file that is replaced, and the tests that should notice soonest."""

    breaks: str  # in words: what is gone
    file: str  # below src/gandy/lifecycle
    old: str
    new: str
    tests: Sequence[str] = ()  # modules of tests/lifecycle
    may_survive: str = ""  # why no test can tell it from the original

    @property
    def path(self) -> Path:
        """Where the piece is, below the package."""
        return Path("lifecycle") / self.file

    def applied_to(self, text: str) -> str:
        """The text of the file with the mistake in it."""
        return replaced(text, self.old, self.new, file=self.file)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Which test noticed a mutant first, if any, and how long that took."""

    mutant: Mutant
    killer: str
    seconds: float


class Bench:
    """A copy of the package, in which one mutant at a time lives."""

    def __init__(self, folder: Path) -> None:
        self._source = folder / "src"
        shutil.copytree(SOURCE, self._source / "gandy", ignore=shutil.ignore_patterns("__pycache__"))

    def tried(self, mutant: Mutant, suite: Sequence[str]) -> Verdict:
        """Run the tests on the mutant until one fails."""
        file = self._source / "gandy" / mutant.path
        original = file.read_text(encoding="utf-8")
        file.write_text(mutant.applied_to(original), encoding="utf-8")
        started = time.monotonic()
        rest = [name for name in suite if name not in mutant.tests]
        try:
            killer = self._first_failure([*mutant.tests, *rest])
        finally:
            file.write_text(original, encoding="utf-8")
        return Verdict(mutant, killer, time.monotonic() - started)

    def _first_failure(self, modules: Sequence[str]) -> str:
        ended = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-p", "no:randomly"]
            + [str(ROOT / "tests" / "lifecycle" / module) for module in modules],
            cwd=ROOT,
            env={
                **os.environ,
                "PYTHONPATH": str(self._source),
                "PYTHONDONTWRITEBYTECODE": "1",
                "GANDY_TEST_FULL_FUZZ": "1",
            },
            capture_output=True,
            text=True,
            check=False,
        )
        if ended.returncode == 0:
            return ""
        found = [line for line in ended.stdout.splitlines() if line.startswith(_NOTICED)]
        if ended.returncode != FAILED or not found:
            raise TrialError(ended.stdout[-2000:] + ended.stderr[-2000:])
        return found[0].split(" - ")[0].removeprefix("FAILED ").removeprefix("ERROR ")
