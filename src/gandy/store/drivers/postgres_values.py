"""Values and errors of PostgreSQL, in both directions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

import psycopg
from psycopg.adapt import Loader, Transformer
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import Format
from psycopg.rows import namedtuple_row
from psycopg.types.string import TextBinaryLoader, TextLoader

from gandy.errors import (
    DatabaseBusyError,
    DatabaseFullError,
    DatabaseReadOnlyError,
    DatabaseRefusedError,
    DatabaseUnreachableError,
    GandyError,
    RowBusyError,
    RowConflictError,
)
from gandy.settings.bounds import LAST_INSTANT
from gandy.store.drivers.grants import advice
from gandy.store.drivers.sqlite_values import is_without_values, storable
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
    from collections.abc import Callable

    from psycopg.abc import AdaptContext, Buffer
    from psycopg.rows import RowMaker


#: A whole SQLSTATE is checked before its class. Any other SQLSTATE concerns the item, such as one that an
#: application's own trigger raises.
_STATES: Final[Mapping[str, type[GandyError]]] = {
    "25006": DatabaseReadOnlyError,
    "25P03": DatabaseUnreachableError,  # idle in transaction for too long: the server disconnects
    "25P04": DatabaseUnreachableError,  # a transaction for too long: the server disconnects
    "42P05": DatabaseBusyError,  # a prepared statement of the same name
    "53300": DatabaseUnreachableError,  # too many connections; while connecting, it has no SQLSTATE
    "57014": DatabaseBusyError,  # a statement timeout, or an operator who cancels
    "72000": DatabaseBusyError,  # snapshot too old
}
_CLASSES: Final[Mapping[str, type[GandyError]]] = {
    "08": DatabaseUnreachableError,  # connection
    "0A": DatabaseRefusedError,  # not supported; a plan that a migration has changed
    "25": DatabaseBusyError,  # state of the transaction
    "26": DatabaseBusyError,  # a prepared statement that a pooler has lost
    "28": DatabaseUnreachableError,  # authorization
    "3D": DatabaseUnreachableError,  # no such database
    "3F": DatabaseRefusedError,  # no such schema
    "40": RowBusyError,  # deadlock, serialization
    "42": DatabaseRefusedError,  # privileges, missing tables and columns
    "53": DatabaseFullError,  # disk, memory
    "55": RowBusyError,  # a lock that is not available
    "57": DatabaseUnreachableError,  # shutdown, crash, cannot connect now, idle session
    "58": DatabaseUnreachableError,  # operating system: I/O, a missing file
}
#: An error without a SQLSTATE is the driver's own. These classes mean a value that cannot be adapted; any
#: other means a lost connection, also the bare DatabaseError for a result that libpq generates itself.
_ITEMS_OWN: Final = (
    psycopg.DataError,
    psycopg.IntegrityError,
    psycopg.NotSupportedError,
    psycopg.ProgrammingError,
)
_QUOTES: Final = "\"'«»„“”"
_NO_PRIVILEGE: Final = "42501"
_REFUSED_BY_CHECK: Final = "23514"
_HANGING_UP: Final = ("FATAL", "PANIC")
#: Raised by the driver because of a value, before anything is sent.
_BINDING: Final = (UnicodeEncodeError, OverflowError)

#: A prepared statement is missing on this backend, or its name is taken.
LOST_STATEMENT: Final = (psycopg.errors.InvalidSqlStatementName, psycopg.errors.DuplicatePreparedStatement)


class translated:  # noqa: N801 - reads as a statement where it is used
    """Turns the driver's errors into Gandy's; other exceptions pass unchanged."""

    def __init__(self, address: str) -> None:
        self._address = address

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None and (found := translate(error, self._address)) is not None:
            raise found from error


def translate(error: BaseException, address: str) -> GandyError | None:
    """Return Gandy's error for an error of the driver; None for any other, such as a cancellation."""
    if isinstance(error, TimeoutError):
        return DatabaseUnreachableError(address, first_line(error))
    if isinstance(error, psycopg.Error):
        return _make(_kind(error), error, address)
    return refused(error) if isinstance(error, _BINDING) else None


def refused(error: BaseException) -> RowConflictError:
    """Return the error of a refused item, with the constraint that refused it."""
    constraint = error.diag.constraint_name if isinstance(error, psycopg.Error) else None
    return RowConflictError(constraint or type(error).__name__, first_line(error))


def is_refusal(error: BaseException) -> bool:
    """Return whether an error concerns a single item."""
    return isinstance(translate(error, ""), RowConflictError)


def is_unstorable(error: Exception) -> bool:
    """Return whether the driver refused a text before it sent anything."""
    return isinstance(error, UnicodeEncodeError) or (
        isinstance(error, psycopg.DataError) and error.sqlstate is None
    )


def first_line(error: BaseException) -> str:
    """Return the first line of a driver's message, or its class if it has none."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def _kind(error: psycopg.Error) -> type[GandyError]:
    state = error.sqlstate
    if state is None:
        return RowConflictError if isinstance(error, _ITEMS_OWN) else DatabaseUnreachableError
    if state == _REFUSED_BY_CHECK and _lacks_partition(error):
        return RowBusyError
    kind = kind_of_state(state)
    return DatabaseUnreachableError if kind is RowConflictError and _hangs_up(error) else kind


def kind_of_state(state: str) -> type[GandyError]:
    """Return the class of the error for an SQLSTATE."""
    return _STATES.get(state) or _CLASSES.get(state[:2], RowConflictError)


def _lacks_partition(error: psycopg.Error) -> bool:
    """Return whether history has no partition for a run: one that upkeep creates, or has just created."""
    return error.diag.constraint_name is None and error.diag.table_name == "history"


def _hangs_up(error: psycopg.Error) -> bool:
    """Return whether the server closes the connection with this error."""
    return error.diag.severity_nonlocalized in _HANGING_UP


def _make(kind: type[GandyError], error: psycopg.Error, address: str) -> GandyError:
    if kind is RowConflictError:
        return refused(error)
    if kind is DatabaseUnreachableError:
        return DatabaseUnreachableError(address, first_line(error))
    if error.sqlstate == _NO_PRIVILEGE:
        return DatabaseRefusedError(first_line(error), _what_to_grant(first_line(error), address))
    make: Callable[[str], GandyError] = kind
    return make(first_line(error))


def _what_to_grant(said: str, address: str) -> str:
    """Advise on the object that PostgreSQL names last, in any language; it does not name the privilege."""
    object_name = said.rpartition(" ")[2].strip(_QUOTES).rpartition(".")[2]
    try:
        role = conninfo_to_dict(address).get("user")
    except psycopg.ProgrammingError:
        role = None
    return advice(object_name, None if role is None else str(role))


Parameters: TypeAlias = Mapping[str, object]

#: Raised for a text before anything is sent; the server's errors of these classes are included.
_REFUSED_TEXT: Final = (UnicodeEncodeError, psycopg.DataError)
_LARGEST: Final = 2**63 - 1

_FIRST: Final = datetime.min.replace(tzinfo=UTC)
_SEPARATOR: Final = "\x00"  # no text column can hold it
_SIGN: Final = 0x80  # of a big-endian number
#: Types of which a column seldom has many different values; values of two types are never equal.
_LISTED: Final = ({int}, {str})
_REPEATED: Final = frozenset({datetime, bool, type(None)})


def sql(name: str) -> bytes:
    """Return a statement from the package's files, the only source of SQL texts."""
    return load_statements("postgres")[name].encode()


def run_step(cursor: psycopg.Cursor[Any], step: Step) -> Rows:
    """Run a step on a blocking connection."""
    if isinstance(step, Batch) and not step.rows:
        return []
    text, bound = sql(step.name), bind(step)
    try:
        cursor.execute(text, bound)
    except _REFUSED_TEXT as error:
        if not is_unstorable(error):
            raise
        cursor.execute(text, storable(bound))
    if cursor.pgresult is None:
        with cursor.connection.pipeline():
            pass  # a pipeline of the caller: one within it waits for the results of the statements before it
    if not cursor.description:
        return _affected(step, cursor.rowcount)
    try:
        return cursor.fetchall()
    except psycopg.DataError:
        return _read_beyond_calendar(cursor, cursor.row_factory(cursor))


async def run_step_async(
    cursor: psycopg.AsyncCursor[Any], step: Step, *, prepare: bool | None = None
) -> Rows:
    """Run a step on an async connection; `prepare` True prepares it at its first use."""
    if isinstance(step, Batch) and not step.rows:
        return []
    text, bound = sql(step.name), bind(step)
    try:
        await cursor.execute(text, bound, prepare=prepare)
    except _REFUSED_TEXT as error:
        if not is_unstorable(error):
            raise
        await cursor.execute(text, storable(bound), prepare=prepare)
    if cursor.pgresult is None:
        async with cursor.connection.pipeline():
            pass  # as above
    if not cursor.description:
        return _affected(step, cursor.rowcount)
    try:
        return await cursor.fetchall()
    except psycopg.DataError:
        return _read_beyond_calendar(cursor, cursor.row_factory(cursor))


def _affected(step: Step, rows: int) -> Rows:
    return [Affected(rows)] if isinstance(step, Counted) else []


def bind(step: Step) -> Parameters:
    """Return the parameters of a step."""
    match step:
        case Statement(parameters=parameters):
            return {name: _bound(name, value) for name, value in parameters.items()}
        case Batch(shared=shared):
            names, rows = columns_of(step)
            for name, value in shared.items():
                _check(name, value)
            return {**shared, **dict(zip(names, _array_literals([*zip(*rows, strict=True)]), strict=True))}


def _bound(name: str, value: object) -> object:
    """Write ids and names as a literal, as the columns of a batch; the driver adapts other values."""
    if isinstance(value, list):
        return array_literal(value) if set(map(type, value)) in _LISTED else value
    _check(name, value)
    return value


def _check(name: str, value: object) -> None:
    """Refuse a number beyond 64 bits, with its name; within a batch, the database refuses it."""
    if isinstance(value, int) and abs(value) > _LARGEST:
        raise RowConflictError(name, f"{value} does not fit into 64 bits")


def _array_literals(columns: Sequence[Sequence[object]]) -> list[str]:
    """Write the columns of a batch; one without values is empty, because unnest fills it up with nulls.

    A caller's session may have `array_nulls` off, which refuses the word NULL. If no column has a value, the
    first one is written with it nevertheless, to give the number of rows.
    """
    literals = ["{}" if is_without_values(column) else array_literal(column) for column in columns]
    if all(map(is_without_values, columns)):
        literals[0] = array_literal(columns[0])
    return literals


def array_literal(values: Sequence[object]) -> str:
    """Write an array literal of PostgreSQL; for texts, the driver's adapter takes ten times as long."""
    if len(values) > 1 and values[0] == values[-1] and values.count(values[0]) == len(values):
        return "{" + ",".join([_element(values[0])] * len(values)) + "}"
    kinds = set(map(type, values))
    if kinds == {int}:
        return "{" + ",".join(map(str, values)) + "}"
    if kinds <= _REPEATED or (kinds == {str} and values[0] == values[-1]):
        texts = {value: _element(value) for value in set(values)}  # many rows, few values
        return "{" + ",".join([texts[value] for value in values]) + "}"
    if kinds == {str} and (text := _joined(cast("Sequence[str]", values))) is not None:
        return text
    return "{" + ",".join([_element(value) for value in values]) + "}"


def _joined(values: Sequence[str]) -> str | None:
    """Escape all texts at once, which is faster; None if one contains the separator."""
    text = _SEPARATOR.join(values)
    if text.count(_SEPARATOR) != len(values) - 1:
        return None
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '{"' + escaped.replace(_SEPARATOR, '","') + '"}'


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


def named_rows(cursor: psycopg.Cursor[Any] | psycopg.AsyncCursor[Any]) -> RowMaker[Any]:
    """Make the driver's named tuples without its constructor, which is a Python function."""
    make = namedtuple_row(cursor)
    row_type: type[tuple[Any, ...]] | None = getattr(make, "__self__", None)  # None: there are no columns
    return make if row_type is None else partial(tuple.__new__, row_type)


class CalendarLoader(Loader):
    """Reads instants, clamped to the range of datetime."""

    format = Format.BINARY

    def __init__(self, oid: int, context: AdaptContext | None = None) -> None:
        super().__init__(oid, context)
        usual = psycopg.adapters.get_loader(oid, Format.BINARY)
        assert usual is not None  # noqa: S101 psycopg reads every kind of its own
        self._load = usual(oid, context).load

    def load(self, data: Buffer) -> datetime:
        """Read one instant; an out-of-range value from an older version must not break a whole listing."""
        try:
            instant: datetime = self._load(data)
        except psycopg.DataError:
            return _FIRST if bytes(data)[0] & _SIGN else LAST_INSTANT
        return instant


def _read_beyond_calendar(
    cursor: psycopg.Cursor[Any] | psycopg.AsyncCursor[Any], make_row: RowMaker[Any]
) -> Rows:
    """Read the rows of a result again, with instants that no datetime can hold clamped.

    Only after an error: reading instants in Python costs a few hundred nanoseconds each.
    """
    assert cursor.pgresult is not None  # noqa: S101 rows were read from it
    cursor.adapters.register_loader("timestamptz", CalendarLoader)
    reader = Transformer(cursor)
    reader.set_pgresult(cursor.pgresult)
    return reader.load_rows(0, cursor.pgresult.ntuples, make_row)


def keep_json_as_text(context: AdaptContext) -> None:
    """Return JSON as stored text: the train's own type parses and validates it."""
    context.adapters.register_loader("json", TextLoader)
    context.adapters.register_loader("json", TextBinaryLoader)
