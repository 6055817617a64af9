"""`gandy doctor`: check the installation."""

from __future__ import annotations

import asyncio

import click

from gandy.cli.call import Call, pass_call
from gandy.cli.options import example, json_option
from gandy.cli.output import emit_json, human, print_text, say
from gandy.desk.doctor import Doctor, DoctorReport
from gandy.model.owners import ALL_OWNERS

_FOUND = 1


@click.command(epilog=example("gandy --app billing:app doctor --json"))
@json_option
@click.pass_context
@pass_call
def doctor(call: Call, ctx: click.Context, *, as_json: bool) -> None:
    """Check the installation and suggest fixes.

    Checks the database, its schema, clock and indexes, the workers and their runs, retention, dead letters
    and references, and the lifecycle contracts of the application.
    Changes nothing. The exit code is 1 if there are findings.
    """
    app = call.find_app()
    settings = app.settings if app else call.load_settings().settings
    owners = call.named_owners(app) or ALL_OWNERS
    physician = (
        Doctor(settings, owners=owners)
        if app is None
        else Doctor(settings, owners=owners, registry=app.registry, contracts=app.contracts)
    )
    report = asyncio.run(physician.examine())
    if as_json:
        emit_json(report)
    else:
        _print(report)
    ctx.exit(0 if report.is_clean else _FOUND)


def _print(report: DoctorReport) -> None:
    for finding in report.findings:
        print_text(f"{finding.level}: {finding.check}: {human(finding.what)}\n  {human(finding.to_do)}")
    say(f"Checked: {', '.join(report.checked)}.")
    say("Nothing found." if report.is_clean else f"Found: {len(report.findings)}.")
