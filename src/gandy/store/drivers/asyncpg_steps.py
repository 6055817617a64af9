"""Operations on a caller's asyncpg connection; the package itself is never imported here."""

from __future__ import annotations

import re
from collections import namedtuple
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from gandy.errors import RowConflictError
from gandy.store.drivers.database import drive_async
from gandy.store.drivers.postgres_values import first_line, kind_of_state
from gandy.store.statements import Affected, Batch, Counted, columns_of, load_statements

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from gandy.store.statements import Operation, Rows, Step

T = TypeVar("T")

#: JSON is sent as text: the caller may have set a codec for it, which would encode it twice.
_PARAMETER: Final = re.compile(r"%\((?P<name>\w+)\)s(?P<cast>::jsonb?(?P<array>\[\])?)?|%%")
_NO_TABLES: Final = frozenset({"42P01", "3F000"})
_make_row_type: Callable[..., Any] = namedtuple  # noqa: PYI024 the names are known only at run time


class AsyncpgConnection(Protocol):
    """The used part of `asyncpg.Connection`."""

    def is_in_transaction(self) -> bool:
        """Return whether a transaction is open."""
        ...

    def transaction(self) -> AbstractAsyncContextManager[object]:
        """Open a transaction."""
        ...

    async def fetch(self, query: str, *values: object) -> Sequence[Mapping[str, object]]:
        """Run a statement and return its rows."""
        ...

    async def execute(self, query: str, *values: object) -> str:
        """Run a statement and return its status, such as `UPDATE 5`."""
        ...


@dataclass(frozen=True, slots=True)
class AsyncpgLink:
    """A caller's connection, on which operations are driven."""

    connection: AsyncpgConnection

    async def run(self, operation: Operation[T]) -> T:
        """Run an operation in the caller's transaction, or in one of its own if none is open."""
        async with nullcontext() if self.connection.is_in_transaction() else self.connection.transaction():
            return await drive_async(operation, self._execute)

    async def _execute(self, step: Step) -> Rows:
        if isinstance(step, Batch) and not step.rows:
            return []
        text, names = _numbered(step.name)
        bound = _bind(step)
        values = [bound[name] for name in names]
        if isinstance(step, Counted):
            status = await self.connection.execute(text, *values)
            return [Affected(int(status.rpartition(" ")[2]))]
        return _named(await self.connection.fetch(text, *values))


def lacks_tables(error: Exception) -> bool:
    """Return whether the server says that a table or its schema does not exist."""
    return getattr(error, "sqlstate", None) in _NO_TABLES


def refusal(error: Exception) -> RowConflictError | None:
    """Return Gandy's error for a refused item; None for a fault, which stays the driver's error."""
    state = getattr(error, "sqlstate", None)
    if state is None or kind_of_state(state) is not RowConflictError:
        return None
    return RowConflictError(
        getattr(error, "constraint_name", None) or type(error).__name__, first_line(error)
    )


@cache
def _numbered(name: str) -> tuple[str, tuple[str, ...]]:
    """Return a statement with `$1`, `$2`, ... and the names of their parameters."""
    names: list[str] = []

    def number(found: re.Match[str]) -> str:
        if found["name"] is None:
            return "%"
        names.append(found["name"])
        via_text = f"::text{found['array'] or ''}{found['cast']}" if found["cast"] else ""
        return f"${len(names)}{via_text}"

    return _PARAMETER.sub(number, load_statements("postgres")[name]), tuple(names)


def _bind(step: Step) -> Mapping[str, object]:
    if not isinstance(step, Batch):
        return step.parameters
    names, rows = columns_of(step)
    columns = [list(column) for column in zip(*rows, strict=True)]
    return {**step.shared, **dict(zip(names, columns, strict=True))}


def _named(records: Sequence[Mapping[str, object]]) -> Rows:
    if not records:
        return []
    row_type = _make_row_type("Row", list(records[0].keys()), rename=True)
    return [row_type(*record.values()) for record in records]
