"""`gandy init`, `gandy config`, `gandy migrate` and `gandy sync`."""

from __future__ import annotations

import asyncio
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from gandy.cli.call import Call, pass_call
from gandy.cli.options import example, json_option
from gandy.cli.output import emit_json, emit_record, emit_rows, print_text, say
from gandy.errors import CodeTooOldError, FileAccessError, FileInTheWayError
from gandy.settings import mask_url
from gandy.store.drivers import opening
from gandy.store.drivers.database import dialect_of, pending_script
from gandy.store.drivers.migrate import SchemaState, known_version

if TYPE_CHECKING:
    from gandy.app import Gandy
    from gandy.store.drivers.grants import Grants
    from gandy.store.seeding import SeedResult


#: File to write: template it is copied from (not named .py, so that it is no module of the package).
_FILES = {"app.py": "app.py.txt", "gandy.toml": "gandy.toml"}
_NEXT = """\
Now, in {directory}:
  gandy up                                              start it, and see the link
  gandy queue enqueue greet --input '{{"name": "Ada"}}'   queue a job
  gandy runs list                                       show the result"""


@click.command(epilog=example("gandy init hello"))
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path), default=Path())
def init(directory: Path) -> None:
    """Write a small working application.

    It has two trains, one of them on a schedule, in app.py and gandy.toml. Nothing is overwritten.
    """
    targets = tuple(directory / name for name in _FILES)
    in_the_way = tuple(target for target in targets if target.exists())
    if in_the_way:
        raise FileInTheWayError(in_the_way)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for target in targets:
            _write_starter(target)
    except OSError as error:
        raise FileAccessError(
            Path(error.filename or directory), f"cannot be written: {error.strerror}"
        ) from error
    say(_NEXT.format(directory=directory.absolute()))


def _write_starter(target: Path) -> None:
    """Copy one file of the starter; mode `x` never overwrites, even if another process creates the file."""
    text = files("gandy.cli").joinpath("starter", _FILES[target.name]).read_text(encoding="utf-8")
    with target.open("x", encoding="utf-8") as file:
        file.write(text)
    say(f"Wrote {target}")


@click.group(epilog=example("gandy config show --json"))
def config() -> None:
    """Show the settings."""


@config.command(epilog=example("GANDY_WORKER_SLOTS=20 gandy config show"))
@json_option
@pass_call
def show(call: Call, *, as_json: bool) -> None:
    """Show every setting, its value and its source.

    Secrets and passwords are hidden.
    """
    loaded = call.load_settings()
    rows = [
        {"setting": shown.key, "value": shown.value, "origin": shown.origin.kind, "place": shown.origin.place}
        for shown in loaded.shown()
    ]
    if as_json:
        emit_json({"file": loaded.file, "app": call.app_reference or loaded.app, "settings": rows})
        return
    emit_rows(rows, ("setting", "value", "origin", "place"), as_json=False)
    say(f"Settings file: {loaded.file or 'none found'}")


_TO_MAINTAIN: Final = "-- To maintain: migrate, create and drop daily partitions. Run as a superuser."
_TO_RUN: Final = "-- To run: services, the command line, the dashboard, enqueueing."
_TO_READ: Final = "-- To read: reports and external dashboards."
_LATER: Final = " After the first migration:"


@click.command(epilog=example("gandy --database postgresql://localhost/jobs migrate --check"))
@click.option("--check", is_flag=True, help="Only report pending migrations; exit code 1 if there are any.")
@click.option("--sql", is_flag=True, help="Print the SQL of pending migrations instead of running it.")
@click.option(
    "--grants", metavar="ROLE", help="Print the PostgreSQL grants that a role needs; grants nothing."
)
@json_option
@click.pass_context
@pass_call
def migrate(
    call: Call, ctx: click.Context, *, check: bool, sql: bool, grants: str | None, as_json: bool
) -> None:
    """Bring the schema of the database up to date.

    Safe to run on several servers at once. An SQLite file is also migrated when an application opens it.
    """
    if (check, sql, grants is not None).count(True) > 1:
        raise click.UsageError("--check, --sql and --grants exclude each other")
    url = call.database_settings().url
    if grants is not None:
        _print_grants(opening.grants_for(url, grants), as_json=as_json)
        return
    if not check and not sql:
        _report(_applied(url), url, as_json=as_json)
        return
    state = opening.schema_state(url)
    _refuse_newer(state, url)
    if sql:
        print_text(pending_script(state, dialect_of(url)), ends_line=False)
        return
    pending = [migration.name for migration in state.pending(dialect_of(url))]
    _report({"version": state.version, "pending": pending}, url, as_json=as_json)
    ctx.exit(1 if pending else 0)


def _applied(url: str) -> dict[str, object]:
    result = opening.migrate(url)
    return {"version": result.after, "applied": list(result.applied)}


def _print_grants(found: Grants, *, as_json: bool) -> None:
    if as_json:
        emit_json(found)
        return
    is_free = found.owner in {None, found.role}
    taken = "" if is_free else f" Commented out, because {found.owner!r} owns the schema:"
    later = "" if found.is_migrated else _LATER
    _print_part(_TO_MAINTAIN + taken, found.maintain, is_due=is_free)
    _print_part(_TO_RUN + later, found.run, is_due=found.is_migrated)
    _print_part(_TO_READ + later, found.read, is_due=found.is_migrated)


def _print_part(title: str, statements: tuple[str, ...], *, is_due: bool) -> None:
    """Print statements; comment out those that cannot run yet."""
    lines = statements if is_due else [f"-- {line}" for each in statements for line in each.splitlines()]
    print_text("\n".join((title, *lines, "")))


def _refuse_newer(state: SchemaState, url: str) -> None:
    known = known_version(dialect_of(url))
    if state.compatible_from > known:
        raise CodeTooOldError(state.version, state.compatible_from, known)


def _report(done: dict[str, object], url: str, *, as_json: bool) -> None:
    if as_json:
        emit_json(done)
        return
    say(f"{mask_url(url)} is at schema version {done['version']}")
    for word in ("applied", "pending"):
        for name in _names(done.get(word)):
            say(f"{word}: {name}")


def _names(value: object) -> list[str]:
    return [str(name) for name in value] if isinstance(value, list) else []


_REFUSED = 1


@click.command(epilog=example("gandy --app billing:app sync"))
@json_option
@click.pass_context
@pass_call
def sync(call: Call, ctx: click.Context, *, as_json: bool) -> None:
    """Write the application's declarations to the database, as manifest-manager does when it starts.

    Overrides of operators stay in force. Manifests that are no longer declared are marked, and deleted a day
    later. Refused manifests and batches are reported, the rest is seeded, and the exit code is 1.
    """
    app = call.load_app()
    result = asyncio.run(_seed(app))
    emit_record(result, as_json=as_json)
    if result.orphaned:
        say(f"{result.orphaned} no longer declared: no new runs, deleted in a day unless declared again")
    for refused in result.refused:
        say(f"{refused.name} was not seeded: {refused.problem}")
    ctx.exit(_REFUSED if result.refused else 0)


async def _seed(app: Gandy) -> SeedResult:
    async with app:
        return await app.seed()
