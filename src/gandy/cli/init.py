"""`gandy init`: a first application, small and working."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import click

from gandy.cli.options import example
from gandy.cli.output import say
from gandy.errors import FileAccessError, FileInTheWayError

#: What is written, and what it is copied from (not named .py: inside the package it is no module).
_FILES = {"app.py": "app.py.txt", "gandy.toml": "gandy.toml"}
_NEXT = """\
Now, in {directory}:
  gandy up                                               run it; the dashboard is at http://127.0.0.1:8423
  gandy queue enqueue greet --input '{{"name": "Ada"}}'    give it something to do
  gandy runs list                                        see what happened"""


@click.command(epilog=example("gandy init hello"))
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path), default=Path())
def init(directory: Path) -> None:
    """Write a small working application.

    It has two trains, one of them on a schedule, in app.py and gandy.toml. Nothing is overwritten.
    """
    targets = tuple(directory / name for name in _FILES)
    in_the_way = tuple(target for target in targets if target.exists())
    if in_the_way:
        raise FileInTheWayError(in_the_way)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for target in targets:
            _write_starter(target)
    except OSError as error:
        raise FileAccessError(
            Path(error.filename or directory), f"cannot be written: {error.strerror}"
        ) from error
    say(_NEXT.format(directory=directory.absolute()))


def _write_starter(target: Path) -> None:
    """Copy one file of the starter; `x` never overwrites, whoever else writes meanwhile."""
    text = files("gandy.cli").joinpath("starter", _FILES[target.name]).read_text(encoding="utf-8")
    with target.open("x", encoding="utf-8") as file:
        file.write(text)
    say(f"Wrote {target}")
