"""`gandy groups`, `gandy workers` and `gandy trains`."""

from __future__ import annotations

import click

from gandy.cli.call import Call, pass_call
from gandy.cli.listing import emit_found, first_of, limited
from gandy.cli.options import bounded, confirm, example, json_option, yes_option
from gandy.cli.output import (
    as_mapping,
    cancel_desk,
    emit_cancelled,
    emit_record,
    emit_rows,
    say,
    tell_progress,
)
from gandy.cli.session import CommandSession, with_session
from gandy.desk.audit import local_operator
from gandy.desk.groups import GroupChanges, GroupDesk, TrainSummary, WorkerDesk, list_trains

_COLUMNS = ("name", "owner", "priority", "max_active_jobs", "active", "manifests", "is_enabled")


@click.group(epilog=example("gandy groups set etl --max-active 4"))
def groups() -> None:
    """Show and change groups of manifests."""


@groups.command("list", epilog=example("gandy groups list --json"))
@click.option("--prefix", default="", help="Only names with this prefix.")
@click.option("--after", default="", metavar="NAME", help="Only names that come after this one.")
@limited(100)
@json_option
@pass_call
def list_groups(call: Call, *, prefix: str, after: str, limit: int | None, as_json: bool) -> None:
    """List groups by name."""
    found = with_session(call, lambda session: _desk(session).list(prefix=prefix, after=after, limit=_MOST))
    emit_found(first_of(found, limit), call.columns(*_COLUMNS), as_json=as_json)


@groups.command(epilog=example("gandy groups show etl"))
@click.argument("name")
@json_option
@pass_call
def show(call: Call, name: str, *, as_json: bool) -> None:
    """Show one group with the values in force."""
    emit_record(with_session(call, lambda session: _desk(session).show(name)), as_json=as_json)


@groups.command("set", epilog=example("gandy groups set etl --disable --reason 'maintenance'"))
@click.argument("name")
@click.option("--max-active", type=bounded("max_active_jobs"), help="Maximum number of concurrent runs.")
@click.option("--priority", type=bounded("priority"), help="0 to 31, higher first.")
@click.option("--enable/--disable", "is_enabled", default=None, help="Enable or disable all its manifests.")
@click.option("--reason", type=bounded("reason"), help="The reason, for the record.")
@json_option
@pass_call
def set_values(
    call: Call,
    name: str,
    *,
    max_active: int | None,
    priority: int | None,
    is_enabled: bool | None,
    reason: str | None,
    as_json: bool,
) -> None:
    """Override declared values; the overrides survive a deploy."""
    changes = GroupChanges(
        max_active_jobs=max_active, priority=priority, is_enabled=is_enabled, reason=reason
    )
    emit_record(with_session(call, lambda session: _desk(session).set(name, changes)), as_json=as_json)


@groups.command(epilog=example("gandy groups reset etl"))
@click.argument("name")
@json_option
@pass_call
def reset(call: Call, name: str, *, as_json: bool) -> None:
    """Clear all overrides."""
    emit_record(with_session(call, lambda session: _desk(session).reset(name)), as_json=as_json)


@groups.command(epilog=example("gandy groups trigger etl --yes"))
@click.argument("name")
@yes_option
@json_option
@pass_call
def trigger(call: Call, name: str, *, yes: bool, as_json: bool) -> None:
    """Queue every manifest of the group now."""
    confirm(f"Queue every manifest of group {name}?", yes=yes)
    triggered = with_session(call, lambda session: _desk(session).trigger(name))
    emit_rows(triggered, ("external_id", "id", "scheduled_at", "is_new"), as_json=as_json)


@groups.command(epilog=example("gandy groups cancel etl --yes"))
@click.argument("name")
@yes_option
@json_option
@pass_call
def cancel(call: Call, name: str, *, yes: bool, as_json: bool) -> None:
    """Cancel all queued and running jobs of the group; later jobs are not affected."""
    confirm(f"Cancel all queued and running jobs of group {name}?", yes=yes)
    result = with_session(call, lambda session: cancel_desk(session).group(name, tell_progress))
    emit_cancelled(result, as_json=as_json)


def _desk(session: CommandSession) -> GroupDesk:
    return GroupDesk(session.database, local_operator("cli"), owners=session.owners)


_MOST = 1_000_000
_WORKER_COLUMNS = (
    "id",
    "host",
    "pid",
    "version",
    "state",
    "is_alive",
    "silent_for",
    "busy",
    "slots",
    "longest_stall",
)


@click.group(epilog=example("gandy workers list --alive"))
def workers() -> None:
    """Show and drain workers."""


@workers.command("list", epilog=example("gandy workers list --json"))
@click.option(
    "--alive/--gone", "is_alive", default=None, help="Only workers with a valid lease, or only the others."
)
@limited(100)
@json_option
@pass_call
def list_workers(call: Call, *, is_alive: bool | None, limit: int | None, as_json: bool) -> None:
    """List workers, the most recent heartbeat first."""
    found = with_session(call, lambda session: _worker_desk(session).list(is_alive=is_alive, limit=_MOST))
    emit_found(first_of(found, limit), call.columns(*_WORKER_COLUMNS), as_json=as_json)


@workers.command(epilog=example("gandy workers drain 1f0c9a"))
@click.argument("worker_id", metavar="ID")
@pass_call
def drain(call: Call, worker_id: str) -> None:
    """Let a worker finish its runs and claim no more; its process keeps running."""
    with_session(call, lambda session: _worker_desk(session).drain(worker_id))
    say("The worker claims no more runs; `gandy workers list` shows how many it still has.")


def _worker_desk(session: CommandSession) -> WorkerDesk:
    return WorkerDesk(session.database, local_operator("cli"), owners=session.owners)


@click.group(epilog=example("gandy trains list"))
def trains() -> None:
    """Show the trains of the application."""


@trains.command("list", epilog=example("gandy --app billing:app trains list --json"))
@json_option
@pass_call
def list_all(call: Call, *, as_json: bool) -> None:
    """List the trains with their types and junctions."""
    app = call.load_app()
    found = list_trains(app.registry, app.settings.retry)
    columns = ("name", "input", "output", "junctions", "group", "place")
    if as_json:
        emit_rows(found, columns, as_json=True)
    else:
        emit_rows([_shown(train) for train in found], columns, as_json=False)


def _shown(train: TrainSummary) -> dict[str, object]:
    return {**as_mapping(train), "junctions": " -> ".join(train.junctions)}
