"""`gandy lifecycle`: keep the tables of any application bounded, with a contract file and a database URL."""

from __future__ import annotations

import signal
import sys
from threading import Event
from typing import TYPE_CHECKING

import click

from gandy.cli.call import Call, pass_call
from gandy.cli.lifecycle_sources import Sources, attended, left_over, log_events, would_remove
from gandy.cli.measures.stats import growth
from gandy.cli.options import confirm, example, json_option, yes_option
from gandy.cli.output import emit_json, emit_rows, human, print_text, say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gandy.lifecycle import Contract
    from gandy.lifecycle.supervisor.report import ContractReport

_FOUND = 1


contract_option = click.option(
    "--contract", "files", metavar="FILE", multiple=True, help="A contract file; may be repeated."
)
target_option = click.option(
    "--target", metavar="URL", help="The application's database; by default the contract's."
)
table_option = click.option("--table", metavar="T", help="Only this table.")


@click.group(
    epilog=example("gandy lifecycle plan --contract lifecycle.toml --target postgresql:///app"),
)
def lifecycle() -> None:
    """Keep the tables of any application bounded."""


@lifecycle.command(
    epilog=example("gandy lifecycle check --contract lifecycle.toml --target sqlite:///app.db")
)
@contract_option
@target_option
@json_option
@click.pass_context
@pass_call
def check(call: Call, ctx: click.Context, *, files: Sequence[str], target: str | None, as_json: bool) -> None:
    """Check the contract against the database; exit 1 if a rule could not run."""
    from gandy.lifecycle import check as check_contracts  # noqa: PLC0415  # needs SQLAlchemy

    findings = check_contracts(Sources(call, files, target).contracts(), target)
    if as_json:
        emit_json(findings)
    else:
        for finding in findings:
            print_text(f"{finding.severity}: {human(finding)}")
        say(
            f"{len(findings)} findings."
            if findings
            else "Every rule fits its table and is served by an index."
        )
    if any(finding.severity.stops for finding in findings):
        ctx.exit(_FOUND)


@lifecycle.command(epilog=example("gandy lifecycle plan --contract lifecycle.toml --json"))
@contract_option
@target_option
@json_option
@click.pass_context
@pass_call
def plan(call: Call, ctx: click.Context, *, files: Sequence[str], target: str | None, as_json: bool) -> None:
    """Show what a sweep would delete now; deletes nothing."""
    from gandy.lifecycle import plan as plan_contracts  # noqa: PLC0415  # needs SQLAlchemy

    planned = plan_contracts(Sources(call, files, target).contracts(), target)
    columns = ("table", "rule", "rows", "oldest", "newest", "children", "set_null", "index", "batches")
    emit_rows(planned, columns, as_json=as_json)
    for rule in planned:
        if rule.refused:
            say(f"refused: {rule.refused}")
        if rule.needs_confirmation:
            say(f"needs confirmation: table {rule.table}: {rule.rule}: would delete {rule.rows:,} rows")
        for warning in rule.warnings:
            say(f"warning: {warning}")
        if rule.triggers:
            say(f"fires: table {rule.table}: {rule.rule}: {', '.join(rule.triggers)}")
        for note in rule.notes:
            say(f"note: table {rule.table}: {rule.rule}: {note}")
    if any(rule.refused for rule in planned):
        ctx.exit(_FOUND)


@lifecycle.command(epilog=example("gandy lifecycle sweep --contract lifecycle.toml --table outbox"))
@contract_option
@target_option
@table_option
@yes_option
@json_option
@click.pass_context
@pass_call
def sweep(
    call: Call,
    ctx: click.Context,
    *,
    files: Sequence[str],
    target: str | None,
    table: str | None,
    yes: bool,
    as_json: bool,
) -> None:
    """Sweep once, now, within the contract's budget; exit 1 if a rule failed or needs confirmation.

    Rows that remain because the budget is spent are reported on stderr.
    """
    from gandy.lifecycle import sweep as sweep_contracts  # noqa: PLC0415  # needs SQLAlchemy

    contracts = Sources(call, files, target).contracts()
    _must_name(contracts, table)
    log_events()
    is_shown = sys.stdout.isatty() and not as_json
    with attended(contracts, target, yes=yes, is_shown=is_shown) as options:
        reports = sweep_contracts(contracts, target, table=table, options=options)
    _show(reports) if is_shown else emit_json(reports)
    _explain(reports)
    if any(report.is_skipped or not report.is_clean for report in reports):
        ctx.exit(_FOUND)


def _must_name(contracts: Sequence[Contract], table: str | None) -> None:
    tables = [declared for contract in contracts for declared in contract.tables]
    known = {declared.label for declared in tables} | {declared.name for declared in tables}
    if table is not None and table not in known:
        message = f"no contract has a table {table}; known tables: {', '.join(sorted(known))}"
        raise click.BadParameter(message, param_hint="--table")


def _explain(reports: Sequence[ContractReport]) -> None:
    for report in reports:
        if report.doubt is not None:
            say(f"{report.scheduler}: nothing was deleted: {report.doubt}; pass --yes if the clock is right")
        if report.is_skipped:
            say(f"{report.scheduler}: skipped, because another process is sweeping")
        for held in report.held:
            what = f"{would_remove(held)}; pass --yes to confirm"
            say(f"{report.scheduler}: table {held.table}: {held.rule}: {what}")
        for unfinished in report.unfinished:
            say(f"{report.scheduler}: table {unfinished.table}: {unfinished.rule}: {left_over(unfinished)}")


def _show(reports: Sequence[ContractReport]) -> None:
    rows = [
        {"scheduler": report.scheduler, "table": name, "deleted": count}
        for report in reports
        for name, count in report.counts.items()
    ]
    emit_rows(rows, ("scheduler", "table", "deleted"), as_json=False)
    for report in reports:
        for failure in report.failures:
            say(f"failed: {report.scheduler}: table {failure.table}: {failure.rule}: {failure.error}")


@lifecycle.command(epilog=example("gandy lifecycle run --contract lifecycle.toml --metrics-port 9100"))
@contract_option
@target_option
@click.option(
    "--metrics-port",
    type=click.IntRange(0, 65_535),
    metavar="P",
    help="Serve Prometheus metrics on 127.0.0.1.",
)
@json_option
@pass_call
def run(
    call: Call, *, files: Sequence[str], target: str | None, metrics_port: int | None, as_json: bool
) -> None:
    """Sweep repeatedly until stopped, each contract at its own interval."""
    from gandy.lifecycle.supervisor.tick import keep_contracts  # noqa: PLC0415  # needs SQLAlchemy

    stop = Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    log_events()
    if metrics_port is not None:
        _serve_metrics(metrics_port)

    def ticked(report: ContractReport) -> None:
        if as_json:
            emit_json(report)

    keep_contracts(Sources(call, files, target).contracts(), target, stop=stop, ticked=ticked)


def _serve_metrics(port: int) -> None:
    from gandy.errors import MissingExtraError  # noqa: PLC0415

    try:
        from prometheus_client import start_http_server  # noqa: PLC0415  # an extra
    except ImportError as error:
        raise MissingExtraError("--metrics-port", "metrics") from error
    start_http_server(port, addr="127.0.0.1")


@lifecycle.command(epilog=example("gandy lifecycle audit --target postgresql:///app"))
@contract_option
@target_option
@json_option
@pass_call
def audit(call: Call, *, files: Sequence[str], target: str | None, as_json: bool) -> None:
    """Show every table with its retention rule, its size and its growth since the last audit.

    Without --target and --contract, audit the application's database, including Gandy's own tables.
    """
    from gandy.lifecycle import audit as audit_database  # noqa: PLC0415  # needs SQLAlchemy

    sources = Sources(call, files, target)
    database = sources.database()
    audited = audit_database(sources.bounding(database), database, others=sources.other_bounds(database))
    columns = ("table", "bound", "rows", "bytes", "rows_grown", "bytes_grown", "since")
    emit_rows(audited, columns, as_json=as_json)
    for reason in dict.fromkeys(table.no_history for table in audited if table.no_history):
        say(f"no history was kept: {reason}")


lifecycle.add_command(growth)


@lifecycle.command(epilog=example("gandy lifecycle quarantine --target postgresql:///app --release"))
@contract_option
@target_option
@table_option
@click.option("--release", is_flag=True, help="Let the next sweep try these rows again.")
@json_option
@pass_call
def quarantine(
    call: Call,
    *,
    files: Sequence[str],
    target: str | None,
    table: str | None,
    release: bool,
    as_json: bool,
) -> None:
    """List the rows that could not be deleted, with the error of the database; or release them."""
    from gandy.lifecycle import quarantine as list_rows  # noqa: PLC0415  # needs SQLAlchemy
    from gandy.lifecycle import release as release_rows  # noqa: PLC0415

    database = Sources(call, files, target).database()
    if not release:
        columns = ("scheduler", "table", "key", "rule", "error", "quarantined_at")
        emit_rows(list_rows(database, table=table), columns, as_json=as_json)
        return
    released = release_rows(database, table=table)
    if as_json:
        emit_json({"released": released})
    else:
        say(f"{released} rows released.")


@lifecycle.command(epilog=example("gandy lifecycle forget old_shop --target postgresql:///app"))
@click.argument("name")
@contract_option
@target_option
@yes_option
@json_option
@pass_call
def forget(
    call: Call, name: str, *, files: Sequence[str], target: str | None, yes: bool, as_json: bool
) -> None:
    """Delete the stored state of a contract that is no longer declared, including its holds."""
    from gandy.lifecycle import forget as forget_contract  # noqa: PLC0415  # needs SQLAlchemy

    database = Sources(call, files, target).database()
    confirm(f"Forget the contract {name}? Rows that it holds may then be deleted.", yes=yes)
    forgotten = forget_contract(database, name)
    if as_json:
        emit_json(forgotten)
    else:
        say(f"{name}: " + ", ".join(f"{count} {kind}" for kind, count in forgotten.items()) + " forgotten.")
