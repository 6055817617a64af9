"""Shared options and argument types of commands."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from gandy.settings.bounds import BOUNDS, RefusedValueError
from gandy.settings.files import one_line

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

Command = TypeVar("Command", bound="Callable[..., Any]")

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, and nothing else, on stdout.")
yes_option = click.option("--yes", is_flag=True, help="Do not ask for confirmation.")


def example(*lines: str) -> str:
    """Return the epilog of a command's help; its first character keeps click from rewrapping it."""
    return "\b\nExample:\n" + "\n".join(f"  {line}" for line in lines)


def bounded(option: str) -> Callable[[object], object]:
    """Return a `type=` that checks an option against the table of bounds: `bounded("timeout")`."""
    bound = BOUNDS[option]

    def take(value: object) -> object:
        try:
            return bound.take_text(value) if isinstance(value, str) else value
        except RefusedValueError as error:
            raise click.BadParameter(str(error)) from error

    take.__name__ = str(bound.schema.get("type", "text"))  # shown in the help
    return take


_AS_JSON: Final = """write JSON, @file or -; a text keeps its own quotes: '"a text"'"""


def json_input(text: str) -> str:
    """Read JSON given literally, as @path or as - for stdin; for `type=` of an option."""
    try:
        content = _read(text)
        json.loads(content, parse_constant=_refuse_constant)
    except (OSError, UnicodeDecodeError) as error:
        raise click.BadParameter(f"{text}: {error}") from error
    except (ValueError, RecursionError) as error:
        raise click.BadParameter(f"is not JSON: {error}; {_AS_JSON}") from error
    return content


def choosing(rows: str) -> Callable[[Command], Command]:
    """Give a command the filters that runs, entries and letters have in common."""
    added = (
        click.option("--train", type=bounded("name"), metavar="NAME", help=f"Only {rows} of this train."),
        click.option(
            "--manifest", type=bounded("external_id"), metavar="ID", help=f"Only {rows} of this manifest."
        ),
        click.option("--group", type=bounded("group"), metavar="NAME", help=f"Only {rows} of this group."),
        click.option(
            "--since",
            type=bounded("moment"),
            metavar="T",
            help=f"Only {rows} from this instant, or period, on.",
        ),
        click.option(
            "--until", type=bounded("moment"), metavar="T", help=f"Only {rows} before this instant."
        ),
        click.option(
            "--error-has", type=bounded("error_has"), metavar="TEXT", help="Only with this text in the error."
        ),
        click.option(
            "--input-has", type=bounded("input_has"), metavar="TEXT", help="Only with this text in the input."
        ),
    )

    def decorate(command: Command) -> Command:
        for option in reversed(added):
            command = option(command)
        return command

    return decorate


before_option = click.option(
    "--before",
    type=bounded("id"),
    metavar="ID",
    help="Only below this id: continues where a search in texts stopped.",
)


def confirm(question: str, *, yes: bool) -> None:
    """Ask before a bulk change; without a terminal `--yes` is required."""
    if yes:
        return
    if not _has_terminal():
        raise click.UsageError(f"{question} No terminal to confirm on; pass --yes.")
    click.confirm(one_line(question), abort=True, err=True)


def _has_terminal() -> bool:
    return sys.stdin.isatty()


def _read(value: str) -> str:
    if value == "-":
        return sys.stdin.buffer.read().decode("utf-8")
    if value.startswith("@"):
        return Path(value[1:]).read_text(encoding="utf-8")
    return value


def _refuse_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a JSON value")
