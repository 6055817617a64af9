"""A SQLite file that another process holds: said at once, waited for, and answered with one line."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from gandy.cli import session
from gandy.store.drivers import sqlite

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


@pytest.mark.parametrize(
    ("command", "waits"),
    [
        (("runs", "list"), "4 "),
        (("stats",), "4 "),
        (("queue", "enqueue", "send", "--input", "1"), "9 "),
        (("migrate",), "9 "),
        (("doctor",), ""),
    ],
)
def test_a_held_file_is_said_to_be_held_and_answered_with_one_line(
    gandy: Gandy,
    folder: Path,
    imports: None,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    command: tuple[str, ...],
    waits: str,
) -> None:
    assert imports is None
    (folder / "shop.py").write_text(APP)
    env = {"GANDY_APP": "shop:app"}
    assert gandy("sync", env=env).exit_code == 0
    monkeypatch.setattr(sqlite, "_QUIET_SECONDS", 0.01)
    monkeypatch.setattr(sqlite, "_BUSY_SECONDS", 9.01)
    monkeypatch.setattr(session, "_PATIENCE_OF_READING", 4.01)
    monkeypatch.setattr(sqlite, "_set_patience", lambda *_: None)
    with closing(sqlite3.connect(folder / "shop.db", isolation_level=None)) as holder:
        holder.execute("PRAGMA journal_mode = delete")
        holder.execute("BEGIN EXCLUSIVE")
        ended = gandy(*command, env=env)

    said = [each for each in caplog.messages if "another process holds the database file" in each]
    assert said[0].endswith(f"waiting for up to {waits}seconds") or not waits
    assert ended.exit_code == 1
    lines = ended.stderr.splitlines() if waits else ended.stdout.splitlines()
    assert any("database is locked" in line for line in lines)
    assert len(ended.stderr.splitlines()) <= 2
    assert "Traceback" not in ended.stderr
