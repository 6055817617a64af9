"""`gandy`: the global options, and the table of commands, each imported only when it is called."""

from __future__ import annotations

from collections import Counter
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

import click

from gandy.cli.call import Call
from gandy.errors import GandyError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


_GIVEN = "gandy.given"


class LazyCommand(NamedTuple):
    """Where a command is defined, and the line that `gandy --help` shows for it."""

    location: str
    about: str


COMMANDS: Mapping[str, LazyCommand] = {
    "config": LazyCommand("gandy.cli.setup:config", "Show the settings."),
    "demo": LazyCommand("gandy.cli.demo:demo", "Run a lively demo on a database of its own."),
    "dead-letters": LazyCommand(
        "gandy.cli.dead_letters:dead_letters", "Show and resolve jobs that wait for a person."
    ),
    "queue": LazyCommand("gandy.cli.queue:queue", "Show and change what waits to run."),
    "workers": LazyCommand("gandy.cli.groups:workers", "Show and drain workers."),
    "doctor": LazyCommand("gandy.cli.doctor:doctor", "Check the installation and say what to do."),
    "groups": LazyCommand("gandy.cli.groups:groups", "Show and change groups of manifests."),
    "manifests": LazyCommand("gandy.cli.manifests:manifests", "Show and change what is scheduled."),
    "sync": LazyCommand(
        "gandy.cli.setup:sync",
        "Seed what the application declares, as the manifest-manager service does at its start.",
    ),
    "tick": LazyCommand(
        "gandy.cli.services:tick", "Run exactly one cycle of SERVICE and print its result as JSON."
    ),
    "init": LazyCommand("gandy.cli.setup:init", "Write a small working application."),
    "open": LazyCommand(
        "gandy.cli.open:open_dashboard", "Open the dashboard of this host's `up` in the browser, signed in."
    ),
    "up": LazyCommand("gandy.cli.services:up", "Run services in one process."),
    "work": LazyCommand("gandy.cli.services:work", "Claim runs and execute them; evaluates no schedule."),
    "lifecycle": LazyCommand("gandy.cli.lifecycle:lifecycle", "Keep the tables of any application bounded."),
    "migrate": LazyCommand("gandy.cli.setup:migrate", "Bring the schema of the database up to date."),
    "runs": LazyCommand("gandy.cli.runs:runs", "Show what ran, and what came of it."),
    "trains": LazyCommand("gandy.cli.groups:trains", "Show the trains of the application."),
}

_EPILOG = """
\b
Example:
  gandy --app billing:app runs list --json

\b
Completion, for the shell's start file (bash; also zsh, fish):
  eval "$(_GANDY_COMPLETE=bash_source gandy)"

Exit codes: 0 done, 1 it failed or something was found, 2 the call was wrong.
"""


class LazyGroup(click.Group):
    """A group that imports only the command that is called, and prints our errors as one message."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 click's signature
        """List the names; nothing is imported for that."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 click's signature
        """Import the command that was asked for."""
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name].location.partition(":")
        command: click.Command = getattr(import_module(module), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list that `--help` shows; nothing is imported for that either."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name].about) for name in self.list_commands(ctx)])

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Look at every argument of the call before a command sees it."""
        ctx.meta[_GIVEN] = tuple(args)
        _refuse_broken_text(args)
        try:
            self._refuse_repeated(ctx, args)
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            raise _presentable(error, ctx.meta[_GIVEN]) from None

    def _refuse_repeated(self, ctx: click.Context, args: list[str]) -> None:
        """Refuse an option that is given twice: which of the two is meant is not for us to choose."""
        _, _, given = self.make_parser(ctx).parse_args(list(args))
        for option, times in Counter(given).items():
            if times > 1 and isinstance(option, click.Option) and not option.is_flag:
                raise click.UsageError(f"{option.opts[0]} is given {times} times; give it once", ctx=ctx)

    def invoke(self, ctx: click.Context) -> object:
        """Run the command; what Gandy raises becomes one message on stderr and an exit code."""
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            raise _presentable(error, ctx.meta[_GIVEN]) from None
        except GandyError as error:
            _say_error(str(error))
            ctx.exit(error.exit_code)


def _say_error(message: str) -> None:
    from gandy.cli.output import say  # noqa: PLC0415 `gandy --help` needs none of it

    say(f"gandy: {message}")


def _presentable(error: click.UsageError, args: Sequence[str]) -> click.UsageError:
    """Mask what click repeats of a URL, and escape what could move the cursor of a terminal."""
    error = _without_urls(error, args)
    message = error.format_message()
    if message.isprintable():
        return error
    from gandy.settings.files import many_lines  # noqa: PLC0415 `gandy --help` needs none of it

    return click.UsageError(many_lines(message), ctx=error.ctx)


def _without_urls(error: click.UsageError, args: Sequence[str]) -> click.UsageError:
    """Mask a whole URL, or one that a space in its password has cut into arguments."""
    urls = [arg for arg in args if "://" in arg or "@" in arg[1:]]
    if not urls:
        return error
    from gandy.settings.urls import mask_url  # noqa: PLC0415 `gandy --help` needs none of it

    message = error.format_message()
    for arg in urls:
        shown = mask_url(arg)
        message = message.replace(arg, shown).replace(repr(arg)[1:-1], shown)
    return click.UsageError(message, ctx=error.ctx)


def _refuse_broken_text(args: list[str]) -> None:
    """Name the option whose text is not UTF-8: it arrives as lone surrogates, which no database holds."""
    option = "argument"
    for arg in args:
        name, _, value = arg.partition("=")
        option = name if name.startswith("-") else option
        try:
            arg.encode()
        except UnicodeEncodeError:
            said = (value or arg) if "://" not in arg else "the URL"
            raise click.UsageError(f"{option}: {said!r} is not UTF-8 text") from None
        option = option if arg == option else "argument"


@click.group(cls=LazyGroup, epilog=_EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--app",
    metavar="MODULE:NAME",
    envvar="GANDY_APP",
    help="The application; else GANDY_APP, else `app` in gandy.toml.",
)
@click.option(
    "--database",
    metavar="URL",
    help="The database; else what the application says, GANDY_DATABASE_URL or gandy.toml.",
)
@click.option("--owner", metavar="NAME", help="Whose rows: those of this application.")
@click.option("--all-owners", is_flag=True, help="Whose rows: those of every application in the database.")
@click.version_option(package_name="gandy", message="gandy %(version)s")
@click.pass_context
def main(
    ctx: click.Context, *, app: str | None, database: str | None, owner: str | None, all_owners: bool
) -> None:
    """Run jobs on your own database, and keep its tables from growing without bound."""
    for option, value in (("--app", app), ("--database", database), ("--owner", owner)):
        if value is not None and not value.strip():
            raise click.UsageError(f"{option} is empty; give it a value, or leave it out")
    if owner is not None and all_owners:
        raise click.UsageError("--owner and --all-owners exclude each other")
    ctx.obj = Call(app_reference=app, database=database, owner=owner, all_owners=all_owners)
