"""How a step is run on PostgreSQL: the rows of a batch as one array literal per column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import psycopg
from psycopg.adapt import Loader, Transformer
from psycopg.pq import Format
from psycopg.types.string import TextBinaryLoader, TextLoader

from gandy.errors import RowConflictError
from gandy.settings.bounds import LAST_INSTANT
from gandy.store.drivers.postgres_errors import is_unstorable
from gandy.store.drivers.storable import storable
from gandy.store.statements import (
    Affected,
    Batch,
    Counted,
    Rows,
    Statement,
    Step,
    columns_of,
    load_statements,
)

if TYPE_CHECKING:
    from psycopg.abc import AdaptContext, Buffer
    from psycopg.rows import RowMaker

Parameters: TypeAlias = Mapping[str, object]

#: What is raised before anything is sent, server's errors of the same class included.
_REFUSED_TEXT: Final = (UnicodeEncodeError, psycopg.DataError)
_LARGEST: Final = 2**63 - 1

_FIRST: Final = datetime.min.replace(tzinfo=UTC)
_SIGN: Final = 0x80  # of a big-endian number
#: Kinds of which a column seldom has many different values; no two of them are equal to each other.
_REPEATED: Final = frozenset({datetime, bool, type(None)})


def sql(name: str) -> bytes:
    """Find a statement in the package's files, the only source of these texts."""
    return load_statements("postgres")[name].encode()


def run_step(cursor: psycopg.Cursor[Any], step: Step) -> Rows:
    """Run a step in the caller's thread."""
    if isinstance(step, Batch) and not step.rows:
        return []
    text, bound = sql(step.name), bind(step)
    try:
        cursor.execute(text, bound)
    except _REFUSED_TEXT as error:
        if not is_unstorable(error):
            raise
        cursor.execute(text, storable(bound))
    if not cursor.description:
        return _affected(step, cursor.rowcount)
    try:
        return cursor.fetchall()
    except psycopg.DataError:
        return _read_beyond_calendar(cursor, cursor.row_factory(cursor))


async def run_step_async(cursor: psycopg.AsyncCursor[Any], step: Step) -> Rows:
    """Run a step where it is awaited."""
    if isinstance(step, Batch) and not step.rows:
        return []
    text, bound = sql(step.name), bind(step)
    try:
        await cursor.execute(text, bound)
    except _REFUSED_TEXT as error:
        if not is_unstorable(error):
            raise
        await cursor.execute(text, storable(bound))
    if not cursor.description:
        return _affected(step, cursor.rowcount)
    try:
        return await cursor.fetchall()
    except psycopg.DataError:
        return _read_beyond_calendar(cursor, cursor.row_factory(cursor))


def _affected(step: Step, rows: int) -> Rows:
    return [Affected(rows)] if isinstance(step, Counted) else []


def bind(step: Step) -> Parameters:
    """Say what a step binds."""
    match step:
        case Statement(parameters=parameters):
            return {name: _bound(name, value) for name, value in parameters.items()}
        case Batch(shared=shared):
            names, rows = columns_of(step)
            for name, value in shared.items():
                _check(name, value)
            return {**shared, **dict(zip(names, map(array_literal, zip(*rows, strict=True)), strict=True))}


def _bound(name: str, value: object) -> object:
    """Write a list of ids as a literal, as the columns of a batch are; all else is the driver's."""
    if isinstance(value, list):
        return array_literal(value) if value and type(value[0]) is int else value
    _check(name, value)
    return value


def _check(name: str, value: object) -> None:
    """Refuse a number by its name; within a batch the database names the value."""
    if isinstance(value, int) and abs(value) > _LARGEST:
        raise RowConflictError(name, f"{value} does not fit into 64 bits")


def array_literal(values: Sequence[object]) -> str:
    """Write an array as PostgreSQL reads it; the driver's own way takes ten times as long for texts."""
    kinds = set(map(type, values))
    if kinds == {int}:
        return "{" + ",".join(map(str, values)) + "}"
    if kinds == {type(None)}:
        return "{" + ",".join(["NULL"] * len(values)) + "}"
    if kinds <= _REPEATED or (kinds == {str} and values[0] == values[-1]):
        texts = {value: _element(value) for value in set(values)}  # many rows, few values
        return "{" + ",".join([texts[value] for value in values]) + "}"
    return "{" + ",".join([_element(value) for value in values]) + "}"


def _element(value: object) -> str:
    if isinstance(value, str):
        if "\\" in value or '"' in value:
            value = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{value}"'
    if value is None:
        return "NULL"
    if isinstance(value, datetime):
        return f'"{value.isoformat()}"'
    return str(value)  # numbers and booleans, as PostgreSQL reads them


class CalendarLoader(Loader):
    """Reads instants; the ends of Python's calendar stand for those that lie beyond it."""

    format = Format.BINARY

    def __init__(self, oid: int, context: AdaptContext | None = None) -> None:
        super().__init__(oid, context)
        usual = psycopg.adapters.get_loader(oid, Format.BINARY)
        assert usual is not None  # noqa: S101 psycopg reads every kind of its own
        self._load = usual(oid, context).load

    def load(self, data: Buffer) -> datetime:
        """Read one; a row that an older version stored must not hide all others of its listing."""
        try:
            instant: datetime = self._load(data)
        except psycopg.DataError:
            return _FIRST if bytes(data)[0] & _SIGN else LAST_INSTANT
        return instant


def _read_beyond_calendar(
    cursor: psycopg.Cursor[Any] | psycopg.AsyncCursor[Any], make_row: RowMaker[Any]
) -> Rows:
    """Read the rows of an answer again where an instant is among them that no datetime can hold.

    Only then: reading instants in Python costs a worker a few hundred nanoseconds for each.
    """
    assert cursor.pgresult is not None  # noqa: S101 rows were read from it
    cursor.adapters.register_loader("timestamptz", CalendarLoader)
    reader = Transformer(cursor)
    reader.set_pgresult(cursor.pgresult)
    return reader.load_rows(0, cursor.pgresult.ntuples, make_row)


def keep_json_as_text(context: AdaptContext) -> None:
    """Hand JSON out as stored: it is validated once, by the train's own type."""
    context.adapters.register_loader("json", TextLoader)
    context.adapters.register_loader("json", TextBinaryLoader)
