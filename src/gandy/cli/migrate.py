"""`gandy migrate`: the schema of the database."""

from __future__ import annotations

import click

from gandy.cli.call import Call, pass_call
from gandy.cli.options import example, json_option
from gandy.cli.output import emit_json, say
from gandy.errors import CodeTooOldError
from gandy.settings import mask_url
from gandy.store.drivers import opening
from gandy.store.drivers.migrate import SchemaState, known_version
from gandy.store.drivers.scripts import pending_script
from gandy.store.drivers.urls import dialect_of


@click.command(epilog=example("gandy --database postgresql://localhost/jobs migrate --check"))
@click.option("--check", is_flag=True, help="Only say whether something is missing; exit code 1 if so.")
@click.option("--sql", is_flag=True, help="Print the SQL that is missing instead of running it.")
@json_option
@click.pass_context
@pass_call
def migrate(call: Call, ctx: click.Context, *, check: bool, sql: bool, as_json: bool) -> None:
    """Bring the schema of the database up to date.

    Safe when several servers do it at once. An SQLite file also migrates itself when an application opens it.
    """
    url = call.database_settings().url
    if not check and not sql:
        _report(_applied(url), url, as_json=as_json)
        return
    state = opening.schema_state(url)
    _refuse_newer(state, url)
    if sql:
        click.echo(pending_script(state, dialect_of(url)), nl=False)
        return
    pending = [migration.name for migration in state.pending(dialect_of(url))]
    _report({"version": state.version, "pending": pending}, url, as_json=as_json)
    ctx.exit(1 if pending else 0)


def _applied(url: str) -> dict[str, object]:
    result = opening.migrate(url)
    return {"version": result.after, "applied": list(result.applied)}


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
