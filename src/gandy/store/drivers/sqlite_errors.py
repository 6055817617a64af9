"""Which of Gandy's errors a sqlite3 error is: a fault of the database as a whole, or one item's own."""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from gandy.errors import (
    DatabaseBusyError,
    DatabaseFullError,
    DatabaseReadOnlyError,
    DatabaseRefusedError,
    DatabaseUnreachableError,
    GandyError,
    RowConflictError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

#: Extended codes come before the primary code, their lowest byte; what is in neither table concerns the item.
_EXTENDED: Final[Mapping[int, type[GandyError]]] = {
    sqlite3.SQLITE_IOERR_WRITE: DatabaseFullError,
    sqlite3.SQLITE_IOERR_FSYNC: DatabaseFullError,
    sqlite3.SQLITE_IOERR_DIR_FSYNC: DatabaseFullError,
    sqlite3.SQLITE_IOERR_TRUNCATE: DatabaseFullError,
    sqlite3.SQLITE_IOERR_SHMSIZE: DatabaseFullError,
    sqlite3.SQLITE_IOERR_NOMEM: DatabaseFullError,
    sqlite3.SQLITE_IOERR_COMMIT_ATOMIC: DatabaseFullError,
}
_PRIMARY: Final[Mapping[int, type[GandyError]]] = {
    sqlite3.SQLITE_ABORT: DatabaseBusyError,
    sqlite3.SQLITE_BUSY: DatabaseBusyError,
    sqlite3.SQLITE_INTERRUPT: DatabaseBusyError,
    sqlite3.SQLITE_LOCKED: DatabaseBusyError,
    sqlite3.SQLITE_PROTOCOL: DatabaseBusyError,
    sqlite3.SQLITE_SCHEMA: DatabaseBusyError,
    sqlite3.SQLITE_READONLY: DatabaseReadOnlyError,
    sqlite3.SQLITE_FULL: DatabaseFullError,
    sqlite3.SQLITE_NOMEM: DatabaseFullError,
    sqlite3.SQLITE_AUTH: DatabaseRefusedError,
    sqlite3.SQLITE_PERM: DatabaseRefusedError,
    sqlite3.SQLITE_CANTOPEN: DatabaseUnreachableError,
    sqlite3.SQLITE_CORRUPT: DatabaseUnreachableError,
    sqlite3.SQLITE_IOERR: DatabaseUnreachableError,
    sqlite3.SQLITE_NOLFS: DatabaseUnreachableError,
    sqlite3.SQLITE_NOTADB: DatabaseUnreachableError,
}
#: One code stands for a statement that does not fit the schema or the transaction, and for a function that
#: refuses its value (JSON that is none, an instant past the last year); only the text tells them apart.
_UNFIT: Final = ("no such ", "near ", "table ", "cannot ", "incomplete input")
_BINDING: Final = (UnicodeEncodeError, OverflowError)


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Turn the driver's errors into Gandy's; what is no error of a database passes."""
    try:
        yield
    except (sqlite3.Error, *_BINDING) as error:
        raise translate(error, path) from error


def translate(error: Exception, path: Path) -> GandyError:
    """Find Gandy's error for one of the driver's."""
    kind = _kind(error)
    if kind is RowConflictError:
        return refused(error)
    if kind is DatabaseUnreachableError:
        return DatabaseUnreachableError(f"sqlite:///{path}", str(error))
    make: Callable[[str], GandyError] = kind
    return make(str(error))


def refused(error: Exception) -> RowConflictError:
    """Say that an item was refused, and by what."""
    text = str(error)
    constraint = text.partition(": ")[2] if isinstance(error, sqlite3.IntegrityError) else ""
    return RowConflictError(constraint or type(error).__name__, text)


def is_refusal(error: Exception) -> bool:
    """Tell whether an error concerns the item alone."""
    return _kind(error) is RowConflictError


def _kind(error: Exception) -> type[GandyError]:
    code: int | None = getattr(error, "sqlite_errorcode", None)
    if code is None:  # the module's own: a value that cannot be bound
        return RowConflictError
    if code == sqlite3.SQLITE_ERROR and str(error).startswith(_UNFIT):
        return DatabaseRefusedError
    return _EXTENDED.get(code) or _PRIMARY.get(code & 0xFF, RowConflictError)
