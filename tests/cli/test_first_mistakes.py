"""Mistakes of the first hour: a missing folder, an empty file, an empty filter."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Gandy

APP = """
from gandy import Gandy

app = Gandy("shop", database="sqlite:///shop.db")


@app.train
async def send(n: int) -> int:
    return n
"""
READING = [("runs", "list"), ("queue", "list"), ("stats",), ("upcoming",), ("lifecycle", "growth")]
ENV = {"GANDY_APP": "shop:app"}


@pytest.fixture(autouse=True)
def shop(folder: Path, imports: None) -> None:
    assert imports is None
    (folder / "shop.py").write_text(APP)


@pytest.mark.parametrize("command", [*READING, ("migrate",), ("sync",), ("work", "--until-idle")])
def test_a_missing_folder_is_named_with_what_to_do(
    gandy: Gandy, folder: Path, command: tuple[str, ...]
) -> None:
    ended = gandy("--database", "sqlite:///no/such/x.db", *command, env=ENV)

    assert ended.exit_code == 1
    assert "there is no folder no/such; make it, or correct the path" in ended.stderr
    assert not (folder / "no").exists()


@pytest.mark.parametrize("command", READING)
def test_reading_an_empty_file_makes_no_tables_in_it(
    gandy: Gandy, folder: Path, command: tuple[str, ...]
) -> None:
    (folder / "shop.db").touch()

    ended = gandy(*command, env=ENV)

    assert ended.exit_code == 2
    assert "there is no database" in ended.stderr
    assert [(path.name, path.stat().st_size) for path in folder.glob("shop.db*")] == [("shop.db", 0)]


@pytest.mark.parametrize("command", READING)
def test_reading_a_file_of_another_program_makes_no_tables_in_it(
    gandy: Gandy, folder: Path, command: tuple[str, ...]
) -> None:
    with closing(sqlite3.connect(folder / "shop.db")) as file:
        file.execute("CREATE TABLE theirs (id INTEGER)")

    ended = gandy(*command, env=ENV)

    assert ended.exit_code == 1
    assert "has no Gandy tables" in ended.stderr
    assert "run: gandy migrate" in ended.stderr
    with closing(sqlite3.connect(folder / "shop.db")) as file:
        assert file.execute("SELECT name FROM sqlite_master").fetchall() == [("theirs",)]


@pytest.mark.parametrize(
    "command",
    [
        ("runs", "list", "--train"),
        ("runs", "list", "--manifest"),
        ("queue", "list", "--group"),
        ("dead-letters", "list", "--train"),
        ("manifests", "list", "--train"),
        ("manifests", "list", "--group"),
        ("stats", "--train"),
        ("runs", "cancel", "--yes", "--train"),
        ("runs", "rerun", "--yes", "--manifest"),
        ("queue", "cancel", "--yes", "--group"),
        ("dead-letters", "requeue", "--all", "--yes", "--train"),
    ],
)
def test_an_empty_filter_is_a_mistake_and_no_filter(gandy: Gandy, command: tuple[str, ...]) -> None:
    ended = gandy(*command, "", env=ENV)

    assert ended.exit_code == 2
    assert f"Invalid value for '{command[-1]}': must be 1 to 200 characters" in ended.stderr
