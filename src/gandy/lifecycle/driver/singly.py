"""Delete a refused batch row by row, so that only the refused rows stay."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Select, and_, bindparam, delete, func, literal_column, select, true
from sqlalchemy.exc import DBAPIError

from gandy.lifecycle.contract.tables import ChildMode
from gandy.lifecycle.database.dialect import DriverFailure
from gandy.lifecycle.database.failures import said
from gandy.lifecycle.database.numbers import bind_texts
from gandy.lifecycle.database.postgres import NOT_OF_A_ROW
from gandy.lifecycle.database.state_sight import compiled
from gandy.lifecycle.driver.levels import Level, cut_last, set_null
from gandy.lifecycle.selection.statements import refers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from sqlalchemy import ColumnElement, FromClause
    from sqlalchemy.sql.elements import ClauseElement

    from gandy.lifecycle.database.facts import TableName
    from gandy.lifecycle.driver.ages import LockedBatch
    from gandy.lifecycle.driver.shift import Shift
    from gandy.lifecycle.selection.statements import Values
    from gandy.lifecycle.selection.walks import Child

_SAVE, _UNDO, _RELEASE = "SAVEPOINT gandy_row", "ROLLBACK TO gandy_row", "RELEASE gandy_row"
_KEY = "gandy_key_"


@dataclass(slots=True)
class Removed:
    """Deleted rows by table, and refused rows with the database's error message."""

    rows: int = 0
    gone: Counter[str] = field(default_factory=Counter)
    refused: dict[Values, str] = field(default_factory=dict)


class TransactionEndedError(Exception):
    """A trigger of one row rolled back the whole transaction, as SQLite's RAISE(ROLLBACK) does."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(str(cause))
        self.cause = cause


@dataclass(slots=True)
class Trials:
    """Results for single rows of a batch, from earlier transactions that a row rolled back."""

    harmless: set[Values] = field(default_factory=set)
    refused: dict[Values, str] = field(default_factory=dict)
    is_apart: bool = False  # a trigger keeps a row without an error: delete rows one by one

    def order(self, addresses: Iterable[Values]) -> list[Values]:
        """Return the remaining rows, untried rows first, so that no row is tried more than twice."""
        left = [address for address in addresses if address not in self.refused]
        return sorted(left, key=lambda address: address in self.harmless)


def remove_singly(connection: Connection, doomed: LockedBatch, *, shift: Shift, trials: Trials) -> Removed:
    """Delete all rows that the database does not refuse."""
    if not doomed.rows.addresses:
        return Removed()
    if shift.session.dialect.has_row_locks:
        return _Block(connection, shift, doomed).run()
    return _OneByOne(connection, shift, doomed).run(trials)


@dataclass(frozen=True, slots=True)
class _OneByOne:
    """Each row in a savepoint, on the driver's connection: SQLAlchemy would cost more than the deletes."""

    connection: Connection
    shift: Shift
    doomed: LockedBatch

    def run(self, trials: Trials) -> Removed:
        driver = self.connection.connection.driver_connection
        assert isinstance(driver, sqlite3.Connection)  # noqa: S101  # the only database without row locks
        steps = [_Compiled.of(self.connection, step) for step in self._steps()]
        rows = self.doomed.rows.addresses
        removed = Removed(refused={row: trials.refused[row] for row in rows if row in trials.refused})
        driver.execute(_SAVE)
        for address in trials.order(rows):
            try:
                counts = [step.run(driver, address) for step in steps]
            except sqlite3.Error as error:
                removed.refused[address] = self._refusal(driver, error, address=address, trials=trials)
            else:
                driver.execute(_RELEASE)
                driver.execute(_SAVE)
                trials.harmless.add(address)
                self._count(removed, steps, counts)
        driver.execute(_RELEASE)
        return removed

    def _refusal(
        self, driver: sqlite3.Connection, error: sqlite3.Error, *, address: Values, trials: Trials
    ) -> str:
        if self.shift.session.dialect.failure(error) is not DriverFailure.ROW:
            raise DBAPIError(None, None, error) from error
        if not driver.in_transaction:
            trials.refused[address] = said(error)
            raise TransactionEndedError(error) from error
        driver.execute(_UNDO)
        return said(error)

    def _count(self, removed: Removed, steps: list[_Compiled], counts: list[int]) -> None:
        removed.rows += counts[-1]
        for step, count in zip(steps, counts, strict=True):
            if step.table is not None:
                removed.gone[self.shift.label(step.table)] += count

    def _steps(self) -> Iterator[_Step]:
        for level in cut_last(self.doomed.levels):
            yield from _settling(level, self._root)
        table, still = self.doomed.rows.table, self.doomed.still
        dead = true() if still is None else still
        yield _Step(delete(table.clause).where(self._is_the_row(table.clause), dead), table.name)

    def _root(self, child: Child) -> Select[Any]:
        alias = self.doomed.rows.table.clause.alias()
        return select(*(alias.c[name] for name in child.parent_columns)).where(self._is_the_row(alias))

    def _is_the_row(self, clause: FromClause) -> ColumnElement[bool]:
        columns = self.doomed.rows.columns(clause)
        return and_(*(column == bindparam(f"{_KEY}{place}") for place, column in enumerate(columns)))


@dataclass(frozen=True, slots=True)
class _Compiled:
    """A step compiled for SQLite; each row fills in its key."""

    text: str
    values: tuple[object, ...]
    places: tuple[tuple[int, int], ...]  # positions of the key's parts in `values`
    table: TableName | None
    is_count: bool

    @classmethod
    def of(cls, connection: Connection, step: _Step) -> _Compiled:
        made = compiled(connection, step.statement)
        names = made.positiontup or []
        keys = {f"{_KEY}{place}": place for place in range(len(names))}
        places = tuple((place, keys[name]) for place, name in enumerate(names) if name in keys)
        values = tuple(made.params[name] for name in names)
        return cls(str(made), values, places, table=step.table, is_count=step.is_count)

    def run(self, driver: sqlite3.Connection, key: Values) -> int:
        """Return the number of rows that it counted or changed."""
        values = list(self.values)
        for place, part in self.places:
            values[place] = key[part]
        cursor = driver.execute(*bind_texts(self.text, tuple(values)))
        return int(cursor.fetchone()[0]) if self.is_count else cursor.rowcount


# Errors that are not caused by a row (a lock timeout, a lack of memory) are raised again.
_BLOCK = """
DECLARE
    gandy_table oid;
    gandy_row tid;
    gandy_place integer := -1;
    gandy_tally bigint[] := pg_catalog.array_fill(0::bigint, ARRAY[{counters}]);
    gandy_part bigint[];
    gandy_count bigint;
    gandy_refused jsonb := '[]';
BEGIN
    FOR gandy_table, gandy_row IN SELECT * FROM unnest({tables}::oid[], {rows}::tid[]) LOOP
        gandy_place := gandy_place + 1;
        BEGIN
            gandy_part := gandy_tally;
{steps}
            gandy_tally := gandy_part;
        EXCEPTION WHEN OTHERS THEN
            IF pg_catalog.left(SQLSTATE, 2) = ANY ({not_of_a_row}::text[]) THEN
                RAISE;
            END IF;
            gandy_refused := gandy_refused || pg_catalog.jsonb_build_array(
                pg_catalog.jsonb_build_array(gandy_place, SQLERRM));
        END;
    END LOOP;
    PERFORM pg_catalog.set_config('gandy.refused', gandy_refused::text, true);
    PERFORM pg_catalog.set_config('gandy.tally', pg_catalog.array_to_json(gandy_tally)::text, true);
END
"""
_STEP = """            {statement};
            GET DIAGNOSTICS gandy_count = ROW_COUNT;
            gandy_part[{place}] := gandy_part[{place}] + gandy_count;"""
_COUNT = """            gandy_part[{place}] := gandy_part[{place}] + ({statement});"""


@dataclass(frozen=True, slots=True)
class _Block:
    """One statement for the whole batch: a DO block deletes row by row, each in a subtransaction."""

    connection: Connection
    shift: Shift
    doomed: LockedBatch

    def run(self) -> Removed:
        tables, steps = self._steps()
        addresses = self.doomed.rows.addresses
        body = _BLOCK.format(
            counters=len(tables),
            tables=_array(row[0] for row in addresses),
            rows=_array(row[1] for row in addresses),
            not_of_a_row=_array(sorted(NOT_OF_A_ROW)),
            steps="\n".join(steps),
        )
        quotes = _dollars(body)
        self.connection.exec_driver_sql(f"DO {quotes}{body}{quotes}")
        return self._told(tables)

    def _told(self, tables: list[str]) -> Removed:
        told = self.connection.execute(
            select(func.current_setting("gandy.refused"), func.current_setting("gandy.tally"))
        ).one()
        tally = json.loads(told[1])
        removed = Removed(rows=tally[-1])
        for table, count in zip(tables, tally, strict=True):
            if table:
                removed.gone[table] += count
        for place, error in json.loads(told[0]):
            removed.refused[self.doomed.rows.addresses[place]] = " ".join(error.split())
        return removed

    def _steps(self) -> tuple[list[str], list[str]]:
        """Return the table that each statement counts for, and the statements for one row, lowest first."""
        clause = self.doomed.rows.table.clause
        levels = cut_last(self.doomed.levels)
        found = [step for level in levels for step in _settling(level, self._root)]
        found.append(_Step(delete(clause).where(_is_the_row(clause)), self.doomed.rows.table.name))
        tables = ["" if step.table is None else self.shift.label(step.table) for step in found]
        return tables, [self._text(step, place) for place, step in enumerate(found, start=1)]

    def _root(self, child: Child) -> Select[Any]:
        alias = self.doomed.rows.table.clause.alias()
        return select(*(alias.c[name] for name in child.parent_columns)).where(_is_the_row(alias))

    def _text(self, step: _Step, place: int) -> str:
        made = compiled(self.connection, step.statement, compile_kwargs={"literal_binds": True})
        return (_COUNT if step.is_count else _STEP).format(place=place, statement=made)


@dataclass(frozen=True, slots=True)
class _Step:
    statement: ClauseElement
    table: TableName | None = None  # table for which its rows are counted
    is_count: bool = False


def _settling(level: Level, above: Callable[[Child], Select[Any]]) -> Iterator[_Step]:
    """Yield the statements for the children of one row, which `above` selects."""
    child, clause = level.child, level.rows.table.clause
    if child.mode is ChildMode.SET_NULL:
        letting_go = set_null(child, above(child))
        if level.rows.has_locks:  # a row that refers to itself would change its address and be missed
            letting_go = letting_go.where(~_is_the_row(clause))
        yield _Step(letting_go)
    elif level.rows.addresses:
        for below in cut_last(level.below):
            yield from _settling(below, partial(_of_level, level, above))
        is_count = child.mode is ChildMode.CASCADE
        mine = refers(child, above(child))
        if not is_count and level.rows.has_locks:  # cascaded rows are counted at any address
            mine = and_(level.rows.are(clause), mine)
        counted = select(func.count()).select_from(clause).where(mine)
        yield _Step(counted if is_count else delete(clause).where(mine), level.rows.table.name, is_count)


def _of_level(level: Level, above: Callable[[Child], Select[Any]], child: Child) -> Select[Any]:
    alias = level.rows.table.clause.alias()
    mine = refers(level.child, above(level.child), alias)
    if level.rows.has_locks:
        mine = and_(level.rows.are(alias), mine)
    return select(*(alias.c[name] for name in child.parent_columns)).where(mine)


def _is_the_row(clause: FromClause) -> ColumnElement[bool]:
    is_table = clause.c["tableoid"] == literal_column("gandy_table")
    return and_(is_table, clause.c["ctid"] == literal_column("gandy_row"))


def _array(values: Iterable[object]) -> str:
    return "'{" + ",".join(f'"{value}"' for value in values) + "}'"


def _dollars(body: str) -> str:
    """Return a dollar quote that the body does not contain."""
    tag = "gandy"
    while f"${tag}$" in body:
        tag += "y"
    return f"${tag}$"
