"""Every command in every broken environment: one message and an exit code, never a traceback of ours."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from importlib import invalidate_caches
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
import pytest

from gandy.cli.main import COMMANDS, main

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from click.testing import Result

    from tests.cli.conftest import Gandy


@pytest.fixture(autouse=True)
def search_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where modules are looked for is as before, after each test."""
    monkeypatch.setattr(sys, "path", [*sys.path])


MADE_UP: Final = {"service": "dispatcher", "train": "greet"}
#: They write an application, or run on a database of their own.
INDEPENDENT: Final = frozenset({"init", "demo"})
MOST_LINES: Final = 3


def commands() -> Iterator[list[str]]:
    """Every command, with arguments that are made up."""
    context = click.Context(main)
    for name in sorted(COMMANDS.keys() - INDEPENDENT):
        found = main.get_command(context, name)
        inner = found.commands.items() if isinstance(found, click.Group) else [(None, found)]
        for below, command in inner:
            assert command is not None
            yield [name, *([below] if below else []), *_filled(command)]


def _filled(command: click.Command) -> Iterator[str]:
    for each in command.params:
        if isinstance(each, click.Option):
            yield from (each.opts[0], "1") if each.required else ()
            yield from each.opts[:1] if each.opts[0] in {"--until-idle", "--yes"} else ()
    yield from (
        MADE_UP.get(str(each.name), "1") for each in command.params if isinstance(each, click.Argument)
    )


ALL: Final = [*commands()]


def unreadable(folder: Path) -> None:
    """Permissions do not bind root: a link that leads to itself cannot be read by anybody."""
    file = folder / "gandy.toml"
    if os.geteuid() == 0:
        file.symlink_to(file)
    else:
        file.write_text("")
        file.chmod(0)


def holding(content: bytes) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        (folder / "gandy.toml").write_bytes(content)

    return write


CONFIGURATIONS: Final[dict[str, Callable[[Path], None]]] = {
    "unreadable": unreadable,
    "a folder": lambda folder: (folder / "gandy.toml").mkdir(),
    "a pipe": lambda folder: os.mkfifo(folder / "gandy.toml"),
    "a link to nowhere": lambda folder: (folder / "gandy.toml").symlink_to("nowhere"),
    "no TOML": holding(b"[worker\n"),
    "no UTF-8": holding(b'app = "\xff\xfe"\n'),
    "control characters": holding(b'app = "\x1b[31m"\n'),
    "a key twice": holding(b'app = "a:b"\napp = "a:b"\n'),
    "deep nesting": holding(b"a = " + b"[" * 100_000),
    "an unknown section": holding(b"[wroker]\nslots = 3\n"),
    "a value of another type": holding(b'[worker]\nslots = "many"\n'),
    "a bad URL": holding(b'[database]\nurl = "postgresql://ada:hunter2@@/x"\n'),
    "an app of another type": holding(b"app = 3\n"),
    "an app without a colon": holding(b'app = "billing"\n'),
    "an app that is not there": holding(b'app = "nowhere_to_be_found:app"\n'),
    "an empty module": holding(b'app = ":app"\n'),
    "a relative module": holding(b'app = ".billing:app"\n'),
    "a module with an escape": holding(b'app = "bill\\u001b[31m:app"\n'),
    "a module with a NUL": holding(b'app = "bill\\u0000ing:app"\n'),
}


def is_clear(result: Result, *, lines: int = MOST_LINES) -> bool:
    message = result.stderr.strip()
    return (
        result.exit_code in {1, 2}
        and "Traceback" not in result.output
        and bool(message)
        and len(message.splitlines()) <= lines
        and message.replace("\n", "").isprintable()
    )


def needs_no_more_than_settings(command: Sequence[str], result: Result) -> bool:
    """`config show` neither imports an application nor connects."""
    return command == ["config", "show"] and result.exit_code == 0


@pytest.mark.parametrize("breaking", CONFIGURATIONS.values(), ids=CONFIGURATIONS)
def test_a_broken_settings_file_is_one_message_in_every_command(
    gandy: Gandy, folder: Path, breaking: Callable[[Path], None]
) -> None:
    breaking(folder)
    for command in ALL:
        result = gandy(*command)
        if needs_no_more_than_settings(command, result):
            continue
        assert is_clear(result), (command, result.exit_code, result.output, result.exception)
        assert "hunter2" not in result.output
    assert not list(folder.glob("*.db"))


RAISING: Final = {
    "a missing dependency": ("import no_such_dependency_at_all\n", "no_such_dependency_at_all", 1),
    "an exception": ("def fail():\n    return 1 / 0\n\nfail()\n", "ZeroDivisionError: division by zero", 2),
    "an exit": ("raise SystemExit(7)\n", "SystemExit", 1),
    "no Python": ("def (\n", "SyntaxError", 1),
    "no UTF-8": ("x = '\udcff'\n", "SyntaxError", 1),
    "an interrupt of its own": ("class Odd(BaseException): ...\nraise Odd('odd')\n", "odd", 2),
    "a message of many lines": ("raise ValueError('one\\ntwo\\nthree')\n", "ValueError", 1),
    "an escape in the message": ("raise ValueError('\\x1b[31mred')\n", "red", 1),
    "a message that raises": (
        "class Bad(Exception):\n    def __str__(self): raise RuntimeError\nraise Bad\n",
        "Bad",
        3,
    ),
    "nothing": ("", "has no application", 0),
    "another thing": ("app = 3\n", "is a int", 0),
}


@pytest.mark.parametrize("case", RAISING)
def test_a_module_that_cannot_be_imported_is_told_with_its_line(
    gandy: Gandy, folder: Path, case: str
) -> None:
    """The end of the module's own traceback, on one line: the file, the line, the exception."""
    source, said, line = RAISING[case]
    name = f"broken_{case.replace(' ', '_')}"
    (folder / f"{name}.py").write_text(source, encoding="utf-8", errors="surrogateescape")
    invalidate_caches()
    for command in ALL[::4]:
        result = gandy("--app", f"{name}:app", *command)
        if needs_no_more_than_settings(command, result):
            continue
        if "lifecycle" in command and result.exit_code == 2 and "--contract" in result.stderr:
            continue
        assert is_clear(result), (command, result.output)
        assert said in result.stderr
        assert not line or f"{name}.py:" in result.stderr


def read_only(folder: Path) -> str:
    """Permissions do not bind root, but no files are made in /proc."""
    locked = folder / "locked"
    locked.mkdir(mode=0o555)
    return "sqlite:////proc/gandy.db" if os.geteuid() == 0 else f"sqlite:///{locked}/gandy.db"


def corrupt(folder: Path) -> str:
    (folder / "notes.db").write_text("dear diary, " * 500)
    return f"sqlite:///{folder}/notes.db"


def foreign(folder: Path) -> str:
    """A database whose tables have our names and other columns."""
    with closing(sqlite3.connect(folder / "other.db")) as connection, connection:
        connection.execute("CREATE TABLE metadata (id TEXT)")
        connection.execute("CREATE TABLE schema_version (name TEXT)")
    return f"sqlite:///{folder}/other.db"


CONTRACT: Final = """
version = 1
[lifecycle.shop]
tables = [{ name = "orders", rules = [{ older_than = "at", keep_for = "1d", lost_by_design = "x" }] }]
"""
OF_ANOTHER: Final = ("--contract", "contract.toml", "--target")

DATABASES: Final[dict[str, Callable[[Path], str]]] = {
    "a read-only folder": read_only,
    "no database": corrupt,
    "tables of others": foreign,
    "a folder": lambda folder: f"sqlite:///{folder}",
    "a folder that is not there": lambda folder: f"sqlite:///{folder}/nowhere/gandy.db",
    "a file as a folder": lambda folder: f"sqlite:///{folder}/.git/../file.txt/gandy.db",
    "a name that is too long": lambda folder: f"sqlite:///{folder}/{'x' * 300}.db",
    "a name with NUL": lambda folder: f"sqlite:///{folder}/a%00b.db",
    "memory": lambda _: "sqlite:///:memory:",
    "nothing": lambda _: "sqlite:///",
    "an unreachable server": lambda _: "postgresql://127.0.0.1:1/x",
    "an unknown parameter": lambda _: "postgresql://127.0.0.1:1/x?sslmoed=require",
    "an unknown parameter of a file": lambda folder: f"sqlite:///{folder}/gandy.db?mode=ro",
    "a bad value": lambda _: "postgresql://127.0.0.1:1/x?sslmode=perhaps",
    "a bad number": lambda _: "postgresql://127.0.0.1:1/x?keepalives_idle=often",
    "an unknown service": lambda _: "postgresql:///x?service=nowhere_to_be_found",
    "a socket that is not there": lambda folder: f"postgresql:///x?host={folder}",
    "another driver": lambda _: "mysql://127.0.0.1:1/x",
}


@pytest.mark.parametrize("naming", DATABASES.values(), ids=DATABASES)
def test_a_database_that_cannot_be_used_is_one_message_in_every_command(
    gandy: Gandy, folder: Path, naming: Callable[[Path], str]
) -> None:
    (folder / "file.txt").touch()
    (folder / "contract.toml").write_text(CONTRACT)
    url = naming(folder)
    for command in ALL:
        if command == ["lifecycle", "run"]:
            continue  # it waits until the database is there again
        is_of_another = command[0] == "lifecycle" and command[1] != "growth"  # which reads Gandy's own tables
        result = gandy(*command, *OF_ANOTHER, url) if is_of_another else gandy("--database", url, *command)
        if needs_no_more_than_settings(command, result):
            continue
        if command[0] == "doctor":
            assert "Traceback" not in result.output
            assert result.exit_code in {1, 2}
            continue
        if is_of_another and result.exit_code == 0 and "other.db" in url:
            continue  # to the lifecycle it is an application's database like any other
        assert is_clear(result), (command, result.exit_code, result.output)


WRONG: Final = (
    ["--databse", "x"], ["--app"], ["--no-such-option"], ["extra", "words", "here"], ["--json=maybe"],
)  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG, ids=lambda words: words[0])
def test_a_wrong_call_is_told_with_exit_code_2(gandy: Gandy, wrong: Sequence[str]) -> None:
    for command in ALL:
        result = gandy(*command, *wrong)
        assert (result.exit_code, result.stdout) == (2, ""), (command, result.output)
        assert is_clear(result, lines=6), (command, result.output)


def test_a_current_folder_that_is_gone_is_one_message(folder: Path) -> None:
    gone = folder / "gone"
    gone.mkdir()
    script = 'cd "$1" && rmdir "$1" && shift && "$@"'
    program = Path(sys.executable).with_name("gandy")
    for command in (["runs", "list"], ["migrate"], ["--app", "a:b", "trains", "list"], ["config", "show"]):
        gone.mkdir(exist_ok=True)
        done = subprocess.run(
            ["/bin/sh", "-c", script, "sh", str(gone), str(program), *command],
            capture_output=True, text=True, check=False, timeout=50,
        )  # fmt: skip
        assert done.returncode in {1, 2}, done.stderr
        assert "Traceback" not in done.stderr
        assert len(done.stderr.splitlines()) == 1, done.stderr
