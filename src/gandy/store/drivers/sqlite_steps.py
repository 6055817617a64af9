"""Running the steps of an operation on SQLite."""

from __future__ import annotations

import re
import sqlite3
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from gandy.errors import RowConflictError
from gandy.store.drivers.sqlite_values import adapted, named_rows, plain, shaped, storable, storable_value
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
    from collections.abc import Sequence


Bound: TypeAlias = "tuple[Any, ...]"

_LARGEST: Final = 2**63 - 1


def execute_step(connection: sqlite3.Connection | sqlite3.Cursor, step: Step) -> Rows:
    """Run a step; a batch is run row by row, which costs no round trip here."""
    parts = statement_parts(step.name)
    match step:
        case Counted(parameters=parameters):
            return _count_parts(connection, parts, adapted(parameters, parameters.values()))
        case Statement(parameters=parameters):
            return _execute_parts(connection, parts, adapted(parameters, parameters.values()))
        case Batch():
            return _execute_batch(connection, step)


def _execute_batch(connection: sqlite3.Connection | sqlite3.Cursor, step: Batch) -> Rows:
    """Run a batch; values are bound by position, which is faster than by name."""
    names, rows = columns_of(step)
    parts = _numbered_parts(step.name, (*names, *step.shared))
    fixed = tuple(adapted(step.shared, step.shared.values()).values())
    bound = [(*plain(row), *fixed) for row in rows]
    cursor = connection.cursor() if isinstance(connection, sqlite3.Connection) else connection
    run = _run_as_set if any(part.collects for part in parts) else _run_each
    try:
        found = run(cursor, parts, bound) if bound else []
    except OverflowError as error:
        raise _too_large({**step.shared, **_first_too_large(names, bound)}) from error
    return shaped(found, cursor) if found else found


class NumberedPart(NamedTuple):
    """A statement with numbered parameters."""

    text: str
    takes: int  #: the number of values
    collects: bool  #: it collects the rows of a batch in a temporary table; the other parts run once for all


def _run_each(cursor: sqlite3.Cursor, parts: Sequence[NumberedPart], bound: Sequence[Bound]) -> Rows:
    """Run all parts for each row."""
    found: Rows = []
    for values in bound:
        for text, takes, _ in parts:
            try:
                cursor.execute(text, values[:takes])
            except UnicodeEncodeError:  # refused before the statement did anything
                cursor.execute(text, _storable(values[:takes]))
        found += cursor.fetchall()
    return found


def _storable(values: Bound) -> Bound:
    return tuple(storable_value(value) for value in values)


def _run_as_set(cursor: sqlite3.Cursor, parts: Sequence[NumberedPart], bound: Sequence[Bound]) -> Rows:
    """Collect the rows, and run the other parts once."""
    for text, takes, collects in parts:
        if collects:
            try:
                cursor.executemany(text, [values[:takes] for values in bound])
            except UnicodeEncodeError:  # the rows before it are collected already
                return _run_as_set(cursor, parts, [_storable(values) for values in bound])
        else:
            cursor.execute(text, bound[0][:takes])
    return cursor.fetchall()


_NAMED: Final = re.compile(r":([a-z]\w*)")
_COLLECTS: Final = "/* for each row */"  # the mark of such a part


@lru_cache(maxsize=256)
def _numbered_parts(name: str, names: tuple[str, ...]) -> tuple[NumberedPart, ...]:
    numbers = {each: number for number, each in enumerate(names, start=1)}
    parts = []
    for part in statement_parts(name):
        used = [numbers[found] for found in _NAMED.findall(part) if found in numbers]
        text = _NAMED.sub(lambda found: f"?{numbers[found[1]]}" if found[1] in numbers else found[0], part)
        parts.append(NumberedPart(text, max(used, default=0), _COLLECTS in part))
    return tuple(parts)


def _first_too_large(names: Sequence[str], bound: Sequence[Bound]) -> dict[str, object]:
    rows = (dict(zip(names, values, strict=False)) for values in bound)
    return next((row for row in rows if any(map(_is_too_large, row.values()))), {})


@cache
def statement_parts(name: str) -> tuple[str, ...]:
    """Split a named statement: SQLite needs several statements for a data-modifying CTE of PostgreSQL."""
    parts: list[str] = []
    pending = ""
    for line in (load_statements("sqlite")[name] + ";").splitlines(keepends=True):
        pending += line
        if sqlite3.complete_statement(pending):
            parts.append(pending.strip())
            pending = ""
    return tuple(parts)


def _execute_parts(
    connection: sqlite3.Connection | sqlite3.Cursor, parts: tuple[str, ...], values: dict[str, object]
) -> Rows:
    for part in parts[:-1]:
        _execute(connection, part, values)
    return named_rows(_execute(connection, parts[-1], values))


def _count_parts(
    connection: sqlite3.Connection | sqlite3.Cursor, parts: tuple[str, ...], values: dict[str, object]
) -> Rows:
    for part in parts[:-1]:
        _execute(connection, part, values)
    cursor = _execute(connection, parts[-1], values)
    return named_rows(cursor) if cursor.description else [Affected(cursor.rowcount)]


def _execute(
    connection: sqlite3.Connection | sqlite3.Cursor, part: str, values: dict[str, object]
) -> sqlite3.Cursor:
    """Run one statement; a value that cannot be bound is refused before the statement does anything."""
    try:
        return connection.execute(part, values)
    except UnicodeEncodeError:
        return connection.execute(part, storable(values))
    except OverflowError as error:
        raise _too_large(values) from error


def _is_too_large(value: object) -> bool:
    return isinstance(value, int) and abs(value) > _LARGEST


def _too_large(values: dict[str, object]) -> RowConflictError:
    for name, value in values.items():
        if _is_too_large(value):
            return RowConflictError(name, f"{value} does not fit into 64 bits")
    return RowConflictError("a value", "is too large")
