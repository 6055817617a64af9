"""`gandy migrate`: the schema of the database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from gandy.cli.call import Call, pass_call
from gandy.cli.options import example, json_option
from gandy.cli.output import emit_json, print_text, say
from gandy.errors import CodeTooOldError
from gandy.settings import mask_url
from gandy.store.drivers import opening
from gandy.store.drivers.database import dialect_of, pending_script
from gandy.store.drivers.migrate import SchemaState, known_version

if TYPE_CHECKING:
    from gandy.store.drivers.grants import Grants

_TO_MAINTAIN: Final = "-- To maintain: to migrate, and to make and drop the days of history. As a superuser."
_TO_RUN: Final = "-- To run: services, the command line, the dashboard, enqueueing."
_TO_READ: Final = "-- To read: reports and dashboards of others."
_LATER: Final = " After the first migration:"


@click.command(epilog=example("gandy --database postgresql://localhost/jobs migrate --check"))
@click.option("--check", is_flag=True, help="Only say whether something is missing; exit code 1 if so.")
@click.option("--sql", is_flag=True, help="Print the SQL that is missing instead of running it.")
@click.option(
    "--grants", metavar="ROLE", help="Print what a role has to be granted on PostgreSQL; nothing is granted."
)
@json_option
@click.pass_context
@pass_call
def migrate(
    call: Call, ctx: click.Context, *, check: bool, sql: bool, grants: str | None, as_json: bool
) -> None:
    """Bring the schema of the database up to date.

    Safe when several servers do it at once. An SQLite file also migrates itself when an application opens it.
    """
    if (check, sql, grants is not None).count(True) > 1:
        raise click.UsageError("--check, --sql and --grants are asked one at a time")
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
    taken = "" if is_free else f" Owned by {found.owner!r} until a role takes it over:"
    later = "" if found.is_migrated else _LATER
    _print_part(_TO_MAINTAIN + taken, found.maintain, is_due=is_free)
    _print_part(_TO_RUN + later, found.run, is_due=found.is_migrated)
    _print_part(_TO_READ + later, found.read, is_due=found.is_migrated)


def _print_part(title: str, statements: tuple[str, ...], *, is_due: bool) -> None:
    """Print what can be run as it stands; what is for another day is a comment."""
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
