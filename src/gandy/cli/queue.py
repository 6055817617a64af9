"""`gandy queue`: show and change queued jobs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, get_args

import click

from gandy.cli.bulk import Choice, confirm_bulk, exit_code
from gandy.cli.call import Call, pass_call
from gandy.cli.listing import PrintedRows, emit_found, limited, read_pages
from gandy.cli.options import before_option, bounded, choosing, example, json_input, json_option, yes_option
from gandy.cli.output import (
    cancel_desk,
    emit_cancelled,
    emit_record,
    emit_rows,
    human,
    print_text,
    say,
    tell_progress,
)
from gandy.cli.session import CommandSession, with_session
from gandy.desk.audit import local_operator
from gandy.desk.cancelling import UndispatchedStatus
from gandy.desk.queue import EnqueueOptions, QueueDesk
from gandy.errors import AppNotGivenError, OtherOwnerError
from gandy.model.owners import OneOwner
from gandy.store.reading.listings import EntryFilter, EntrySort, EntryStatus, Gate, WantedStatus

if TYPE_CHECKING:
    from gandy.desk.entries import EntrySummary
    from gandy.desk.queue import QueuedJob

_STATUSES: Final[tuple[WantedStatus, ...]] = (*get_args(EntryStatus), "undispatched")
_COLUMNS = (
    "id",
    "train",
    "manifest",
    "group",
    "status",
    "waits_for",
    "priority",
    "attempt",
    "scheduled_at",
    "why",
    "reason",
)

_EXPLAINED = ("id", "train", "manifest", "group", "status", "waits_for", "why")


@click.group(epilog=example("gandy queue list --gate train"))
def queue() -> None:
    """Show and change queued jobs."""


@queue.command("list", epilog=example("gandy queue list --status skipped --train CloseMonth"))
@click.option(
    "--status",
    type=click.Choice([*_STATUSES, "all"]),
    default="undispatched",
    show_default=True,
    help="Only entries in this state; undispatched: queued or waiting.",
)
@click.option(
    "--gate",
    type=click.Choice(get_args(Gate)),
    help="Only entries that wait for nothing (open), a time, their manifest, or a worker for their train.",
)
@choosing("entries")
@click.option(
    "--sort",
    type=click.Choice(get_args(EntrySort)),
    default="id",
    show_default=True,
    help="The newest first; scheduled_at, the soonest first, needs --gate time.",
)
@click.option("--before", type=bounded("id"), metavar="ID", help="Only entries after this one in the list.")
@limited(50)
@json_option
@pass_call
def list_queue(
    call: Call,
    /,
    *,
    status: str,
    gate: Gate | None,
    sort: EntrySort,
    before: int | None,
    limit: int | None,
    as_json: bool,
    **chosen: Any,  # noqa: ANN401 each option has its own type
) -> None:
    """List entries, the newest first."""
    wanted_status = next((word for word in _STATUSES if word == status), None)
    wanted = EntryFilter(status=wanted_status, gate=gate, sort=sort, **chosen)

    async def read(session: CommandSession) -> PrintedRows[EntrySummary]:
        desk = queue_desk(session)
        return await read_pages(
            lambda start, length: desk.list(replace(wanted, before=start, limit=length)), before, limit
        )

    emit_found(with_session(call, read), call.columns(*_COLUMNS), as_json=as_json)


@queue.command(epilog=example("gandy queue show 42"))
@click.argument("entry_id", metavar="ID", type=bounded("id"))
@json_option
@pass_call
def show(call: Call, entry_id: int, *, as_json: bool) -> None:
    """Show one entry with its input, and what it waits for."""
    emit_record(with_session(call, lambda session: queue_desk(session).show(entry_id)), as_json=as_json)


@queue.command(epilog=example("gandy queue explain 42"))
@click.argument("entry_id", metavar="ID", type=bounded("id"))
@json_option
@pass_call
def explain(call: Call, entry_id: int, *, as_json: bool) -> None:
    """Explain why a job has not started: every condition, and what to do."""
    found = with_session(call, lambda session: queue_desk(session).explain(entry_id))
    if as_json:
        emit_record(found, as_json=True)
        return
    emit_record({name: getattr(found, name) for name in _EXPLAINED}, as_json=False)
    if found.conditions:
        print_text()
        emit_rows(found.conditions, ("holds", "condition", "why"), as_json=False)
    if found.what_to_do:
        print_text()
    for advice in found.what_to_do:
        print_text(f"What to do: {human(advice)}")


@queue.command(epilog=example("""gandy queue enqueue send_invoice --input '{"number": 7}' --delay 10m"""))
@click.argument("train")
@click.option("--input", "text", type=json_input, metavar="JSON", help="JSON, @file or - for stdin.")
@click.option("--group", type=bounded("group"), help="Instead of the train's group.")
@click.option("--delay", type=bounded("delay"), metavar="D", help="Earliest start, from now.")
@click.option("--priority", type=bounded("priority"), help="0 to 31, higher first.")
@click.option(
    "--max-retries", type=bounded("max_retries"), help="Failed attempts before the job becomes a dead letter."
)
@click.option("--retry-delay", type=bounded("retry_delay"), metavar="D", help="Delay before the first retry.")
@click.option("--timeout", type=bounded("timeout"), metavar="D", help="Time limit of a run, or none.")
@click.option(
    "--unique-for", type=bounded("unique_for"), metavar="D", help="Queue the same job once in this period."
)
@click.option("--key", type=bounded("key"), help="Idempotency key; by default the input.")
@json_option
@pass_call
def enqueue(
    call: Call,
    /,
    train: str,
    *,
    text: str | None,
    as_json: bool,
    **given: Any,  # noqa: ANN401 each option has its own type
) -> None:
    """Queue one job of a train.

    Needs the application: its types check the input.
    """
    options = EnqueueOptions(**given)
    job = with_session(call, lambda session: _enqueue(session, train, input_json=text, options=options))
    emit_record(job, as_json=as_json)
    if not job.is_new:
        say("The same job is already queued; no new entry was added.")


@queue.command(epilog=example("gandy queue cancel 42", "gandy queue cancel --train send_invoice --yes"))
@click.argument("entry_ids", metavar="[ID]...", type=bounded("id"), nargs=-1)
@click.option(
    "--status",
    type=click.Choice(get_args(UndispatchedStatus)),
    help="All entries in this state; undispatched: queued or waiting.",
)
@click.option("--gate", type=click.Choice(get_args(Gate)), help="All entries that wait for this.")
@choosing("entries")
@before_option
@yes_option
@json_option
@click.pass_context
@pass_call
def cancel(
    call: Call,
    ctx: click.Context,
    /,
    entry_ids: tuple[int, ...],
    *,
    status: UndispatchedStatus | None,
    gate: Gate | None,
    yes: bool,
    as_json: bool,
    **chosen: Any,  # noqa: ANN401 each option has its own type
) -> None:
    """Cancel entries: these, or all that match a filter; a run that has begun is asked to stop."""
    wanted = EntryFilter(status=status, gate=gate, **chosen)
    progress = None if entry_ids else tell_progress
    choice = Choice(entry_ids, wanted)
    if not entry_ids and not yes:
        found = with_session(call, lambda session: cancel_desk(session).preview_entries(wanted))
        choice = confirm_bulk("Cancel", found, wanted)
    result = choice.ended(
        with_session(call, lambda session: cancel_desk(session).entries(choice.ids, choice.wanted, progress))
    )
    ctx.exit(exit_code(result, emit_cancelled(result, as_json=as_json)))


async def _enqueue(
    session: CommandSession, train: str, *, input_json: str | None, options: EnqueueOptions
) -> QueuedJob:
    if session.app is None:
        raise AppNotGivenError
    if session.owners != OneOwner(session.app.name):
        raise OtherOwnerError(session.app.name)
    return await queue_desk(session).enqueue(train, input_json, options, registry=session.app.registry)


def queue_desk(session: CommandSession) -> QueueDesk:
    """Return the desk of the queue for a command."""
    operator = local_operator("cli")
    return QueueDesk(
        session.database,
        operator,
        owners=session.owners,
        registry=session.registry,
        settings=session.settings,
    )
