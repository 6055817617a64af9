"""Plain words: what the vocabulary does not use, the package and its documentation do not use."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import pytest

from tests.architecture.source import PACKAGE, ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.xdist_group("architecture")

VOCABULARY: Final = ROOT / "docs" / "vocabulary.md"
#: What comes from elsewhere, or speaks of these words.
LEFT_OUT: Final = {PACKAGE / "web" / "static", ROOT / "docs" / "screenshots", VOCABULARY}


def forbidden() -> list[str]:
    """The first column of the last table of the vocabulary."""
    table = VOCABULARY.read_text(encoding="utf-8").rpartition("| not | but |")[2]
    cells = re.findall(r"^\| ([^|-][^|]*) \|", table, re.MULTILINE)
    return [word.removesuffix(" as a number") for cell in cells for word in cell.split(", ")]


def texts() -> Iterator[Path]:
    for folder, endings in ((PACKAGE, {".py", ".sql", ".html"}), (ROOT / "docs", {".md"})):
        for path in folder.rglob("*"):
            if path.suffix in endings and LEFT_OUT.isdisjoint({path, *path.parents}):
                yield path
    yield from (ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "Makefile"))


def test_the_table_of_words_is_read() -> None:
    assert {"anew", "nobody", "so many", "waits for your word"} <= set(forbidden())


def test_forbidden_words_are_not_used() -> None:
    pattern = re.compile(r"\b(?:" + "|".join(map(re.escape, forbidden())) + r")\b", re.IGNORECASE)
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()[:80]}"
        for path in texts()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if pattern.search(line)
    ]

    assert found == []
