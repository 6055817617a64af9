from __future__ import annotations

import re

from tests.docs.page import DOCS, ROOT

PAGE = (DOCS / "reliability.md").read_text(encoding="utf-8")


def test_every_promise_names_a_test_that_exists() -> None:
    named = set(re.findall(r"`(test_\w+)`", PAGE))
    defined = {
        name
        for file in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"def (test_\w+)\(", file.read_text(encoding="utf-8"))
    }
    assert len(named) > 20

    assert named - defined == set()


def test_every_row_of_a_promise_names_its_test() -> None:
    tables = [section for section in PAGE.split("\n## ") if "| shown by |" in section]
    assert len(tables) == 4
    rows = [line for table in tables for line in table.splitlines() if line.startswith("| ")]

    assert [row for row in rows if "shown by |" not in row and "`test_" not in row] == []
