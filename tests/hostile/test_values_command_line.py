"""Every hostile value at every option and argument of every command."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click
import pytest
from click.testing import CliRunner

from gandy.cli.main import COMMANDS, main
from tests.hostile.values import HOSTILE, Hostile, Judge, as_text
from tests.support.worlds import migrated_url

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["migrated_url"]

APP: Final = """
from tests.hostile.values import make_app

app = make_app({url!r})
"""
#: They serve until they are stopped, write files, or read a contract, which checks its own values.
LEFT_OUT: Final = frozenset({"up", "work", "demo", "init", "lifecycle", "migrate", "doctor", "config"})
USUAL: Final = {"external_id": "kept", "name": "calm", "train": "innocent", "service": "dispatcher"}
NEEDED: Final = {
    "enqueue": ("--input", "1"),
    "acknowledge": ("--note", "seen"),
    "delete": ("--yes",),
    "remove": ("--yes",),
}
FEW_TEXTS: Final = (
    "an undecodable byte",
    "201 characters",
    "an escape sequence",
    "a statement",
    "empty text",
)


def commands() -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Find every command that ends by itself."""
    context = click.Context(main)
    for name in COMMANDS.keys() - LEFT_OUT:
        command: Any = main.get_command(context, name)
        if isinstance(command, click.Group):
            yield from (((name, inner), found) for inner, found in command.commands.items())
        else:
            yield (name,), command


def calls(hostile: Hostile, text: str, *, only_texts: bool) -> Iterator[tuple[str, list[str]]]:
    """Put a value into every place of every command, the other places being filled as usual."""
    turn = HOSTILE.index(hostile)
    for path, command in commands():
        arguments = [each for each in command.params if isinstance(each, click.Argument)]
        for number, parameter in enumerate(command.params):
            if getattr(parameter, "is_flag", False):
                continue
            is_text = isinstance(parameter.type, click.types.StringParamType)
            is_left_out = hostile.label not in FEW_TEXTS if is_text else only_texts or (turn + number) % 4
            if is_left_out:
                continue
            given = [text if each is parameter else USUAL.get(str(each.name), "1") for each in arguments]
            option = [] if isinstance(parameter, click.Argument) else [parameter.opts[0], text]
            yield (
                f"{' '.join(path)} {parameter.opts[0]}",
                [*path, *NEEDED.get(path[-1], ()), *option, "--", *given],
            )


@pytest.fixture
def folder(tmp_path: Path, migrated_url: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project whose application is on the database of the test."""
    (tmp_path / ".git").mkdir()
    (tmp_path / "victim.py").write_text(APP.format(url=migrated_url))
    (tmp_path / "gandy.toml").write_text('app = "victim:app"\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def test_every_option_of_every_command_refuses_with_exit_2_or_works(folder: Path, migrated_url: str) -> None:
    judge = Judge()
    runner = CliRunner()
    assert folder.is_dir()
    assert runner.invoke(main, ["sync"]).exit_code == 0
    seen = 0
    for hostile in HOSTILE:
        text = as_text(hostile.value)
        if text is None:
            continue
        for where, arguments in calls(hostile, text, only_texts=not migrated_url.startswith("sqlite")):
            result = runner.invoke(main, arguments, input="")
            seen += 1
            if result.exception is not None and not isinstance(result.exception, SystemExit):
                judge.note(where, hostile, f"a traceback: {result.exception!r}")
            elif result.exit_code not in {0, 1, 2}:
                judge.note(where, hostile, f"exit code {result.exit_code}")
    for listing in ("queue", "manifests", "groups", "runs", "dead-letters", "workers"):
        result = runner.invoke(main, [listing, "list", "--json"])
        if result.exit_code != 0:
            judge.note(listing, "afterwards", result.output)
    judge.close()
    assert seen > 100
    worked = runner.invoke(main, ["work", "--until-idle"])
    assert worked.exit_code == 0, worked.output


def test_a_duration_that_cannot_be_is_refused_with_its_option_and_range(folder: Path) -> None:
    assert folder.is_dir()
    for option in ("--delay", "--timeout", "--retry-delay", "--unique-for"):
        for text in ("4000d", "99999999999999999999w", "-1s", "5", "nan", ""):
            arguments = ["queue", "enqueue", "innocent", "--input", "1", option, text]
            result = CliRunner().invoke(main, arguments)
            assert (result.exit_code, option in result.output, "3650d" in result.output) == (2, True, True)


def test_none_is_the_word_for_no_timeout(folder: Path) -> None:
    assert folder.is_dir()
    runner = CliRunner()
    runner.invoke(main, ["sync"])

    assert runner.invoke(main, ["manifests", "set", "kept", "--timeout", "none"]).exit_code == 0
    shown = runner.invoke(main, ["manifests", "show", "kept", "--json"])
    assert '"timeout": "none"' in shown.output
    enqueued = ["queue", "enqueue", "innocent", "--input", "1", "--timeout", "none"]
    assert runner.invoke(main, enqueued).exit_code == 0
    assert runner.invoke(main, ["work", "--until-idle"]).exit_code == 0
