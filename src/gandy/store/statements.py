"""Named SQL statements, and operations composed of them."""

from __future__ import annotations

import re
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, NamedTuple, Protocol, TypeAlias, TypeVar, cast

from gandy.errors import DatabaseFaultError, RowBusyError, RowConflictError, SetRefusedError
from gandy.model.manifest import MANIFEST_OPTIONS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


Dialect: TypeAlias = Literal["postgres", "sqlite"]

T = TypeVar("T")

Row: TypeAlias = Any  # untyped at the driver: a named tuple of the columns that the statement returns
Rows: TypeAlias = list[Row]

_OPTIONS: Final = re.compile(r"/\* options: (?P<list>\w+) \*/")
_HEADER = re.compile(r"^-- name: (?P<name>[a-z][a-z0-9_]*)\s*$", re.MULTILINE)

# The neutral spelling of sql/common: `:name` or `:name::type` after a blank or a parenthesis, `gandy.table`
# and `gandy.now()`. SQLite's parameters have no types, and its tables no schema.
_PARAMETER: Final = re.compile(r"(?<=[\s(]):(?P<name>[a-z]\w*)(?P<cast>(?:::\w+)?)")
_CLOCK: Final = re.compile(r"\bgandy\.now\(\)")
_SCHEMA: Final = re.compile(r"\bgandy\.(?=\w)")
_SPELLINGS: Final[Mapping[Dialect, Sequence[tuple[re.Pattern[str], str]]]] = {
    "postgres": [(_PARAMETER, r"%(\g<name>)s\g<cast>")],
    "sqlite": [(_PARAMETER, r":\g<name>"), (_CLOCK, "gandy_now()"), (_SCHEMA, "")],
}
#: Placeholders of a driver, casts of other things than parameters, arrays, functions of one database.
_FOREIGN: Final = re.compile(r"[%?@${\[]|:\S+|\bgandy_\w+|\bgandy\.(?!now\(\))\w+\(")


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement with its parameters."""

    name: str
    parameters: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Counted(Statement):
    """A statement that returns no rows; its result is one row with the number of affected rows."""


class Affected(NamedTuple):
    """The number of rows that a counted statement affected."""

    rows: int


class NamedRow(Protocol):
    """A named tuple: a row form that is fast to build."""

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
    fields: tuple[str, ...] | None = None  #: the column names of plain tuples; None: the rows carry them


Step: TypeAlias = Statement | Batch
Operation: TypeAlias = Generator[Step, Rows, T]
"""A store operation without a connection: yields steps, receives their rows, returns a result."""


def statement(name: str, /, **parameters: object) -> Statement:
    """Name a statement and bind its parameters."""
    return Statement(name, parameters)


def counted(name: str, /, **parameters: object) -> Counted:
    """Name a statement of which only the row count is needed: returning the rows costs half as much again."""
    return Counted(name, parameters)


def batch(name: str, rows: Sequence[BatchRow], /, **shared: object) -> Batch:
    """Name a statement and bind a row for every item; `shared` parameters are the same for all."""
    return Batch(name, rows, shared)


def batch_of(
    name: str, fields: tuple[str, ...], rows: Sequence[tuple[object, ...]], /, **shared: object
) -> Batch:
    """Name a statement and bind plain tuples: the fastest form, for large batches."""
    return Batch(name, rows, shared, fields)


def columns_of(step: Batch) -> tuple[tuple[str, ...], Iterable[Collection[Any]]]:
    """Return the column names of a batch, and its rows in that order."""
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
    """Read every statement of a dialect; a name that is defined twice is an error in the package."""
    own = {name: with_options(text, dialect) for name, text in _read_folder(dialect).items()}
    shared = {name: translated(name, text, dialect) for name, text in _read_folder("common").items()}
    if twice := sorted(own.keys() & shared.keys()):
        raise ValueError(f"sql/common and sql/{dialect} both define {', '.join(twice)}")
    return own | shared


def _read_folder(folder: str) -> dict[str, str]:
    found: dict[str, str] = {}
    entries = files("gandy.store").joinpath("sql", folder).iterdir()
    for file in sorted(entries, key=lambda entry: entry.name):
        if file.name.endswith(".sql"):
            for name, text in parse_statements(file.read_text(encoding="utf-8")).items():
                if name in found:
                    raise ValueError(f"statement {name} is defined twice in sql/{folder}")
                found[name] = text
    return found


def with_options(text: str, dialect: Dialect) -> str:
    """Replace `/* options: columns */` and its kin by the list for all options of a manifest."""
    return _OPTIONS.sub(lambda found: f"{', '.join(_option_list(found['list'], dialect))},", text)


def _option_list(wanted: str, dialect: Dialect) -> Iterator[str]:
    for option in MANIFEST_OPTIONS:
        column, sql_type = option.column, option.form.sql_type
        if column is None:
            continue
        is_json = sql_type == "json"
        value = f":{column}" if dialect == "sqlite" else f"r.{column}{'::json' if is_json else ''}"
        array = f"%({column})s::{'text' if is_json else sql_type}[]"
        forms = {"columns": column, "values": value, "arrays": array, "changes": f"{column} = {value}"}
        yield forms[wanted]


def translated(name: str, text: str, dialect: Dialect) -> str:
    """Spell a statement of sql/common as a dialect does; a spelling that is not neutral is an error."""
    if foreign := _FOREIGN.search(_PARAMETER.sub("", text)):
        raise ValueError(f"statement {name} of sql/common has {foreign[0]!r}, which is not translated")
    for neutral, spelling in _SPELLINGS[dialect]:
        text = neutral.sub(spelling, text)
    return text


def parse_statements(text: str) -> dict[str, str]:
    """Split a file at its `-- name:` lines."""
    headers = list(_HEADER.finditer(text))
    ends = [header.start() for header in headers[1:]] + [len(text)]
    found: dict[str, str] = {}
    for header, end in zip(headers, ends, strict=True):
        if header["name"] in found:
            raise ValueError(f"statement {header['name']} is defined twice in one file")
        found[header["name"]] = text[header.end() : end].strip().rstrip(";")
    return found


Item = TypeVar("Item")
Result = TypeVar("Result")


class RefusedItem(NamedTuple, Generic[Item]):
    """An item that was refused on its own, and the error."""

    item: Item
    error: Exception


class BisectedResult(NamedTuple, Generic[Item, Result]):
    """The results of the parts that were written, and the items that were refused."""

    written: list[Result]
    refused: list[RefusedItem[Item]]


async def write_bisecting(
    items: Sequence[Item],
    write: Callable[[Sequence[Item]], Awaitable[Result]],
    *,
    charges_all: bool = False,
    isolates_busy: bool = False,
) -> BisectedResult[Item, Result]:
    """Write a set; after an error, halve it until the refused items are isolated. `write` must be atomic.

    A database-wide fault or a cancellation stops at once, and no item is refused. If every item is refused
    with the same error, no single item can be blamed: SetRefusedError is raised, unless `charges_all` is set,
    for a set that was tried often enough. With `isolates_busy`, rows that stay locked are isolated likewise;
    the caller tries these again later.
    """
    result: BisectedResult[Item, Result] = BisectedResult([], [])
    await _write_part(items, write, result, isolates_busy=isolates_busy)
    if not charges_all and len(result.refused) == len(items) > 1:
        kinds = {_kind(refused.error) for refused in result.refused}
        if len(kinds) == 1:
            raise SetRefusedError(len(items), str(result.refused[0].error))
    return result


async def _write_part(
    items: Sequence[Item],
    write: Callable[[Sequence[Item]], Awaitable[Result]],
    result: BisectedResult[Item, Result],
    *,
    isolates_busy: bool,
) -> None:
    try:
        result.written.append(await write(items))
    except Exception as error:  # an unknown error counts as an item's own until all items fail alike
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
    """Compare errors by class and constraint, not by text: a text contains the item's own values."""
    return type(error), error.constraint if isinstance(error, RowConflictError) else ""
