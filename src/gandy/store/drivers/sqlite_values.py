"""Values and errors of SQLite, in both directions."""

from __future__ import annotations

import json
import sqlite3
from collections import namedtuple
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

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
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from gandy.store.statements import Rows


REPLACEMENT: Final = "\ufffd"


def storable(parameters: Mapping[str, object]) -> dict[str, object]:
    """Replace NUL and lone surrogates in every text, also inside lists; a pair becomes its character.

    Called only after the driver has refused a text, so that storable texts are never scanned.
    """
    return {name: storable_value(value) for name, value in parameters.items()}


def storable_value(value: object) -> object:
    """Replace what no database stores, in a text or a list of texts."""
    if isinstance(value, str):
        paired = value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return paired.replace("\x00", REPLACEMENT)
    if isinstance(value, (list, tuple)):
        return [storable_value(item) for item in value]
    return value


Convert: TypeAlias = Callable[[Any], Any]

_make_row_type: Callable[..., Any] = namedtuple  # noqa: PYI024 the names are known only at run time
_INSTANTS = frozenset(
    {
        "now",
        "at",
        "start_time",
        "end_time",
        "next_scheduled_run",
        "last_successful_run",
        "due_until",
        "keep_until",
        "deferred_since",
    }
)
_FIRST = "0001-01-01T00:00:00.000000Z"
_LAST = "9999-12-31T23:59:59.999999Z"
_FLAGS = frozenset({"cancellation_requested"})
_LISTS = frozenset({"trains"})


def to_text(instant: datetime) -> str:
    """Format an instant as every SQLite column stores it."""
    return f"{instant.astimezone(UTC).replace(tzinfo=None).isoformat(timespec='microseconds')}Z"


class StatementClock:
    """The clock of a transaction: constant until the next transaction begins."""

    def __init__(self, read: Callable[[], datetime]) -> None:
        self._read = read
        self.begin()

    def begin(self) -> None:
        """Read the instant that the next statements share."""
        self._now = self._read()
        self._text = to_text(self._now)
        self._later: dict[float | None, str | None] = {}

    def register(self, connection: sqlite3.Connection) -> None:
        """Register SQL functions for now, an instant some seconds later, and the seconds until an instant.

        Deterministic: within a statement, a call without columns is made once and not for each row.
        """
        define = partial(connection.create_function, deterministic=True)
        define("gandy_now", 0, lambda: self._text)
        define("gandy_later", 1, self._later_text)
        define("gandy_seconds", 1, lambda text: _seconds_until(self._now, text))

    def _later_text(self, seconds: float | None) -> str | None:
        """Format an instant once for all rows of a batch that share it."""
        if seconds not in self._later:
            self._later[seconds] = _later(self._now, seconds)
        return self._later[seconds]


def _later(now: datetime, seconds: float | None) -> str | None:
    """Add seconds; clamp the result to the range of datetime."""
    if seconds is None:
        return None
    try:
        return to_text(now + timedelta(seconds=seconds))
    except (OverflowError, ValueError):
        return _LAST if seconds > 0 else _FIRST


def _seconds_until(now: datetime, text: str | None) -> float | None:
    instant = from_text(text)
    return None if instant is None else (instant - now).total_seconds()


def from_text(value: str | None) -> datetime | None:
    """Parse an instant; clamp an invalid one, so that it does not break a whole listing."""
    if value is None:
        return None
    try:
        return datetime.fromisoformat(value)
    except ValueError:
        return datetime.fromisoformat(_FIRST if value < _FIRST else _LAST)


def named_rows(cursor: sqlite3.Cursor) -> Rows:
    """Convert plain rows to the same named tuples as on PostgreSQL, with instants and flags parsed."""
    found = cursor.fetchall()
    return shaped(found, cursor) if found else found


def shaped(found: Rows, cursor: sqlite3.Cursor) -> Rows:
    """Convert rows that the cursor has fetched."""
    make, converters = _shape(tuple([column[0] for column in cursor.description]))
    if not converters:
        return [make(values) for values in found]
    return [make(_converted(list(values), converters)) for values in found]


def _converted(values: list[Any], converters: tuple[tuple[int, Convert], ...]) -> list[Any]:
    for position, convert in converters:
        values[position] = convert(values[position])
    return values


@lru_cache(maxsize=512)
def _shape(names: tuple[str, ...]) -> tuple[Convert, tuple[tuple[int, Convert], ...]]:
    row_type = _make_row_type("Row", names, rename=True)
    converters = tuple(
        (position, convert)
        for position, name in enumerate(names)
        if (convert := _converter(name)) is not None
    )
    return partial(tuple.__new__, row_type), converters  # faster than its constructor, a Python function


def _converter(name: str) -> Convert | None:
    if name in _INSTANTS or name.endswith("_at"):
        return from_text
    if name in _FLAGS or name.startswith(("is_", "has_")):
        return _to_flag
    return json.loads if name in _LISTS else None


def _to_flag(value: int | None) -> bool | None:
    return None if value is None else bool(value)


def is_without_values(column: Sequence[object]) -> bool:
    """Return whether all rows of a batch have no value here."""
    return column[0] is None and column.count(None) == len(column)


def plain(values: Collection[object]) -> Collection[object]:
    """Return a column with values that SQLite can store."""
    if _PLAIN.issuperset(map(type, values)):
        return values
    return [value if type(value) in _PLAIN else _adapt(value) for value in values]


def adapted(names: Iterable[str], values: Collection[object]) -> dict[str, object]:
    """Return parameters with values that SQLite can store."""
    if _PLAIN.issuperset(map(type, values)):
        return dict(zip(names, values, strict=True))
    return {
        name: value if type(value) in _PLAIN else _adapt(value)
        for name, value in zip(names, values, strict=True)
    }


_PLAIN = frozenset({str, int, float, bool, type(None)})


def _adapt(value: object) -> object:
    if isinstance(value, datetime):
        return to_text(value)
    if isinstance(value, (list, tuple)):
        # Unescaped: an escaped surrogate would pass the driver and fail only when it is read.
        return json.dumps([_adapt(item) for item in value], ensure_ascii=False)
    return value


#: Extended codes are checked before the primary code, their lowest byte; any other code concerns the item.
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
#: SQLITE_ERROR means a statement that does not fit the schema or the transaction, or a function that refuses
#: its value (invalid JSON, an instant past the last year); only the text distinguishes them.
_UNFIT: Final = ("no such ", "near ", "table ", "cannot ", "incomplete input")
_BINDING: Final = (UnicodeEncodeError, OverflowError)


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Turn the driver's errors into Gandy's; other exceptions pass unchanged."""
    try:
        yield
    except (sqlite3.Error, *_BINDING) as error:
        raise translate(error, path) from error


def translate(error: Exception, path: Path) -> GandyError:
    """Return Gandy's error for an error of the driver."""
    kind = _kind(error)
    if kind is RowConflictError:
        return refused(error)
    if kind is DatabaseUnreachableError:
        problem = str(error) if path.parent.is_dir() else no_folder(path)
        return DatabaseUnreachableError(f"sqlite:///{path}", problem)
    make: Callable[[str], GandyError] = kind
    return make(str(error))


def no_folder(path: Path) -> str:
    """Return what is wrong with the path of a file whose folder is missing."""
    return f"there is no folder {path.parent}; make it, or correct the path"


def refused(error: Exception) -> RowConflictError:
    """Return the error of a refused item, with the constraint that refused it."""
    text = str(error)
    constraint = text.partition(": ")[2] if isinstance(error, sqlite3.IntegrityError) else ""
    return RowConflictError(constraint or type(error).__name__, text)


def is_refusal(error: Exception) -> bool:
    """Return whether an error concerns a single item."""
    return _kind(error) is RowConflictError


def _kind(error: Exception) -> type[GandyError]:
    code: int | None = getattr(error, "sqlite_errorcode", None)
    if code is None:  # raised by the module itself: a value that cannot be bound
        return RowConflictError
    if code == sqlite3.SQLITE_ERROR and str(error).startswith(_UNFIT):
        return DatabaseRefusedError
    return _EXTENDED.get(code) or _PRIMARY.get(code & 0xFF, RowConflictError)
