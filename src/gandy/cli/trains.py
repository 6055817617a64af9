"""`gandy trains`: what the application can run."""

from __future__ import annotations

import click

from gandy.cli.call import Call, pass_call
from gandy.cli.cells import as_mapping
from gandy.cli.options import example, json_option
from gandy.cli.output import emit_rows
from gandy.desk.groups import TrainSummary, list_trains


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
