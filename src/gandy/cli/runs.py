"""`gandy runs`: show runs and their results."""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import timedelta
from typing import Any, get_args

import click

from gandy.cli.bulk import Choice, confirm_bulk, emit_rerun, exit_code, rerun_desk, tell_number
from gandy.cli.call import Call, pass_call
from gandy.cli.listing import PrintedRows, emit_found, limited, read_pages
from gandy.cli.options import before_option, bounded, choosing, example, json_input, json_option, yes_option
from gandy.cli.output import (
    cancel_desk,
    emit_cancelled,
    emit_record,
    emit_rows,
    print_text,
    say,
    tell_progress,
)
from gandy.cli.queue import queue_desk
from gandy.cli.session import CommandSession, with_session
from gandy.desk.cancelling import LiveState
from gandy.desk.choosing.rerunning import EndedState
from gandy.desk.runs import JunctionRun, RunDetail, RunInsights, RunSummary
from gandy.errors import RunNotStartedError
from gandy.model.run import ADMINISTRATIVE_TRAINS, TrainState
from gandy.store.reading.listings import RunFilter, RunSort

_COLUMNS = ("id", "train", "state", "manifest", "attempt", "start_time", "took", "failure_exception")
_MILLISECOND = timedelta(milliseconds=1)
_LONGEST_REASON = 4_000
_BELOW = ("junctions", "stack_trace")


def _bounded(_context: click.Context, _option: click.Parameter, text: str | None) -> str | None:
    """Refuse a text that is too long for the audit log."""
    if text is not None and len(text) > _LONGEST_REASON:
        raise click.BadParameter(f"it has {len(text)} characters; the maximum is {_LONGEST_REASON}")
    return text


@click.group(epilog=example("gandy runs list --state failed"))
def runs() -> None:
    """Show runs and their results."""


@runs.command("list", epilog=example("gandy runs list --train CloseMonth --json"))
@click.option(
    "--state", type=click.Choice([state.value for state in TrainState]), help="Only runs in this state."
)
@choosing("runs")
@click.option("--admin", is_flag=True, help="Gandy's own trains too.")
@click.option(
    "--sort",
    type=click.Choice(get_args(RunSort)),
    default="id",
    show_default=True,
    help="The newest first; start_time needs --train and one owner.",
)
@click.option("--before", type=bounded("id"), metavar="ID", help="Only runs after this one in the list.")
@limited(50)
@json_option
@pass_call
def list_runs(
    call: Call,
    /,
    *,
    state: str | None,
    admin: bool,
    sort: RunSort,
    before: int | None,
    limit: int | None,
    as_json: bool,
    **chosen: Any,  # noqa: ANN401 each option has its own type
) -> None:
    """List runs, the newest first; without Gandy's own trains, unless --train or --admin asks for them.

    Lists runs of the application, of --owner NAME, or with --all-owners of every application in the database.
    """

    async def read(session: CommandSession) -> PrintedRows[RunSummary]:
        wanted = RunFilter(state=state, sort=sort, **chosen)
        insights = _insights(session)
        return await read_pages(
            lambda start, length: insights.list(replace(wanted, before=start, limit=length)),
            before,
            limit,
            keep=None if admin or wanted.train else _is_the_applications,
        )

    emit_found(with_session(call, read), call.columns(*_COLUMNS), as_json=as_json)


def _is_the_applications(run: RunSummary) -> bool:
    return run.train not in ADMINISTRATIVE_TRAINS


@runs.command(epilog=example("gandy runs show 42"))
@click.argument("run_id", metavar="ID", type=bounded("id"))
@json_option
@pass_call
def show(call: Call, run_id: int, *, as_json: bool) -> None:
    """Show one run: input, output, junction timings, failure; or its entry, if it has not started."""
    try:
        detail = with_session(call, lambda session: _insights(session).show(run_id))
    except RunNotStartedError:
        say(f"Run {run_id} has not started; this is its entry.")
        emit_record(with_session(call, lambda session: queue_desk(session).show(run_id)), as_json=as_json)
        return
    if as_json:
        emit_record(detail, as_json=True)
        return
    emit_record(_without(detail, _BELOW), as_json=False)
    if detail.junctions:
        print_text()
        emit_rows(
            [_timing(each) for each in detail.junctions], ("junction", "started", "took"), as_json=False
        )
    if detail.stack_trace:
        print_text(f"\n{detail.stack_trace}")


@runs.command(epilog=example("gandy runs logs 42 --json"))
@click.argument("run_id", metavar="ID", type=bounded("id"))
@click.option(
    "--limit",
    type=click.IntRange(1, 100_000),
    default=1_000,
    show_default=True,
    help="Maximum number of rows.",
)
@json_option
@pass_call
def logs(call: Call, run_id: int, *, limit: int, as_json: bool) -> None:
    """Show the lines that a run wrote."""
    found = with_session(call, lambda session: _insights(session).logs(run_id, limit=limit + 1))
    emit_rows(found[:limit], ("created_at", "level", "logger", "message"), as_json=as_json)
    if len(found) > limit:
        say(f"These are the first {limit:,} lines; for more pass --limit N.")


def _timing(ran: JunctionRun) -> dict[str, str]:
    """Format a timing with microseconds: junctions often take less than a millisecond."""
    return {
        "junction": ran.junction,
        "started": f"{ran.started / _MILLISECOND:.3f} ms",
        "took": f"{ran.took / _MILLISECOND:.3f} ms",
    }


@runs.command(
    epilog=example("gandy runs cancel 42", "gandy runs cancel --train CloseMonth --state in_progress --yes")
)
@click.argument("run_ids", metavar="[ID]...", type=bounded("id"), nargs=-1)
@click.option("--state", type=click.Choice(get_args(LiveState)), help="All runs in this state.")
@choosing("runs")
@before_option
@yes_option
@json_option
@click.pass_context
@pass_call
def cancel(
    call: Call,
    ctx: click.Context,
    /,
    run_ids: tuple[int, ...],
    *,
    state: str | None,
    yes: bool,
    as_json: bool,
    **chosen: Any,  # noqa: ANN401 each option has its own type
) -> None:
    """Cancel runs, started or not: these, or all that match a filter; they are not retried."""
    wanted = RunFilter(state=state, **chosen)
    progress = None if run_ids else tell_progress
    choice = Choice(run_ids, wanted)
    if not run_ids and not yes:
        found = with_session(call, lambda session: cancel_desk(session).preview_runs(wanted))
        choice = confirm_bulk("Cancel", found, wanted)
    result = choice.ended(
        with_session(call, lambda session: cancel_desk(session).runs(choice.ids, choice.wanted, progress))
    )
    ctx.exit(exit_code(result, emit_cancelled(result, as_json=as_json)))


@runs.command(epilog=example("gandy runs fail 42 --reason 'its host is gone'"))
@click.argument("run_id", metavar="ID", type=bounded("id"))
@click.option("--reason", callback=_bounded, help="The reason, for the record.")
@json_option
@pass_call
def fail(call: Call, run_id: int, *, reason: str | None, as_json: bool) -> None:
    """Fail a run manually, whichever process executes it.

    A worker that still executes it is fenced off and told to stop. The failure does not count as a failed
    attempt: if the job is retried, the next attempt is queued immediately.
    """
    failed = with_session(call, lambda session: cancel_desk(session).fail(run_id, reason))
    emit_record(failed, as_json=as_json)
    if failed.next_attempt is None:
        say("No further attempt: the job is not retried, or another entry of it is already queued.")


@runs.command(
    epilog=example(
        """gandy runs rerun 42 --input '{"number": 8}'""",
        "gandy runs rerun --train CloseMonth --state failed --since 2h --yes",
    )
)
@click.argument("run_ids", metavar="[ID]...", type=bounded("id"), nargs=-1)
@click.option("--state", type=click.Choice(get_args(EndedState)), help="All runs in this state.")
@choosing("runs")
@before_option
@click.option("--input", "text", type=json_input, metavar="JSON", help="Replaces the input of a single run.")
@yes_option
@json_option
@click.pass_context
@pass_call
def rerun(
    call: Call,
    ctx: click.Context,
    /,
    run_ids: tuple[int, ...],
    *,
    state: str | None,
    text: str | None,
    yes: bool,
    as_json: bool,
    **chosen: Any,  # noqa: ANN401 each option has its own type
) -> None:
    """Queue finished runs again: these, or all that match a filter.

    A new run has the old run as its parent. It belongs to no manifest, so schedules and failure counts do
    not change.
    """
    wanted = RunFilter(state=state, **chosen)
    if len(run_ids) == 1 and wanted == RunFilter():
        again = with_session(
            call,
            lambda session: queue_desk(session).rerun(run_ids[0], input_json=text, registry=session.registry),
        )
        emit_record(again, as_json=as_json)
        return
    if text is not None:
        raise click.UsageError("--input replaces the input of a single run; pass one id")
    progress = None if run_ids else tell_number
    choice = Choice(run_ids, wanted)
    if not run_ids and not yes:
        found = with_session(call, lambda session: rerun_desk(session).preview(wanted))
        choice = confirm_bulk("Rerun", found, wanted)
    result = choice.ended(
        with_session(call, lambda session: rerun_desk(session).runs(choice.ids, choice.wanted, progress))
    )
    ctx.exit(emit_rerun(result, as_json=as_json))


def _insights(session: CommandSession) -> RunInsights:
    return RunInsights(session.database, session.owners, session.registry)


def _without(detail: RunDetail, left_out: tuple[str, ...]) -> dict[str, object]:
    """Omit the given fields, and fields without a value."""
    shown = {field.name: getattr(detail, field.name) for field in fields(detail)}
    return {name: value for name, value in shown.items() if name not in left_out and value is not None}
