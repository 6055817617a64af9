"""`gandy dead-letters`: failed jobs that wait for an operator."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, get_args

import click

from gandy.cli.bulk import Choice, confirm_bulk, exit_code, tell_number
from gandy.cli.call import Call, pass_call
from gandy.cli.listing import PrintedRows, emit_found, limited, read_pages
from gandy.cli.options import before_option, bounded, choosing, example, json_input, json_option, yes_option
from gandy.cli.output import emit_json, emit_record, emit_rows, say
from gandy.cli.session import CommandSession, with_session
from gandy.desk.audit import local_operator
from gandy.desk.dead_letters import DeadLetterDesk, LetterSummary
from gandy.store.reading.listings import LetterFilter, LetterSort, LetterStatus

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gandy.store.letters import AcknowledgeResult, RequeueResult

_COLUMNS = ("id", "train", "manifest", "status", "attempt", "dead_lettered_at", "reason")
_LEFT_UNDONE = 1

all_option = click.option("--all", "everything", is_flag=True, help="All unresolved letters.")


@click.group("dead-letters", epilog=example("gandy dead-letters requeue 42"))
def dead_letters() -> None:
    """Show and resolve failed jobs that wait for an operator."""


@dead_letters.command("list", epilog=example("gandy dead-letters list --train CloseMonth --json"))
@click.option(
    "--status",
    type=click.Choice([*get_args(LetterStatus), "all"]),
    default="awaiting_intervention",
    show_default=True,
    help="Only letters in this state.",
)
@choosing("letters")
@click.option(
    "--sort",
    type=click.Choice(get_args(LetterSort)),
    default="id",
    show_default=True,
    help="The newest first; resolved_at needs --status retried or acknowledged.",
)
@click.option("--before", type=bounded("id"), metavar="ID", help="Only letters after this one in the list.")
@limited(50)
@json_option
@pass_call
def list_letters(
    call: Call,
    /,
    *,
    status: str,
    sort: LetterSort,
    before: int | None,
    limit: int | None,
    as_json: bool,
    **filters: Any,  # noqa: ANN401 each option has its own type
) -> None:
    """List dead letters, the newest first."""
    wanted = next((word for word in get_args(LetterStatus) if word == status), None)
    chosen = LetterFilter(status=wanted, sort=sort, **filters)

    async def read(session: CommandSession) -> PrintedRows[LetterSummary]:
        desk = _desk(session)
        return await read_pages(
            lambda start, length: desk.list(replace(chosen, before=start, limit=length)), before, limit
        )

    emit_found(with_session(call, read), call.columns(*_COLUMNS), as_json=as_json)


@dead_letters.command(epilog=example("gandy dead-letters show 42"))
@click.argument("letter_id", metavar="ID", type=bounded("id"))
@json_option
@pass_call
def show(call: Call, letter_id: int, *, as_json: bool) -> None:
    """Show one dead letter: the failure, the input and the resolution."""
    emit_record(with_session(call, lambda session: _desk(session).show(letter_id)), as_json=as_json)


@dead_letters.command(epilog=example("""gandy dead-letters requeue 42 --input '{"number": 8}'"""))
@click.argument("letter_ids", metavar="[ID]...", type=bounded("id"), nargs=-1)
@all_option
@choosing("letters")
@before_option
@click.option("--input", "text", type=json_input, metavar="JSON", help="Replaces the original input.")
@yes_option
@json_option
@click.pass_context
@pass_call
def requeue(
    call: Call,
    ctx: click.Context,
    /,
    letter_ids: tuple[int, ...],
    *,
    everything: bool,
    text: str | None,
    yes: bool,
    as_json: bool,
    **chosen: Any,  # noqa: ANN401 each option has its own type
) -> None:
    """Queue the jobs of dead letters again, with the failure count reset."""
    wanted = LetterFilter(**chosen)
    _refuse_unclear(letter_ids, wanted, everything=everything)
    choice = Choice(letter_ids, wanted)
    if everything and not yes:
        choice = _agreed("Requeue", call, wanted)

    async def work(session: CommandSession) -> RequeueResult:
        desk = _desk(session)
        if not choice.ids:
            return await desk.requeue_all(choice.wanted, input_json=text, progress=tell_number)
        return await desk.requeue(choice.ids, input_json=text)

    result = choice.ended(with_session(call, work))
    if as_json:
        emit_json(result)
    else:
        emit_rows(result.requeued, ("letter_id", "entry_id", "was_waiting", "is_held"), as_json=False)
    ctx.exit(_explain(result))


@dead_letters.command(epilog=example("gandy dead-letters acknowledge 42 --note 'the supplier was down'"))
@click.argument("letter_ids", metavar="[ID]...", type=bounded("id"), nargs=-1)
@all_option
@choosing("letters")
@before_option
@click.option("--note", type=bounded("note"), required=True, help="The reason, for the record.")
@yes_option
@json_option
@click.pass_context
@pass_call
def acknowledge(
    call: Call,
    ctx: click.Context,
    /,
    letter_ids: tuple[int, ...],
    *,
    everything: bool,
    note: str,
    yes: bool,
    as_json: bool,
    **chosen: Any,  # noqa: ANN401 each option has its own type
) -> None:
    """Close dead letters without another run."""
    wanted = LetterFilter(**chosen)
    _refuse_unclear(letter_ids, wanted, everything=everything)
    choice = Choice(letter_ids, wanted)
    if everything and not yes:
        choice = _agreed("Acknowledge", call, wanted)

    async def work(session: CommandSession) -> AcknowledgeResult:
        desk = _desk(session)
        if not choice.ids:
            return await desk.acknowledge_all(choice.wanted, note, progress=tell_number)
        return await desk.acknowledge(choice.ids, note)

    result = choice.ended(with_session(call, work))
    if as_json:
        emit_json(result)
    else:
        rows = [{"letter_id": letter_id} for letter_id in result.acknowledged]
        emit_rows(rows, ("letter_id",), as_json=False)
    ctx.exit(_explain(result))


def _refuse_unclear(letter_ids: Sequence[int], wanted: LetterFilter, *, everything: bool) -> None:
    if bool(letter_ids) == everything:
        raise click.UsageError("pass the ids of the letters, or --all")
    if not everything and wanted != LetterFilter():
        raise click.UsageError("filters select among --all; they cannot be combined with ids")


def _agreed(verb: str, call: Call, wanted: LetterFilter) -> Choice[LetterFilter]:
    """Ask before many letters are resolved, and return those that were agreed to, the oldest first."""
    found = with_session(call, lambda session: _desk(session).preview(wanted))
    choice = confirm_bulk(verb, found, wanted, what="dead letter")
    return replace(choice, ids=choice.ids[::-1])


def _explain(result: RequeueResult | AcknowledgeResult) -> int:
    """Report the letters that this call did not resolve, and return the exit code."""
    for letter_id in result.resolved_before:
        say(f"Dead letter {letter_id} is already resolved; see gandy dead-letters show {letter_id}.")
    for letter_id in result.unknown:
        say(f"There is no dead letter {letter_id}.")
    return exit_code(result, _LEFT_UNDONE if result.resolved_before or result.unknown else 0)


def _desk(session: CommandSession) -> DeadLetterDesk:
    return DeadLetterDesk(
        session.database, local_operator("cli"), owners=session.owners, registry=session.registry
    )
