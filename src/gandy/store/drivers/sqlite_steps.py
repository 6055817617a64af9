"""Running the steps of an operation on SQLite."""

from __future__ import annotations

import re
import sqlite3
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from gandy.errors import RowConflictError
from gandy.store.drivers.sqlite_values import (
    adapted,
    is_without_values,
    named_rows,
    plain,
    shaped,
    storable,
    storable_value,
)
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
    from collections.abc import Mapping, Sequence


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
    """Run a batch; values are bound by position, which is faster than by name.

    A null that all rows share is part of the statement: the driver looks for an adapter of each None, which
    takes as long as to bind four texts.
    """
    names, rows = columns_of(step)
    if not rows:
        return []
    columns = dict(zip(names, zip(*rows, strict=True), strict=True))
    columns.update((name, (value,) * len(step.rows)) for name, value in step.shared.items())
    nulls = frozenset(name for name, column in columns.items() if is_without_values(column))
    bound = list(zip(*(plain(column) for name, column in columns.items() if name not in nulls), strict=True))
    parts = _numbered_parts(step.name, tuple(columns), nulls)
    cursor = connection.cursor() if isinstance(connection, sqlite3.Connection) else connection
    run = _run_as_set if any(part.collects for part in parts) else _run_each
    try:
        found = run(cursor, parts, bound or [()] * len(step.rows))
    except OverflowError as error:
        raise _too_large(_first_too_large(columns)) from error
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


@lru_cache(maxsize=1024)
def _numbered_parts(name: str, names: tuple[str, ...], nulls: frozenset[str]) -> tuple[NumberedPart, ...]:
    numbers = {each: number for number, each in enumerate((n for n in names if n not in nulls), start=1)}
    written = dict.fromkeys(nulls, "NULL") | {each: f"?{number}" for each, number in numbers.items()}
    parts = []
    for part in statement_parts(name):
        used = [numbers[found] for found in _NAMED.findall(part) if found in numbers]
        text = _NAMED.sub(lambda found: written.get(found[1], found[0]), part)
        parts.append(NumberedPart(text, max(used, default=0), _COLLECTS in part))
    return tuple(parts)


def _first_too_large(columns: Mapping[str, Sequence[object]]) -> dict[str, object]:
    return {name: value for name, column in columns.items() for value in column if _is_too_large(value)}


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
