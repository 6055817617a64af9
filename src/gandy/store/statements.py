"""Statements by name, and operations that are made of them."""

from __future__ import annotations

import re
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, Protocol, TypeAlias, TypeVar, cast

from gandy.errors import DatabaseFaultError, RowBusyError, RowConflictError, SetRefusedError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


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


Item = TypeVar("Item")
Result = TypeVar("Result")


class RefusedItem(NamedTuple, Generic[Item]):
    """An item that was refused alone, and the evidence."""

    item: Item
    error: Exception


class HalvedResult(NamedTuple, Generic[Item, Result]):
    """What the parts of a set that were written gave, and the items that were refused."""

    written: list[Result]
    refused: list[RefusedItem[Item]]


async def write_halved(
    items: Sequence[Item],
    write: Callable[[Sequence[Item]], Awaitable[Result]],
    *,
    charges_all: bool = False,
    isolates_busy: bool = False,
) -> HalvedResult[Item, Result]:
    """Write a set whose parts may be written apart; `write` undoes what it did when it raises.

    A fault of the database as a whole, and a cancellation, end the writing at once: nothing is charged. Where
    every item of a set is refused alone with the same error, no item can be told to be the bad one, and
    SetRefusedError says so; `charges_all` charges them all the same, for a set that was tried often enough.
    With `isolates_busy` rows that stay locked are found by halving too; the caller tries these again later.
    """
    result: HalvedResult[Item, Result] = HalvedResult([], [])
    await _write_part(items, write, result, isolates_busy=isolates_busy)
    if not charges_all and len(result.refused) == len(items) > 1:
        kinds = {_kind(refused.error) for refused in result.refused}
        if len(kinds) == 1:
            raise SetRefusedError(len(items), str(result.refused[0].error))
    return result


async def _write_part(
    items: Sequence[Item],
    write: Callable[[Sequence[Item]], Awaitable[Result]],
    result: HalvedResult[Item, Result],
    *,
    isolates_busy: bool,
) -> None:
    try:
        result.written.append(await write(items))
    except Exception as error:  # unknown errors are one item's too, until all items fail alike
        is_row = isolates_busy and isinstance(error, RowBusyError)
        if isinstance(error, DatabaseFaultError) and not is_row:
            raise
        if len(items) == 1:
            result.refused.append(RefusedItem(items[0], error))
            return
        middle = len(items) // 2
        await _write_part(items[:middle], write, result, isolates_busy=isolates_busy)
        await _write_part(items[middle:], write, result, isolates_busy=isolates_busy)


def _kind(error: Exception) -> tuple[type[Exception], str]:
    """Tell errors apart by class and constraint: their texts name the item's own values."""
    return type(error), error.constraint if isinstance(error, RowConflictError) else ""
