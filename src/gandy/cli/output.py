"""Output of commands: tables, records and JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import UTC, date, datetime, time, timedelta
from enum import Enum
from pathlib import PurePath
from typing import TYPE_CHECKING
from unicodedata import combining, east_asian_width
from uuid import UUID

import click

from gandy.desk.audit import local_operator
from gandy.desk.cancelling import CancelDesk
from gandy.settings import format_duration
from gandy.settings.files import many_lines, one_line

if TYPE_CHECKING:
    from collections.abc import Sequence
    from collections.abc import Set as AbstractSet

    from gandy.cli.session import CommandSession
    from gandy.store.cancelling import CancelResult


_SECOND = timedelta(seconds=1)
_MILLISECOND = timedelta(milliseconds=1)
_TEN_SECONDS = timedelta(seconds=10)


def human(value: object) -> str:
    """Format a value for a terminal, on one line and without control characters."""
    match value:
        case None:
            text = "-"
        case bool():
            text = "yes" if value else "no"
        case Enum():
            text = human(value.value)
        case datetime():
            text = f"{value.astimezone(UTC):%Y-%m-%d %H:%M:%S}Z"
        case timedelta():
            text = format_duration(_rounded(value))
        case Mapping() | list() | tuple():
            text = to_json(value, indent=None)
        case _:
            text = str(value)
    return one_line(text)


def to_json(value: object, *, indent: int | None = 2) -> str:
    """Format a value as JSON: instants in ISO 8601 and UTC, durations in seconds."""
    return json.dumps(value, default=_plain, indent=indent)


def as_mapping(row: object) -> Mapping[str, object]:
    """Return a mapping, or the fields of a dataclass, as a mapping."""
    if isinstance(row, Mapping):
        return row
    if is_dataclass(row):
        return {field.name: getattr(row, field.name) for field in fields(row)}
    raise TypeError(f"{type(row).__name__} is neither a mapping nor a dataclass")


def _plain(value: object) -> object:
    match value:
        case datetime():
            plain: object = value.astimezone(UTC).isoformat().replace("+00:00", "Z")
        case date() | time():
            plain = value.isoformat()
        case timedelta():
            plain = value.total_seconds()
        case Enum():
            plain = value.value
        case UUID() | PurePath():
            plain = str(value)
        case set() | frozenset():
            plain = sorted(value)
        case _:
            plain = dict(as_mapping(value))
    return plain


def _rounded(span: timedelta) -> timedelta:
    """Round to milliseconds, and to seconds from ten seconds on."""
    unit = _SECOND if abs(span) >= _TEN_SECONDS else _MILLISECOND
    return round(span / unit) * unit


_GAP = "  "


def emit_rows(
    rows: Sequence[object],
    columns: Sequence[str],
    *,
    as_json: bool,
    asked: str | None = None,
    empty: str = "Nothing to show.",
) -> None:
    """Print a listing of mappings or dataclasses; a table has the given columns, JSON has all fields.

    A narrow terminal keeps the column that was `asked` for; `empty` says what an empty listing means.
    """
    records = [as_mapping(row) for row in rows]
    if as_json:
        emit_json(records)
        return
    if not records:
        say(empty)
        return
    titles = [_title(column) for column in columns]
    cells = [[human(record[column]) for column in columns] for record in records]
    if sys.stdout.isatty():
        _draw(titles, cells, _KEPT | {_title(asked or "")})
    else:
        _align([[title.upper() for title in titles], *cells])


def emit_record(record: object, *, as_json: bool) -> None:
    """Print one mapping or dataclass, one line per field."""
    content = as_mapping(record)
    if as_json:
        emit_json(content)
    else:
        _align([[f"{key.replace('_', ' ')}:", human(value)] for key, value in content.items()])


def emit_json(data: object) -> None:
    """Print JSON, and nothing else, on stdout."""
    click.echo(to_json(data))


def print_text(text: str = "", *, ends_line: bool = True) -> None:
    """Print stored text on stdout with control characters escaped; line ends are kept."""
    click.echo(many_lines(text), nl=ends_line)


def say(message: str) -> None:
    """Print a message on stderr, so that stdout contains only the output."""
    click.echo(many_lines(message), err=True)


def _title(column: str) -> str:
    return column.replace("_", " ")


#: Columns that need their whole width: they are copied into other commands.
_IDENTIFYING = frozenset({"id", "external id", "name", "letter id", "manifest", "group", "owner", "pid"})
_LONGEST_ID = 48  # a longer one takes a third of the width, and goes on in the next line
_WIDTHS = (24, 16, 12)  # of any other column, whose cells go on in the next line; the first that lets all fit
#: Columns that a narrow terminal keeps: what a row is, and the answers that lists are read for.
_KEPT = _IDENTIFYING | {"why", "reason", "subject"}


def _draw(titles: Sequence[str], cells: Sequence[Sequence[str]], kept: AbstractSet[str]) -> None:
    from rich.box import SIMPLE_HEAD  # noqa: PLC0415 slow to import, and only needed on a terminal
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    console = Console()
    natural = [max(map(cells_of, column)) for column in zip(titles, *cells, strict=True)]
    widths = _fitting(dict(zip(titles, natural, strict=True)), console.width, kept)
    table = Table(box=SIMPLE_HEAD, header_style="bold", show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for title, width in widths.items():
        table.add_column(title, overflow="fold", min_width=width)
    for row in cells:
        table.add_row(*(Text(cell) for title, cell in zip(titles, row, strict=True) if title in widths))
    console.print(table)
    if len(widths) < len(titles):
        left_out = ", ".join(title for title in titles if title not in widths)
        say(f"Left out for want of room: {left_out}; --json has all columns.")


def _fitting(natural: Mapping[str, int], width: int, kept: AbstractSet[str]) -> dict[str, int]:
    """Return the columns that fit and their widths: all, as wide as possible, or those without the last."""
    widths: dict[str, int] = {}
    for widest in _WIDTHS:
        widths = {
            title: _bounded(title, cells, widest=widest, width=width) for title, cells in natural.items()
        }
        if _fits(widths, width):
            return widths
    while len(widths) > 1 and not _fits(widths, width):
        _, *others = widths
        unkept = [title for title in others if title not in kept]
        del widths[(unkept or others)[-1]]
    return widths


def _bounded(title: str, cells: int, *, widest: int, width: int) -> int:
    if title not in _IDENTIFYING:
        return min(cells, widest, width)
    return min(cells, width) if cells <= _LONGEST_ID else max(width // 3, _WIDTHS[-1])


def _fits(widths: Mapping[str, int], width: int) -> bool:
    return sum(widths.values()) + len(_GAP) * len(widths) <= width


def cells_of(text: str) -> int:
    """Return the width of a text at a terminal, where some characters take two cells, and marks none."""
    if text.isascii():
        return len(text)
    return sum(0 if combining(sign) else 2 if east_asian_width(sign) in "WF" else 1 for sign in text)


def _align(lines: Sequence[Sequence[str]]) -> None:
    widths = [max(map(cells_of, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        padded = (cell + " " * (width - cells_of(cell)) for cell, width in zip(line, widths, strict=True))
        click.echo(_GAP.join(padded).rstrip())


_NOT_FOUND = 1


def cancel_desk(session: CommandSession) -> CancelDesk:
    """Create the desk with the local user as operator."""
    return CancelDesk(
        session.database,
        local_operator("cli"),
        session.settings,
        owners=session.owners,
        registry=session.registry,
    )


def emit_cancelled(result: CancelResult, *, as_json: bool) -> int:
    """Print the outcome of each job and return the exit code: 1 if an id is unknown."""
    parts = {
        "cancelled": result.cancelled,
        "asked to stop": result.asked,
        "already over": result.over,
        "not found": result.unknown,
    }
    if as_json:
        outcomes = {word.replace(" ", "_"): ids for word, ids in parts.items()}
        emit_json({**outcomes, "looked": result.looked, "next": result.next})
    else:
        rows = [{"id": job_id, "outcome": word} for word, ids in parts.items() for job_id in ids]
        emit_rows(rows, ("id", "outcome"), as_json=False)
    if result.asked:
        say("A run that is asked to stop ends before its next junction; see `gandy runs show ID`.")
    return _NOT_FOUND if result.unknown else 0


def tell_progress(total: CancelResult) -> None:
    """Report the progress of a long cancellation."""
    say(f"{len(total.cancelled) + len(total.asked)} so far")
