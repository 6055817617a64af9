"""`gandy config`: the settings as they are in force."""

from __future__ import annotations

import click

from gandy.cli.call import Call, pass_call
from gandy.cli.options import example, json_option
from gandy.cli.output import emit_json, emit_rows, say


@click.group(epilog=example("gandy config show --json"))
def config() -> None:
    """Show the settings."""


@config.command(epilog=example("GANDY_WORKER_SLOTS=20 gandy config show"))
@json_option
@pass_call
def show(call: Call, *, as_json: bool) -> None:
    """Show every setting, its value and where that came from.

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
