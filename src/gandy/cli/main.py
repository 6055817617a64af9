"""`gandy`: the global options, and the table of lazily imported commands."""

from __future__ import annotations

from collections import Counter
from difflib import get_close_matches
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
    "audit": LazyCommand("gandy.cli.reports.audit:audit", "Show who changed what."),
    "config": LazyCommand("gandy.cli.setup:config", "Show the settings."),
    "demo": LazyCommand("gandy.cli.demo:demo", "Run example trains on a separate database."),
    "dead-letters": LazyCommand(
        "gandy.cli.dead_letters:dead_letters", "Show and resolve failed jobs that wait for an operator."
    ),
    "queue": LazyCommand("gandy.cli.queue:queue", "Show and change queued jobs."),
    "workers": LazyCommand("gandy.cli.groups:workers", "Show and drain workers."),
    "doctor": LazyCommand("gandy.cli.doctor:doctor", "Check the installation and suggest fixes."),
    "groups": LazyCommand("gandy.cli.groups:groups", "Show and change groups of manifests."),
    "health": LazyCommand(
        "gandy.cli.health:health", "Check that the processes of this host answer, for probes without HTTP."
    ),
    "manifests": LazyCommand("gandy.cli.manifests:manifests", "Show and change scheduled jobs."),
    "sync": LazyCommand(
        "gandy.cli.setup:sync",
        "Write the application's declarations to the database, as manifest-manager does when it starts.",
    ),
    "tick": LazyCommand(
        "gandy.cli.services:tick", "Run exactly one cycle of SERVICE and print its result as JSON."
    ),
    "init": LazyCommand("gandy.cli.setup:init", "Write a small working application."),
    "open": LazyCommand(
        "gandy.cli.open:open_dashboard", "Open the local dashboard in the browser, logged in."
    ),
    "up": LazyCommand(
        "gandy.cli.services:up", "Run services in one process; workers in several with --workers."
    ),
    "work": LazyCommand("gandy.cli.services:work", "Claim and execute runs, without evaluating schedules."),
    "lifecycle": LazyCommand("gandy.cli.lifecycle:lifecycle", "Keep the tables of any application bounded."),
    "stats": LazyCommand(
        "gandy.cli.measures.stats:stats",
        "Show runs, failure rates, waits and durations by train or manifest.",
    ),
    "migrate": LazyCommand("gandy.cli.setup:migrate", "Bring the schema of the database up to date."),
    "runs": LazyCommand("gandy.cli.runs:runs", "Show runs and their results."),
    "upcoming": LazyCommand(
        "gandy.cli.reports.upcoming:upcoming",
        "List the next instants of all manifests in order, and what will hold them back.",
    ),
    "trains": LazyCommand("gandy.cli.groups:trains", "Show the trains of the application."),
}

_EPILOG = """
\b
Example:
  gandy --app billing:app runs list --json

\b
Completion, for the shell's start file (bash; also zsh, fish):
  eval "$(_GANDY_COMPLETE=bash_source gandy)"

Exit codes: 0 success, 1 failure or findings, 2 usage error.
"""


class LazyGroup(click.Group):
    """A group that imports a command only when it is called, and prints a GandyError as one message."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 click's signature
        """List the names without importing a command."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 click's signature
        """Import one command."""
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name].location.partition(":")
        command: click.Command = getattr(import_module(module), name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; suggest similar names for one that does not exist."""
        name = args[0]
        if name not in COMMANDS and not name.startswith("-"):
            similar = get_close_matches(name, COMMANDS)
            hint = f" Did you mean {' or '.join(map(repr, similar))}?" if similar else ""
            raise click.UsageError(f"No such command {name!r}.{hint}", ctx=ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list for `--help` without importing a command."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name].about) for name in self.list_commands(ctx)])

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Check every argument before a command receives it."""
        ctx.meta[_GIVEN] = tuple(args)
        _refuse_broken_text(args)
        try:
            self._refuse_repeated(ctx, args)
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            raise _presentable(error, ctx.meta[_GIVEN]) from None

    def _refuse_repeated(self, ctx: click.Context, args: list[str]) -> None:
        """Refuse a repeated option: click would silently use the last value."""
        _, _, given = self.make_parser(ctx).parse_args(list(args))
        for option, times in Counter(given).items():
            if times > 1 and isinstance(option, click.Option) and not option.is_flag:
                raise click.UsageError(f"{option.opts[0]} is given {times} times; give it once", ctx=ctx)

    def invoke(self, ctx: click.Context) -> object:
        """Run the command; turn a GandyError into one message on stderr and an exit code."""
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            raise _presentable(error, ctx.meta[_GIVEN]) from None
        except GandyError as error:
            _say_error("; ".join([str(error), *getattr(error, "__notes__", ())]))
            ctx.exit(error.exit_code)


def _say_error(message: str) -> None:
    from gandy.cli.output import say  # noqa: PLC0415 `gandy --help` needs none of it

    say(f"gandy: {message}")


def _presentable(error: click.UsageError, args: Sequence[str]) -> click.UsageError:
    """Mask URLs in a message of click, and escape terminal control characters."""
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        return error  # the help text, which click prints as it is
    error = _without_urls(error, args)
    message = error.format_message()
    if message.isprintable():
        return error
    from gandy.settings.files import many_lines  # noqa: PLC0415 `gandy --help` needs none of it

    return click.UsageError(many_lines(message), ctx=error.ctx)


def _without_urls(error: click.UsageError, args: Sequence[str]) -> click.UsageError:
    """Mask URLs, including a URL that a space in its password has split into several arguments."""
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
    """Refuse text that is not UTF-8: it arrives as lone surrogates, which no database can store."""
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
    help="The application; default: GANDY_APP, then `app` in gandy.toml.",
)
@click.option(
    "--database",
    metavar="URL",
    help="The database; default: the application's, then GANDY_DATABASE_URL, then gandy.toml.",
)
@click.option("--owner", metavar="NAME", help="Select the rows of this application.")
@click.option("--all-owners", is_flag=True, help="Select the rows of all applications in the database.")
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
