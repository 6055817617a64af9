"""Shared options and argument types of commands."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gandy.settings.bounds import BOUNDS, RefusedValueError
from gandy.settings.files import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import NoReturn

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


def json_input(text: str) -> str:
    """Read JSON given literally, as @path or as - for stdin; for `type=` of an option."""
    try:
        content = _read(text)
        json.loads(content, parse_constant=_refuse_constant)
    except (OSError, UnicodeDecodeError) as error:
        raise click.BadParameter(f"{text}: {error}") from error
    except (ValueError, RecursionError) as error:
        raise click.BadParameter(f"is not JSON: {error}; write JSON, @file or -") from error
    return content


def confirm(question: str, *, yes: bool) -> None:
    """Ask before a bulk change; without a terminal `--yes` is required."""
    if yes:
        return
    if not _has_terminal():
        raise click.UsageError(f"{question} No terminal to confirm on; pass --yes.")
    click.confirm(one_line(question), abort=True, err=True)


def confirm_cancelling(found: Sequence[int]) -> None:
    """Ask before the cancellation of the jobs that a filter found."""
    confirm(f"Cancel {len(found)} {'job' if len(found) == 1 else 'jobs'}?", yes=False)


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
