from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib import import_module
from typing import TYPE_CHECKING

import click
import pytest

from gandy.cli.main import COMMANDS, main

if TYPE_CHECKING:
    from tests.cli.conftest import Gandy

HEAVY = (
    "fastapi",
    "jinja2",
    "prometheus_client",
    "psycopg",
    "pydantic",
    "rich",
    "sqlalchemy",
    "tomllib",
    "uvicorn",
)
LISTED = [pytest.param(name, id=name) for name in COMMANDS]


def command(name: str) -> click.Command:
    found = main.get_command(click.Context(main), name)
    assert found is not None
    return found


def leaves(found: click.Command) -> list[click.Command]:
    if not isinstance(found, click.Group):
        return [found]
    return [leaf for child in found.commands.values() for leaf in leaves(child)]


def test_help_names_every_command_and_the_completion(gandy: Gandy) -> None:
    result = gandy("--help")

    assert result.exit_code == 0
    assert set(COMMANDS) <= set(re.findall(r"^  ([a-z-]+)  ", result.stdout, re.MULTILINE))
    assert "_GANDY_COMPLETE=bash_source gandy" in result.stdout


def test_help_imports_neither_a_command_nor_anything_heavy() -> None:
    program = f"""
import sys
from gandy.cli.main import COMMANDS, main
main(["--help"], standalone_mode=False)
commands = {{entry.location.partition(":")[0] for entry in COMMANDS.values()}}
print([name for name in {HEAVY!r} + tuple(commands) if name in sys.modules])
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert ended.stdout.splitlines()[-1] == "[]"


def test_the_package_itself_can_be_run() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "gandy", "--help"], capture_output=True, text=True, check=True
    )

    assert ended.stdout.startswith("Usage: gandy ")


@pytest.mark.parametrize("words", [(), ("runs",)], ids=["gandy", "gandy runs"])
def test_a_call_without_a_command_shows_the_help_once(words: tuple[str, ...], gandy: Gandy) -> None:
    called = gandy(*words)

    assert called.exit_code == 2
    assert called.stderr == gandy(*words, "--help").stdout


@pytest.mark.parametrize("name", LISTED)
def test_the_line_in_the_help_is_the_commands_own(name: str) -> None:
    assert COMMANDS[name].about.rstrip(".") == command(name).get_short_help_str(limit=100).rstrip(".")


@pytest.mark.parametrize("name", LISTED)
def test_every_command_has_help_with_an_example(name: str) -> None:
    assert [leaf.name for leaf in leaves(command(name)) if "Example:\n  " not in (leaf.epilog or "")] == []
    assert [leaf.name for leaf in leaves(command(name)) if not leaf.help] == []


@pytest.mark.parametrize("name", LISTED)
def test_every_option_of_every_command_is_explained(name: str) -> None:
    unexplained = [
        f"{leaf.name} {option.opts[0]}"
        for leaf in leaves(command(name))
        for option in leaf.params
        if isinstance(option, click.Option) and not option.help
    ]

    assert unexplained == []


@pytest.mark.parametrize("name", LISTED)
def test_a_command_lives_in_a_module_of_the_command_line(name: str) -> None:
    module, _, attribute = COMMANDS[name].location.partition(":")

    assert module.startswith("gandy.cli.")
    assert hasattr(import_module(module), attribute)


@pytest.mark.parametrize(
    "arguments", [("confg",), ("--databse", "x"), ("config", "show", "--yaml"), ("config", "shw")]
)
def test_a_wrong_call_ends_with_two_and_prints_nothing_on_stdout(
    gandy: Gandy, arguments: tuple[str, ...]
) -> None:
    result = gandy(*arguments)

    assert result.exit_code == 2
    assert result.stdout == ""
    assert "Error: " in result.stderr


def test_an_error_is_one_message_without_a_traceback(gandy: Gandy) -> None:
    result = gandy("--database", "mysql://db/main", "config", "show")

    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr == (
        "gandy: one problem in the settings: keyword: database.url = mysql://***: "
        "must be a URL that begins with "
        "postgresql:// or postgres:// or sqlite:///\n"
    )


def test_the_shell_can_ask_for_completions() -> None:
    environ = {
        **os.environ,
        "_GANDY_COMPLETE": "bash_complete",
        "COMP_WORDS": "gandy conf",
        "COMP_CWORD": "1",
    }
    ended = subprocess.run(
        [sys.executable, "-c", "from gandy.cli.main import main; main(prog_name='gandy')"],
        env=environ, capture_output=True, text=True, check=True,
    )  # fmt: skip

    assert ended.stdout == "plain,config\n"
