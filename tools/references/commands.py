"""The page on commands, from the command line's own help."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from gandy.cli.main import COMMANDS, main

if TYPE_CHECKING:
    from collections.abc import Iterator

_BEGINNING: Final = """\
# Commands

<!-- Written by `python -m tools.references`; a test compares. -->

`gandy [--app MODULE:NAME] [--database URL] [--owner NAME | --all-owners] COMMAND`. The application and the
database may also be named by `GANDY_APP` and `GANDY_DATABASE_URL`, or in `gandy.toml`.

- A command sees and changes what belongs to one owner: the application, or the one that `--owner` names.
  `--all-owners` takes all of them together; listings then have a column `owner`, and a name that several
  owners use is refused. Without an application a command needs one of the two; `lifecycle`, `migrate`,
  `doctor`, `config`, `init` and `demo` do not.
- Listings are tables; with `--json`, stdout is JSON and nothing else. Messages go to stderr.
- Exit codes: 0 success, 1 failure or findings, 2 usage error.
- Durations are written with their units: `250ms`, `90s`, `30m`, `1h30m`, `7d`, `2w`.
- `--input` takes JSON, `@file`, or `-` for stdin.
- Bulk commands ask for confirmation; without a terminal they need `--yes`.
"""


def command_page() -> str:
    """Write the page: every command with its arguments, options and example."""
    found = [entry for name in sorted(COMMANDS) for entry in _leaves(name, _command(name))]
    listing = [f"| [`gandy {path}`](#{_anchor(path)}) | {_about(leaf)} |" for path, leaf in found]
    index = ["| command | does |", "|---|---|", *listing, ""]
    return "\n".join([_BEGINNING, *index, *(line for path, leaf in found for line in _section(path, leaf))])


def _command(name: str) -> click.Command:
    found = main.get_command(click.Context(main), name)
    if found is None:
        raise AssertionError(f"{name} is listed and not there")
    return found


def _leaves(path: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    if not isinstance(command, click.Group):
        yield path, command
        return
    for name in sorted(command.commands):
        yield from _leaves(f"{path} {name}", command.commands[name])


def _section(path: str, command: click.Command) -> Iterator[str]:
    arguments = " ".join(_argument(param) for param in command.params if isinstance(param, click.Argument))
    yield f"## gandy {path}"
    yield ""
    yield from (line.strip() for line in (command.help or "").splitlines())
    yield ""
    if arguments:
        yield f"Takes {arguments}."
        yield ""
    options = [param for param in command.params if isinstance(param, click.Option)]
    if options:
        yield "| option | |"
        yield "|---|---|"
        yield from (_option(option, command) for option in options)
        yield ""
    yield from ("```", *_example(command), "```", "")


def _argument(argument: click.Argument) -> str:
    name = argument.make_metavar(click.Context(click.Command("none")))
    return f"`{name}`"


def _option(option: click.Option, command: click.Command) -> str:
    names, about = option.get_help_record(click.Context(command)) or ("", "")
    words = names.replace("|", r"\|"), about.replace("|", r"\|")
    return f"| `{words[0]}` | {words[1]} |"


def _example(command: click.Command) -> list[str]:
    lines = (command.epilog or "").splitlines()
    return [line.strip() for line in lines[lines.index("Example:") + 1 :]]


def _about(command: click.Command) -> str:
    return (command.help or "").strip().partition("\n")[0]


def _anchor(path: str) -> str:
    return f"gandy-{path}".replace(" ", "-")
