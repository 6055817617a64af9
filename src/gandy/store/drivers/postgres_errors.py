"""Which of Gandy's errors a psycopg error is: a fault of the database as a whole, or one item's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg_pool import PoolTimeout

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
from gandy.store.drivers.grants import advice

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

#: A whole SQLSTATE comes before its class. What is in neither table concerns the item, such as the SQLSTATE
#: of an application's own trigger.
_STATES: Final[Mapping[str, type[GandyError]]] = {
    "25006": DatabaseReadOnlyError,
    "25P03": DatabaseUnreachableError,  # idle in transaction for too long: the server hangs up
    "25P04": DatabaseUnreachableError,  # a transaction for too long: the server hangs up
    "42P05": DatabaseBusyError,  # a prepared statement of the same name
    "53300": DatabaseUnreachableError,  # too many connections; met while connecting, it has no SQLSTATE
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
    "58": DatabaseUnreachableError,  # the system below: input and output, a missing file
}
#: Without a SQLSTATE an error is the driver's own: a value that cannot be adapted is one of these. Any other
#: tells of a lost connection, among them the bare DatabaseError for a result that libpq makes by itself.
_ITEMS_OWN: Final = (
    psycopg.DataError,
    psycopg.IntegrityError,
    psycopg.NotSupportedError,
    psycopg.ProgrammingError,
)
_QUOTES: Final = "\"'«»„“”"
_NO_PRIVILEGE: Final = "42501"
_HANGING_UP: Final = ("FATAL", "PANIC")
#: What the driver raises by itself before anything is sent, where the value is to blame.
_BINDING: Final = (UnicodeEncodeError, OverflowError)

#: A prepared statement is not where it was prepared.
LOST_STATEMENT: Final = (psycopg.errors.InvalidSqlStatementName, psycopg.errors.DuplicatePreparedStatement)


class translated:  # noqa: N801 - reads as a statement where it is used
    """Turns the driver's errors into Gandy's; what is no error of a database passes."""

    def __init__(self, address: str) -> None:
        self._address = address

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None and (found := translate(error, self._address)) is not None:
            raise found from error


def translate(error: BaseException, address: str) -> GandyError | None:
    """Find Gandy's error for one of the driver's; None for any other, a cancellation among them."""
    if isinstance(error, (PoolTimeout, TimeoutError)):
        return DatabaseUnreachableError(address, first_line(error))
    if isinstance(error, psycopg.Error):
        return _make(_kind(error), error, address)
    return refused(error) if isinstance(error, _BINDING) else None


def refused(error: BaseException) -> RowConflictError:
    """Say that an item was refused, and by what."""
    constraint = error.diag.constraint_name if isinstance(error, psycopg.Error) else None
    return RowConflictError(constraint or type(error).__name__, first_line(error))


def is_refusal(error: BaseException) -> bool:
    """Tell whether an error concerns the item alone."""
    return isinstance(translate(error, ""), RowConflictError)


def is_unstorable(error: Exception) -> bool:
    """Tell whether the driver refused a text before it sent anything."""
    return isinstance(error, UnicodeEncodeError) or (
        isinstance(error, psycopg.DataError) and error.sqlstate is None
    )


def first_line(error: BaseException) -> str:
    """Keep what a person needs of a driver's message."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def _kind(error: psycopg.Error) -> type[GandyError]:
    state = error.sqlstate
    if state is None:
        return RowConflictError if isinstance(error, _ITEMS_OWN) else DatabaseUnreachableError
    kind = _STATES.get(state) or _CLASSES.get(state[:2], RowConflictError)
    return DatabaseUnreachableError if kind is RowConflictError and _hangs_up(error) else kind


def _hangs_up(error: psycopg.Error) -> bool:
    """Tell whether the server has closed the connection by this error."""
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
    """Find the object that PostgreSQL names last, in any language; it does not say which privilege."""
    object_name = said.rpartition(" ")[2].strip(_QUOTES).rpartition(".")[2]
    try:
        role = conninfo_to_dict(address).get("user")
    except psycopg.ProgrammingError:
        role = None
    return advice(object_name, None if role is None else str(role))
