"""The reading map names functions that its walks really pass, in their order."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pytest

from gandy.cli.main import main
from tests.docs.walks import PACKAGE, WALKS

if TYPE_CHECKING:
    from collections.abc import Iterable

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "architecture.md"
VOCABULARY = ROOT / "docs" / "vocabulary.md"
#: A reader opens this many files at most to follow a walk.
MOST_FILES = 20
_STEP = re.compile(r"^\d+\. `([\w/]+\.py)` `([\w.]+)`: ", re.MULTILINE)


def steps_of(number: int) -> list[str]:
    """Read a walk from the page."""
    section = PAGE.read_text(encoding="utf-8").split(f"## Walk {number}: ")[1].split("\n## ")[0]
    return [f"{file} {function}" for file, function in _STEP.findall(section)]


def first_not_passed(steps: list[str], calls: Iterable[str]) -> str | None:
    """Find the first step that does not follow those before it."""
    rest = iter(calls)
    return next((step for step in steps if step not in rest), None)  # `in` goes on where it found the last


@pytest.mark.parametrize("number", WALKS)
def test_a_walk_passes_the_functions_of_the_page_in_their_order(number: int, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.docs.walks", str(number), str(tmp_path)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    steps, calls = steps_of(number), ended.stdout.splitlines()

    assert steps, f"the page has no walk {number}"
    assert [step for step in steps if step not in calls] == []
    assert first_not_passed(steps, calls) is None


@pytest.mark.parametrize("number", WALKS)
def test_a_walk_leads_through_few_files(number: int) -> None:
    assert len({step.split()[0] for step in steps_of(number)}) <= MOST_FILES


def test_a_step_that_is_out_of_order_is_noticed() -> None:
    assert first_not_passed(["a", "c"], ["a", "b", "c"]) is None
    assert first_not_passed(["c", "a"], ["a", "b", "c"]) == "a"


@pytest.mark.parametrize("page", [PAGE, VOCABULARY], ids=lambda page: page.stem)
def test_every_file_that_a_page_names_is_there(page: Path) -> None:
    named = set(re.findall(r"`([\w]+/[\w/]+\.py)`", page.read_text(encoding="utf-8")))

    assert [file for file in sorted(named) if not (PACKAGE / file).exists()] == []


@pytest.mark.parametrize("page", sorted((ROOT / "docs").rglob("*.md")), ids=lambda page: page.stem)
def test_every_command_that_a_page_names_exists(page: Path) -> None:
    """A command is what stands in backticks or begins a line of a shell block."""
    text = page.read_text(encoding="utf-8")
    named = {
        *re.findall(r"`gandy ([a-z][a-z -]*)", text),
        *re.findall(r"^\$? ?gandy ([a-z][a-z -]*)", text, re.MULTILINE),
    }

    assert [words for words in sorted(named) if not is_command(words.split())] == []


def is_command(words: list[str]) -> bool:
    """Follow the words down the commands; what follows the last command are its arguments."""
    command: click.Command = main
    for word in words:
        if not isinstance(command, click.Group):
            return True
        found = command.get_command(click.Context(command), word)
        if found is None:
            return False
        command = found
    return True
