"""Named SQL statements, one set per dialect, read from the files beside this module."""

from __future__ import annotations

import re
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, TypeVar, cast

Dialect: TypeAlias = Literal["postgres", "sqlite"]

T = TypeVar("T")

Row: TypeAlias = Any  # the driver's edge: a named tuple of the columns that the statement returns
Rows: TypeAlias = list[Row]

_HEADER = re.compile(r"^-- name: (?P<name>[a-z][a-z0-9_]*)\s*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement with its parameters."""

    name: str
    parameters: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Counted(Statement):
    """A statement that gives no rows back; its answer is one row that says how many it touched."""


class Affected(NamedTuple):
    """How many rows a counted statement touched."""

    rows: int


class NamedRow(Protocol):
    """A named tuple: a quick form of a row."""

    @property
    def _fields(self) -> tuple[str, ...]: ...

    def __iter__(self) -> Iterator[Any]: ...


BatchRow: TypeAlias = "Mapping[str, object] | NamedRow | tuple[object, ...]"


@dataclass(frozen=True, slots=True)
class Batch:
    """One statement over many rows: arrays and unnest on PostgreSQL, row by row in the SQLite thread."""

    name: str
    rows: Sequence[BatchRow]
    shared: Mapping[str, object]
    fields: tuple[str, ...] | None = None  #: what the places of plain tuples mean; None: the rows say it


Step: TypeAlias = Statement | Batch
Operation: TypeAlias = Generator[Step, Rows, T]
"""What the store does, apart from the connection: yields steps, is sent their rows, returns a result."""


def statement(name: str, /, **parameters: object) -> Statement:
    """Name a statement and bind its parameters."""
    return Statement(name, parameters)


def counted(name: str, /, **parameters: object) -> Counted:
    """Name a statement of whose rows only the number is wanted: giving each back costs half as much again."""
    return Counted(name, parameters)


def batch(name: str, rows: Sequence[BatchRow], /, **shared: object) -> Batch:
    """Name a statement and bind a row for every item; `shared` parameters are the same for all."""
    return Batch(name, rows, shared)


def batch_of(
    name: str, fields: tuple[str, ...], rows: Sequence[tuple[object, ...]], /, **shared: object
) -> Batch:
    """Name a statement and bind plain tuples: the quickest form, for what passes by the thousand."""
    return Batch(name, rows, shared, fields)


def columns_of(step: Batch) -> tuple[tuple[str, ...], Iterable[Collection[Any]]]:
    """Give the names of a batch's columns, and its rows in their order."""
    if not step.rows:
        return (), ()
    first = step.rows[0]
    if isinstance(first, Mapping):
        names = tuple(first)
        return names, [
            [row[name] for name in names] for row in cast("Sequence[Mapping[str, object]]", step.rows)
        ]
    names = step.fields or cast("NamedRow", first)._fields
    return names, cast("Sequence[tuple[object, ...]]", step.rows)


@cache
def load_statements(dialect: Dialect) -> Mapping[str, str]:
    """Read every statement of a dialect; two with one name are a mistake in the package."""
    found: dict[str, str] = {}
    folder = files("gandy.store").joinpath("sql", dialect)
    for file in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if file.name.endswith(".sql"):
            for name, text in parse_statements(file.read_text(encoding="utf-8")).items():
                if name in found:
                    raise ValueError(f"statement {name} stands twice in sql/{dialect}")
                found[name] = text
    return found


def parse_statements(text: str) -> dict[str, str]:
    """Split a file at its `-- name:` lines."""
    headers = list(_HEADER.finditer(text))
    ends = [header.start() for header in headers[1:]] + [len(text)]
    return {
        header["name"]: text[header.end() : end].strip().rstrip(";")
        for header, end in zip(headers, ends, strict=True)
    }
