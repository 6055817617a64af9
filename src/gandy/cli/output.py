"""One way to print: tables for people, plain text for pipes, JSON for programs; messages go to stderr."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, TypeVar

import click

from gandy.cli.cells import as_mapping, human, to_json
from gandy.settings.files import many_lines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gandy.desk.audit import Listed

T = TypeVar("T")

_GAP = "  "


def emit_rows(rows: Sequence[object], columns: Sequence[str], *, as_json: bool) -> None:
    """Print a listing of mappings or dataclasses; people see the named columns, programs see everything."""
    records = [as_mapping(row) for row in rows]
    if as_json:
        emit_json(records)
        return
    if not records:
        say("Nothing to show.")
        return
    titles = [column.replace("_", " ") for column in columns]
    cells = [[human(record[column]) for column in columns] for record in records]
    if sys.stdout.isatty():
        _draw(titles, cells)
    else:
        _align([[title.upper() for title in titles], *cells])


def emit_listing(
    found: Listed[T], columns: Sequence[str], *, as_json: bool, option: str = "--before"
) -> None:
    """Print a page of a listing, and say where a search stopped that could not look at everything."""
    emit_rows(found, columns, as_json=as_json)
    if found.is_cut and found.next is None:
        say("There may be more: pass --owner NAME to list those of one application, page by page.")
    elif found.is_cut:
        say(f"The search stopped at {found.next}; there may be more: pass {option} {found.next} to go on.")


def emit_record(record: object, *, as_json: bool) -> None:
    """Print one mapping or dataclass, a line for each of its fields."""
    content = as_mapping(record)
    if as_json:
        emit_json(content)
    else:
        _align([[f"{key.replace('_', ' ')}:", human(value)] for key, value in content.items()])


def emit_json(data: object) -> None:
    """Print JSON, and nothing else, on stdout."""
    click.echo(to_json(data))


def print_text(text: str = "", *, ends_line: bool = True) -> None:
    """Print stored text on stdout, made harmless; its line ends stay."""
    click.echo(many_lines(text), nl=ends_line)


def say(message: str) -> None:
    """Tell the person at the terminal something; stdout stays clean."""
    click.echo(many_lines(message), err=True)


def _draw(titles: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
    from rich.box import SIMPLE_HEAD  # noqa: PLC0415 slow to import, and pipes do without
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    table = Table(*titles, box=SIMPLE_HEAD, header_style="bold", pad_edge=False)
    for row in cells:
        table.add_row(*map(Text, row))
    Console().print(table)


def _align(lines: Sequence[Sequence[str]]) -> None:
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        padded = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        click.echo(_GAP.join(padded).rstrip())
