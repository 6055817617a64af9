"""Hostile passwords at every door that takes a URL, with every way in which a connection fails."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import click
import pytest

from gandy.cli.main import COMMANDS, main
from tests.cli.process import run_gandy

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.cli.conftest import Gandy

PIECE: Final = 4
HEAD, TAIL = "Xq7Zw", "kV9Jy"
PASSWORDS: Final = (
    *(f"{HEAD}{mark}{TAIL}" for mark in "@:/%#?&=+;,|\\'\"[]{}<>^`~!$* é\N{SNOWMAN}"),
    f"@{HEAD}",
    f"{HEAD}@",
    f"12/{HEAD}@{TAIL}",
    f"12?{HEAD}={TAIL}",
    f"{HEAD}%zz{TAIL}",
    f"{HEAD}%2",
    f"{HEAD}%00{TAIL}",
    f"{HEAD}%ff{TAIL}",
    f"//{HEAD}@{TAIL}:1/",
    f"{HEAD}&sslmode={TAIL}",
    f"{HEAD}&{TAIL}=1",
    f"{HEAD}\t{TAIL}",
    f"{HEAD}@{TAIL}:99999",
    f"[{HEAD}]",
    f"{HEAD} {TAIL}@{HEAD}",
)
#: How a connection fails, apart from the password; {server} answers at once with a refusal of the connection.
PLACES: Final = {
    "unreachable": "postgresql://{login}@127.0.0.1:1/nothing",
    "unknown host": "postgresql://{login}@nowhere.invalid/nothing",
    "wrong port": "postgresql://{login}@127.0.0.1:port/nothing",
    "no host": "postgresql://{login}",
    "unknown parameter": "postgresql://{login}@127.0.0.1:1/nothing?sslmoed=require",
    "bad value": "postgresql://{login}@127.0.0.1:1/nothing?sslmode=perhaps",
    "unknown driver": "mysql://{login}@127.0.0.1:1/nothing",
    "SQLAlchemy's driver": "postgresql+psycopg://{login}@127.0.0.1:1/nothing",
    "no scheme": "{login}@127.0.0.1/nothing",
    "a file": "sqlite://{login}@/nothing.db",
    "a file with a password": "sqlite:///nothing.db?password={password}",
    "in the query": "postgresql://127.0.0.1:1/nothing?password={password}",
    "in the query with a typing error": "postgresql://127.0.0.1:1/nothing?pasword=1&password={password}",
    "in the query before others": "postgresql://127.0.0.1:1/nothing?password={password}&sslmode=disable",
}
CONTRACT: Final = """
version = 1
[lifecycle.shop]
database = {database}
[[lifecycle.shop.tables]]
name = "orders"
rules = [{{ older_than = "created_at", keep_for = "24h", lost_by_design = "replay" }}]
"""
#: They serve until they are stopped, or need no database at all.
LEFT_OUT: Final = frozenset({"init", "up", "open", "health"})


@dataclass(frozen=True, slots=True)
class Attempt:
    """One URL, and the password that it holds."""

    password: str
    url: str


def attempts() -> Iterator[tuple[str, Attempt]]:
    for (label, place), password in product(PLACES.items(), PASSWORDS):
        if label == "no host" and "@" in password:
            continue  # what follows the @ is a host, by every reading
        for written in dict.fromkeys((password, quote(password, safe=""))):
            url = place.format(login=f"ada:{written}", password=written)
            yield label, Attempt(password, url)


def pieces(password: str) -> set[str]:
    """Every part of a password that would help to guess it, as it is and as it may be escaped."""
    spellings = {password, quote(password, safe=""), repr(password)[1:-1], ascii(password)[1:-1]}
    parts = {text[at : at + PIECE] for text in spellings for at in range(len(text) - PIECE + 1)}
    return {part for part in parts if len(set(part) & set(HEAD + TAIL)) > 1}


def toml_text(text: str) -> str:
    escaped = "".join(
        f"\\u{ord(each):04x}" if each in '"\\' or not each.isprintable() else each for each in text
    )
    return f'"{escaped}"'


def leaks(attempt: Attempt, *said: str) -> set[str]:
    return {piece for piece in pieces(attempt.password) for text in said if piece in text}


def commands() -> Iterator[list[str]]:
    """Every command that takes nothing but what can be made up for it."""
    made_up = {"service": "dispatcher", "run_id": "1", "train": "innocent"}
    context = click.Context(main)
    for name in sorted(COMMANDS.keys() - LEFT_OUT - {"lifecycle"}):
        found = main.get_command(context, name)
        inner = found.commands.items() if isinstance(found, click.Group) else [(None, found)]
        for below, command in inner:
            assert command is not None
            arguments = [each for each in command.params if isinstance(each, click.Argument)]
            given = [made_up.get(str(each.name), "1") for each in arguments]
            yield [name, *([below] if below else []), *_required(command), *given]


def _required(command: click.Command) -> list[str]:
    options = [each for each in command.params if isinstance(each, click.Option)]
    needed = [text for each in options if each.required for text in (each.opts[0], "1")]
    names = {text for each in options for text in each.opts}
    needed += ["--seconds", "0.1"] if "--seconds" in names else []
    return (
        needed
        + (["--until-idle"] if "--until-idle" in names else [])
        + (["--yes"] if "--yes" in names else [])
    )


class Listener:
    """Calls a command and keeps what it said, and where it said too much."""

    def __init__(self, gandy: Gandy, caplog: pytest.LogCaptureFixture) -> None:
        self._gandy = gandy
        self._caplog = caplog
        self.found: list[str] = []
        self.calls = 0

    def call(self, attempt: Attempt, *arguments: str, label: str, **env: str) -> None:
        self._caplog.clear()
        result = self._gandy(*arguments, env=env)
        self.calls += 1
        leaked = leaks(attempt, result.stdout, result.stderr, self._caplog.text)
        if leaked:
            self.found.append(f"{label}: {attempt.url!r}: {leaked}: {result.output}")
        elif "Traceback" in result.output or (not result.output and result.exit_code):
            self.found.append(f"{label}: {attempt.url!r}: {result.output!r}")


@pytest.fixture
def listener(gandy: Gandy, folder: Path, caplog: pytest.LogCaptureFixture) -> Listener:
    caplog.set_level(logging.DEBUG)
    assert folder.is_dir()
    return Listener(gandy, caplog)


def test_no_piece_of_a_password_shows_at_any_door(listener: Listener, folder: Path) -> None:
    """Each URL by the option, the variable, the file, a contract and a target; a fast command judges each."""
    toml, contract = folder / "gandy.toml", folder / "contract.toml"
    contract.write_text(CONTRACT.format(database='{ env = "SHOP_URL" }'))
    for number, (label, attempt) in enumerate([*attempts()][::3]):
        if "\x00" in attempt.url:
            continue
        doors = number % 5
        if doors == 0:
            listener.call(attempt, "--database", attempt.url, "config", "show", label=f"--database {label}")
            listener.call(attempt, "--database", attempt.url, "migrate", label=f"migrate {label}")
        elif doors == 1:
            listener.call(attempt, "doctor", label=f"variable {label}", GANDY_DATABASE_URL=attempt.url)
        elif doors == 2:
            toml.write_text(f"[database]\nurl = {toml_text(attempt.url)}\n", encoding="utf-8")
            listener.call(attempt, "config", "show", "--json", label=f"file {label}")
            listener.call(attempt, "migrate", "--check", label=f"file {label}")
            toml.unlink()
        elif doors == 3:
            arguments = ("lifecycle", "plan", "--contract", str(contract))
            listener.call(attempt, *arguments, label=f"contract {label}", SHOP_URL=attempt.url)
            listener.call(attempt, *arguments, "--target", attempt.url, label=f"--target {label}")
        else:
            listener.call(attempt, attempt.url, "runs", "list", label=f"in the wrong place {label}")
            listener.call(attempt, "--app", attempt.url, "runs", "list", label=f"--app {label}")
            listener.call(attempt, "runs", "list", attempt.url, label=f"one too many {label}")
            listener.call(
                attempt, "config", "show", label=f"notify {label}",
                GANDY_DATABASE_URL="postgresql://h/d", GANDY_DATABASE_NOTIFY_URL=attempt.url,
            )  # fmt: skip
    assert not listener.found, "\n".join(listener.found[:10])
    assert listener.calls > 500


def test_no_piece_of_a_password_shows_in_any_command(listener: Listener) -> None:
    chosen = [
        Attempt(f"{HEAD}@{TAIL}", f"postgresql://ada:{HEAD}@{TAIL}@127.0.0.1:1/nothing"),
        Attempt(f"{HEAD}@{TAIL}", f"postgresql://ada:{HEAD}%40{TAIL}@127.0.0.1:1/nothing"),
        Attempt(f"{HEAD}{TAIL}", f"postgresql://127.0.0.1:1/nothing?password={HEAD}{TAIL}"),
    ]
    for attempt, command in product(chosen, commands()):
        listener.call(attempt, "--database", attempt.url, *command, label=" ".join(command))
    assert not listener.found, "\n".join(listener.found[:10])


def test_no_piece_of_a_password_shows_where_a_server_refuses(listener: Listener, postgres_url: str) -> None:
    """The server answers, and knows neither the database nor the user."""
    address = postgres_url.rpartition("@")[2].rpartition("/")[0]
    if "@" not in postgres_url:
        address = postgres_url.removeprefix("postgresql://").rpartition("/")[0]
    for password in PASSWORDS[::4]:
        url = f"postgresql://ada:{quote(password, safe='')}@{address}/nothing"
        for command in (("migrate",), ("doctor",), ("runs", "list")):
            listener.call(Attempt(password, url), "--database", url, *command, label="refused")
    assert not listener.found, "\n".join(listener.found[:10])


def test_an_unknown_parameter_is_one_line_that_names_it(folder: Path) -> None:
    url = "postgresql://ada:hunter2@127.0.0.1:1/x?sslmoed=require"
    for command in (("runs", "list"), ("migrate",), ("doctor",)):
        result = run_gandy(folder, "--database", url, *command)

        assert (result.returncode, result.stdout) == (2, ""), result.stderr
        assert len(result.stderr.splitlines()) == 1
        assert "'sslmoed'" in result.stderr
