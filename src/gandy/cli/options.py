"""The options and kinds of argument that many commands share."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gandy.settings.bounds import BOUNDS, RefusedValueError
from gandy.settings.files import one_line

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, and nothing else, on stdout.")
yes_option = click.option("--yes", is_flag=True, help="Do not ask.")


def example(*lines: str) -> str:
    """Write the epilog of a command's help; click leaves the lines as they are."""
    return "\b\nExample:\n" + "\n".join(f"  {line}" for line in lines)


def bounded(option: str) -> Callable[[object], object]:
    """Read an option that the table of bounds knows; for `type=`: `bounded("timeout")`."""
    bound = BOUNDS[option]

    def take(value: object) -> object:
        try:
            return bound.take_text(value) if isinstance(value, str) else value
        except RefusedValueError as error:
            raise click.BadParameter(str(error)) from error

    take.__name__ = str(bound.schema.get("type", "text"))  # what the help shows
    return take


def json_input(text: str) -> str:
    """Give the text of JSON, written out, in a file as @path or on stdin as -; for `type=` of an option."""
    try:
        content = _read(text)
        json.loads(content, parse_constant=_refuse_constant)
    except (OSError, UnicodeDecodeError) as error:
        raise click.BadParameter(f"{text}: {error}") from error
    except (ValueError, RecursionError) as error:
        raise click.BadParameter(f"is not JSON: {error}; write JSON, @file or -") from error
    return content


def confirm(question: str, *, yes: bool) -> None:
    """Ask before a bulk change; where nobody can be asked, `--yes` is required."""
    if yes:
        return
    if not _somebody_is_there():
        raise click.UsageError(f"{question} Nobody is there to answer: pass --yes.")
    click.confirm(one_line(question), abort=True, err=True)


def _somebody_is_there() -> bool:
    return sys.stdin.isatty()


def _read(value: str) -> str:
    if value == "-":
        return sys.stdin.buffer.read().decode("utf-8")
    if value.startswith("@"):
        return Path(value[1:]).read_text(encoding="utf-8")
    return value


def _refuse_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON value")
