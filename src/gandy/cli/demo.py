"""`gandy demo`: run example trains on a separate database."""

from __future__ import annotations

import asyncio
import tempfile
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gandy.cli.call import Call, pass_call
from gandy.cli.options import example, json_option
from gandy.cli.output import emit_json, emit_rows, print_text, say
from gandy.settings.urls import mask_url

if TYPE_CHECKING:
    from gandy.cli.demonstration.play import Ended
    from gandy.cli.status_line import StatusLine

_GRACE = timedelta(seconds=5)
_LONGEST = timedelta(days=365).total_seconds()
_COLUMNS = ("train", "state", "runs", "average", "longest", "log_lines")


@click.command(epilog=example("gandy demo --seconds 20"))
@click.option(
    "--seconds", type=click.FloatRange(0, _LONGEST, min_open=True), help="Stop after this many seconds."
)
@click.option(
    "--port", type=click.IntRange(0, 65_535), default=0, help="The port of the dashboard; 0: any free port."
)
@json_option
@pass_call
def demo(call: Call, *, seconds: float | None, port: int, as_json: bool) -> None:
    """Run example trains on a separate database.

    Trains of several junctions run; one fails and is retried, one is cancelled. The demo stops after
    --seconds or on Ctrl-C and prints a summary. The database is kept, so that other commands can show it.
    On a terminal the last lines show what runs, what needs a person, and the address of the dashboard.
    """
    from gandy.cli.status_line import line_below  # noqa: PLC0415 `gandy demo --help` needs none of it

    url = call.database or f"sqlite:///{Path(tempfile.mkdtemp(prefix='gandy-demo-')) / 'demo.db'}"
    say(f"Database: {mask_url(url)}; {'it stops after --seconds' if seconds else 'press Ctrl-C to stop'}.")
    with line_below() as line:
        ended = asyncio.run(_play(url, seconds, port, line=line))
    if as_json:
        emit_json({"database": mask_url(ended.database), "trains": ended.tallies})
    else:
        _summarise(ended)


async def _play(url: str, seconds: float | None, port: int, *, line: StatusLine | None) -> Ended:
    from gandy.app.process import stop_on_signals  # noqa: PLC0415
    from gandy.cli.demonstration.play import play  # noqa: PLC0415 `gandy demo --help` needs none of it

    stop = stop_on_signals(grace=_GRACE)
    if seconds is not None:
        asyncio.get_running_loop().call_later(seconds, stop.set)
    return await play(url, stop, port=port, line=line)


def _summarise(ended: Ended) -> None:
    runs = sum(tally.runs for tally in ended.tallies)
    lines = sum(tally.log_lines for tally in ended.tallies)
    print_text(f"\n{runs} runs, {lines} log lines:\n")
    emit_rows(ended.tallies, _COLUMNS, as_json=False)
    print_text(f"\nLook closer:\n  gandy --database {mask_url(ended.database)} --all-owners runs list")
