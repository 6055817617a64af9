"""A batch of which some row cannot go: each row on its own, so that every other one goes."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Select, and_, delete, func, literal_column, select
from sqlalchemy.exc import DBAPIError

from gandy.lifecycle.contract.tables import ChildMode
from gandy.lifecycle.database.dialect import Failure
from gandy.lifecycle.database.failures import said
from gandy.lifecycle.database.postgres import NOT_OF_A_ROW
from gandy.lifecycle.driver.levels import Level, Removal, cut_last, narrow_levels, set_null
from gandy.lifecycle.selection.addresses import Rows, refers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from sqlalchemy import ColumnElement, FromClause
    from sqlalchemy.sql.elements import ClauseElement

    from gandy.lifecycle.database.facts import TableName
    from gandy.lifecycle.driver.guarded import Doomed
    from gandy.lifecycle.driver.shift import Shift
    from gandy.lifecycle.selection.statements import Values
    from gandy.lifecycle.selection.walks import Child


@dataclass(slots=True)
class Removed:
    """What went, by table, and the rows that the database refused, each with what it said."""

    rows: int = 0
    gone: Counter[str] = field(default_factory=Counter)
    refused: dict[Values, str] = field(default_factory=dict)


def remove_singly(connection: Connection, doomed: Doomed, shift: Shift) -> Removed:
    """Delete all rows that the database lets go."""
    if not doomed.rows.addresses:
        return Removed()
    if shift.session.dialect.has_row_locks:
        return _Block(connection, shift, doomed).run()
    halves = _Halves(connection, shift, doomed.levels)
    halves.remove(doomed.rows)
    return halves.removed


@dataclass(slots=True)
class _Halves:
    """Halves the rows around those that cannot go, in savepoints of one transaction."""

    connection: Connection
    shift: Shift
    levels: tuple[Level, ...]
    removed: Removed = field(default_factory=Removed)

    def remove(self, rows: Rows) -> None:
        try:
            self._try(rows)
        except DBAPIError as error:
            if self.shift.session.dialect.failure(error) is not Failure.ROW:
                raise
            if len(rows) == 1:
                self.removed.refused[rows.addresses[0]] = said(error)
                return
            middle = len(rows) // 2
            self.remove(rows.only(rows.addresses[:middle]))
            self.remove(rows.only(rows.addresses[middle:]))

    def _try(self, rows: Rows) -> None:
        removal = Removal.on(self.connection, self.shift.label)
        with self.connection.begin_nested():
            gone = removal.remove(rows, narrow_levels(self.connection, rows, self.levels))
        self.removed.rows += gone
        self.removed.gone += removal.gone


# What is no fault of a row (a lock timeout, a lack of memory) is passed on.
_BLOCK = """
DECLARE
    gandy_table oid;
    gandy_row tid;
    gandy_place integer := -1;
    gandy_tally bigint[] := array_fill(0::bigint, ARRAY[{counters}]);
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
            IF left(SQLSTATE, 2) = ANY ({not_of_a_row}::text[]) THEN
                RAISE;
            END IF;
            gandy_refused := gandy_refused || jsonb_build_array(jsonb_build_array(gandy_place, SQLERRM));
        END;
    END LOOP;
    PERFORM set_config('gandy.refused', gandy_refused::text, true);
    PERFORM set_config('gandy.tally', array_to_json(gandy_tally)::text, true);
END
"""
_STEP = """            {statement};
            GET DIAGNOSTICS gandy_count = ROW_COUNT;
            gandy_part[{place}] := gandy_part[{place}] + gandy_count;"""
_COUNT = """            gandy_part[{place}] := gandy_part[{place}] + ({statement});"""


@dataclass(frozen=True, slots=True)
class _Block:
    """One statement for the whole batch: the server itself goes from row to row, each in a subtransaction."""

    connection: Connection
    shift: Shift
    doomed: Doomed

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
        """The statements for one row, from below, and the table that each one counts for."""
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
        compiled = step.statement.compile(
            dialect=self.connection.dialect, compile_kwargs={"literal_binds": True}
        )
        return (_COUNT if step.is_count else _STEP).format(place=place, statement=compiled)


@dataclass(frozen=True, slots=True)
class _Step:
    statement: ClauseElement
    table: TableName | None = None  # that its rows are counted for
    is_count: bool = False


def _settling(level: Level, above: Callable[[Child], Select[Any]]) -> Iterator[_Step]:
    """What becomes of the children of one row, which `above` selects."""
    child, clause = level.child, level.rows.table.clause
    if child.mode is ChildMode.SET_NULL:
        # A row that refers to itself would move, and be missed by its address.
        yield _Step(set_null(child, above(child)).where(~_is_the_row(clause)))
    elif level.rows.addresses:
        for below in cut_last(level.below):
            yield from _settling(below, partial(_of_level, level, above))
        is_count = child.mode is ChildMode.CASCADE
        mine = refers(child, above(child))
        if not is_count:  # what is cascaded to is counted wherever an update has moved it
            mine = and_(level.rows.are(clause), mine)
        counted = select(func.count()).select_from(clause).where(mine)
        yield _Step(counted if is_count else delete(clause).where(mine), level.rows.table.name, is_count)


def _of_level(level: Level, above: Callable[[Child], Select[Any]], child: Child) -> Select[Any]:
    alias = level.rows.table.clause.alias()
    mine = and_(level.rows.are(alias), refers(level.child, above(level.child), alias))
    return select(*(alias.c[name] for name in child.parent_columns)).where(mine)


def _is_the_row(clause: FromClause) -> ColumnElement[bool]:
    is_table = clause.c["tableoid"] == literal_column("gandy_table")
    return and_(is_table, clause.c["ctid"] == literal_column("gandy_row"))


def _array(values: Iterable[object]) -> str:
    return "'{" + ",".join(f'"{value}"' for value in values) + "}'"


def _dollars(body: str) -> str:
    """Quotes that the body does not contain."""
    tag = "gandy"
    while f"${tag}$" in body:
        tag += "y"
    return f"${tag}$"
