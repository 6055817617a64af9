"""The pages of the reference that the code writes are the ones that are there."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing

import pytest

from gandy.store.drivers.opening import migrate
from tools.references.pages import FOLDER, PAGES
from tools.references.tables import read_tables

# The commands that people and scripts rely on: none may go, and none may be renamed.
RELIED_ON = """
demo; init; up; sync; tick; work; migrate; doctor; config show; trains list; workers list; workers drain
manifests list; manifests show; manifests trigger; manifests set; manifests reset; manifests enable
manifests disable; manifests cancel; manifests delete; manifests preview; manifests explain
manifests add; manifests remove
groups list; groups show; groups set; groups reset; groups trigger; groups cancel
runs list; runs show; runs logs; runs cancel; runs rerun; queue list; queue enqueue; queue cancel
dead-letters list; dead-letters show; dead-letters requeue; dead-letters acknowledge
lifecycle check; lifecycle plan; lifecycle sweep; lifecycle run; lifecycle audit; lifecycle quarantine
"""
ONLY_ON_SQLITE = {"sequence", "sqlite_sequence"}


@pytest.mark.parametrize("name", PAGES)
def test_the_page_is_the_one_that_the_code_writes(name: str) -> None:
    assert (FOLDER / name).read_text(encoding="utf-8") == PAGES[name](), "run: python -m tools.references"


def test_every_command_that_people_rely_on_is_there_with_an_example() -> None:
    page = PAGES["commands.md"]()
    sections = dict(re.findall(r"^## gandy (.+?)\n(.*?)(?=^## |\Z)", page, re.DOTALL | re.MULTILINE))
    wanted = {name.strip() for name in re.split(r"[;\n]", RELIED_ON) if name.strip()}

    assert wanted <= sections.keys()
    assert [
        name for name, text in sections.items() if not re.search(rf"```\n.*gandy .*{name.split()[0]}", text)
    ] == []


def test_every_listing_can_be_printed_as_json() -> None:
    page = PAGES["commands.md"]()
    listings = re.findall(r"^## gandy (\S+ list)\n(.*?)(?=^## |\Z)", page, re.DOTALL | re.MULTILINE)

    assert len(listings) >= 7
    assert [name for name, text in listings if "`--json`" not in text] == []


def test_every_table_and_column_is_on_the_page(sqlite_url: str) -> None:
    migrate(sqlite_url)
    with closing(sqlite3.connect(sqlite_url.removeprefix("sqlite:///"))) as link:
        names = [row[0] for row in link.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        stored = {name: {row[1] for row in link.execute(f"PRAGMA table_xinfo({name})")} for name in names}
    described = {name: {column.name for column in columns} for name, columns in read_tables().items()}

    assert stored.keys() - ONLY_ON_SQLITE <= described.keys()
    assert {name: stored[name] - described[name] for name in stored.keys() & described.keys()} == {
        name: set() for name in stored.keys() & described.keys()
    }
