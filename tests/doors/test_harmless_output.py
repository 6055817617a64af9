"""Texts that others stored reach a terminal without any effect on it, whatever command shows them."""

from __future__ import annotations

import json
import logging
import os
import pty
import re
import sqlite3
import sys
import threading
import tty
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import click
import psycopg
import pytest

from gandy.cli.main import main
from gandy.telemetry.log_lines import TextLines
from tests.architecture.source import PACKAGE, package_files
from tests.doors.neighbours import NEIGHBOUR, rows, write
from tests.doors.test_owners_by_command import COMMANDS, WITH_ID, calls

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from tests.cli.conftest import Gandy

#: Sets a title, clears the screen, goes back, turns the direction, draws in red by C1, hides and forges.
PARTS: Final = (
    *("\x1b]0;title\x07", "\x1b[2J", "\b\b", "\r", "\x7f", "\x9b31m", "\x85"),
    *("\u202e", "\u2066", "\u200b", "\u2028", "\u2029", "\ufeff", "\U000e0041"),
)
HOSTILE: Final = f"planted{''.join(PARTS)}"
BOLD: Final = re.compile(r"\x1b\[[01]m")
LOOKING: Final = frozenset({"list", "show", "explain", "logs", "preview", "graph", "upcoming"})
#: What finds a row, or is a word that the code knows: a row is not found without it.
KEYS: Final = frozenset({"external_id", "owner", "id", "worker_id", "timezone"})


def text_columns(url: str) -> Iterator[tuple[str, str]]:
    """Name every column of text that holds something other than JSON or an instant."""
    tables = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'"
    if not url.startswith("sqlite"):
        tables = "SELECT tablename AS name FROM pg_tables WHERE schemaname = 'gandy'"
    for table in [row["name"] for row in rows(url, tables)]:
        found = rows(url, f"SELECT * FROM {table}")  # noqa: S608
        for column in sorted({name for row in found for name, value in row.items() if is_text(value)} - KEYS):
            yield table, column


def is_text(value: object) -> bool:
    return isinstance(value, str) and value[:1] not in {"{", "[", '"'} and not value[:4].isdigit()


def plant(url: str) -> list[tuple[str, str]]:
    """Add the hostile text to every text that the database lets be changed."""
    planted = []
    for table, column in text_columns(url):
        literal = HOSTILE.replace("'", "''")
        try:
            write(url, f"UPDATE {table} SET {column} = {column} || '{literal}' WHERE {column} IS NOT NULL")  # noqa: S608
        except (sqlite3.Error, psycopg.Error):  # such as a state, whose words are known
            continue
        planted.append((table, column))
    return planted


def at_a_terminal(arguments: Sequence[str], monkeypatch: pytest.MonkeyPatch) -> str:
    """Call the command line with a terminal of its own, and give what the terminal received."""
    outer, inner = pty.openpty()
    tty.setraw(inner)  # which otherwise writes carriage returns of its own
    received: list[bytes] = []
    reader = threading.Thread(target=_receive, args=(outer, received))
    reader.start()
    with os.fdopen(inner, "w", encoding="utf-8") as terminal, monkeypatch.context() as patched:
        patched.setattr(sys, "stdout", terminal)
        patched.setattr(sys, "stderr", terminal)
        with suppress(click.exceptions.Exit):
            main(list(arguments), standalone_mode=False)
    reader.join()
    os.close(outer)
    return b"".join(received).decode()


def _receive(outer: int, received: list[bytes]) -> None:
    try:
        while part := os.read(outer, 65_536):
            received.append(part)
    except OSError:  # the other end is closed
        return


def effects(shown: str) -> set[str]:
    """Name the characters that do anything but show themselves; titles of tables are bold."""
    return {character for character in BOLD.sub("", shown) if not character.isprintable()} - {"\n"}


def known_ids(url: str) -> dict[str, Sequence[object]]:
    runs = rows(url, "SELECT id FROM metadata WHERE owner = ? AND stack_trace IS NOT NULL", NEIGHBOUR)
    return {
        "run_id": [row["id"] for row in runs][:2],
        "entry_id": [row["id"] for row in rows(url, "SELECT id FROM work_queue WHERE owner = ?", NEIGHBOUR)],
        "letter_id": [row["id"] for row in rows(url, "SELECT id FROM dead_letter")][:2],
        "external_id": ["nightly", "paused"],
        "name": [row["name"] for row in rows(url, "SELECT name FROM manifest_group ORDER BY name DESC")][:2],
        "train": ["send"],
    }


def lines(url: str) -> Iterator[list[str]]:
    """Call every command that only looks."""
    known = known_ids(url)
    for name, command in COMMANDS.items():
        if name.split()[-1] in LOOKING:
            yield from calls(name, command, known) if name in WITH_ID else [name.split()]
    yield ["doctor"]


@pytest.fixture
def hostile_url(shared_url: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    assert folder.is_dir()
    monkeypatch.setenv("GANDY_DATABASE_URL", shared_url)
    monkeypatch.setenv("COLUMNS", "5000")
    monkeypatch.setenv("TERM", "xterm")
    resting = "is_enabled = (1 = 0), disabled_at = created_at, disabled_reason = 'resting'"
    write(shared_url, f"UPDATE manifest_group SET {resting}")  # noqa: S608
    write(shared_url, "UPDATE history SET stack_trace = 'Traceback' WHERE train_state = 'failed'")
    planted = plant(shared_url)
    assert {("history", "stack_trace"), ("log", "message"), ("dead_letter", "reason")} <= {*planted}
    return shared_url


def test_no_command_lets_a_stored_text_act_on_the_terminal(
    hostile_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    showing = set()
    for line in lines(hostile_url):
        shown = at_a_terminal(["--owner", NEIGHBOUR, *line], monkeypatch)
        assert effects(shown) == set(), (line, shown)
        if "planted" in shown:
            showing.add(" ".join(line[:2]))
    assert showing >= {"runs list", "runs show", "runs logs", "dead-letters list", "dead-letters show"}
    assert showing >= {"manifests explain", "manifests show", "groups show", "queue list", "workers list"}
    assert "doctor" in showing


def test_json_stays_json_and_says_the_text_itself(hostile_url: str, gandy: Gandy) -> None:
    whole = 0
    for line in lines(hostile_url):
        ended = gandy("--owner", NEIGHBOUR, *line, "--json", env={"GANDY_DATABASE_URL": hostile_url})
        assert ended.stdout, (line, ended.stderr)
        assert effects(ended.stdout) == set(), line
        whole += HOSTILE in "".join(texts(json.loads(ended.stdout)))
    assert whole > 5


def texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from texts(inner)


def test_a_stack_trace_keeps_its_lines(hostile_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    write(hostile_url, "UPDATE history SET stack_trace = 'first\n\tsecond' || stack_trace")
    run = known_ids(hostile_url)["run_id"][0]

    shown = at_a_terminal(["--owner", NEIGHBOUR, "runs", "show", str(run)], monkeypatch)

    assert "\nfirst\n\tsecondTraceback" in shown
    assert effects(shown) <= {"\t"}


def test_a_line_of_the_log_acts_on_nothing_and_forges_no_other_line() -> None:
    made = logging.LogRecord(f"name{HOSTILE}", logging.INFO, "", 0, f"{HOSTILE}\n%s", (HOSTILE,), None)
    error = ValueError(f"{HOSTILE}\n2026-01-01 forged")
    made.exc_info = (ValueError, error, None)

    first, *others = TextLines().format(made).split("\n")

    assert effects("".join((first, *others))) == set()
    assert "planted" in first
    assert others
    assert all(line.startswith("  ") for line in others)


def test_only_one_module_of_the_command_line_prints() -> None:
    prints = {"click.echo(", "click.secho(", "echo_via_pager(", " print("}
    found = [
        file.path.name
        for file in package_files()
        if (PACKAGE / "cli") in file.path.parents and any(each in file.text for each in prints)
    ]
    assert found == ["output.py"]
