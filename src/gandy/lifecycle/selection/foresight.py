"""Compute which rows a walk would delete after the walks before it; read-only."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    CTE,
    ColumnElement,
    Select,
    and_,
    cast,
    exists,
    false,
    func,
    literal,
    literal_column,
    not_,
    or_,
    select,
    true,
    tuple_,
)
from sqlalchemy.dialects.postgresql import REGCLASS
from sqlalchemy.sql import visitors
from sqlalchemy.sql.expression import Alias, FromClause, TableClause

from gandy.lifecycle.contract.tables import ChildMode
from gandy.lifecycle.database.facts import TableFacts, TableName
from gandy.lifecycle.database.instants import Form, readable
from gandy.lifecycle.selection.walks import AgeWalk, CapWalk, Child, Columns, Selection

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import datetime


_Path = list[tuple[FromClause, list[ColumnElement[bool]]]]
_Paths = list[tuple[TableFacts, ColumnElement[bool]]]
Along = dict[TableName, tuple[TableFacts, ColumnElement[bool]]]


@dataclass(slots=True)
class Gone:
    """Rows that earlier walks of the same sweep would have deleted, by table.

    Later rules may use each set any number of times.
    """

    _rows: dict[TableName, list[tuple[TableFacts, FromClause]]] = field(default_factory=dict)
    _partitions: dict[TableName, list[ColumnElement[bool]]] = field(default_factory=dict)

    def add(self, table: TableFacts, rows: FromClause) -> None:
        """Hide these rows from later walks."""
        self._rows.setdefault(table.name, []).append((table, rows))

    def add_partitions(self, table: TableFacts, partitions: Iterable[TableName]) -> None:
        """Hide the rows of these partitions from later walks of the table."""
        for partition in partitions:
            parts = (part.replace('"', '""') for part in (partition.schema, partition.name) if part)
            name = ".".join(f'"{part}"' for part in parts)
            is_there = literal_column("tableoid") == cast(literal(name), REGCLASS)
            self._partitions.setdefault(table.name, []).append(is_there)

    def left(self, table: TableFacts) -> ColumnElement[bool]:
        """Return a condition: the row would still exist."""
        gone = [_is_among(table.clause, facts, rows) for facts, rows in self._rows.get(table.name, ())]
        return _none_of([*gone, *self._partitions.get(table.name, ())])

    def seen_by(self, condition: ColumnElement[bool]) -> ColumnElement[bool]:
        """Return the condition with these rows excluded from its sub-selects too."""
        if not self._rows:
            return condition
        aliases = [part for part in visitors.iterate(condition) if isinstance(part, Alias)]

        def narrow(inner: Select[Any]) -> None:
            outer = inner._correlate or ()  # noqa: SLF001  # SQLAlchemy has no public way to read it
            sources = [source for source in inner.get_final_froms() if source not in outer]
            inner._where_criteria += tuple(map(self._left_in, sources))  # noqa: SLF001  # of the clone

        return visitors.cloned_traverse(condition, {"stop_on": aliases}, {"select": narrow})

    def _left_in(self, source: FromClause) -> ColumnElement[bool]:
        table = source.element if isinstance(source, Alias) else source
        if not isinstance(table, TableClause):
            return true()
        taken = self._rows.get(TableName(table.schema, table.name), ())
        return _none_of([_is_among(source, facts, rows) for facts, rows in taken if facts.key])


def _none_of(conditions: list[ColumnElement[bool]]) -> ColumnElement[bool]:
    return not_(func.coalesce(or_(*conditions), false())) if conditions else true()


def _is_among(source: FromClause, facts: TableFacts, rows: FromClause) -> ColumnElement[bool]:
    """Return a condition: the source's row is in `rows`, by its key; SQLite allows NULL in a key."""
    names = key_names(facts)
    if any(column.is_nullable for column in facts.key):
        same = (source.c[name].is_not_distinct_from(rows.c[name]) for name in names)
        return exists(select(literal(1)).select_from(rows).where(*same).correlate_except(rows))
    keys = select(*(rows.c[name] for name in names)).correlate(None)
    return _in(tuple(source.c[name] for name in names), keys)


def _in(columns: Columns, rows: Select[Any]) -> ColumnElement[bool]:
    return columns[0].in_(rows) if len(columns) == 1 else tuple_(*columns).in_(rows)


@dataclass(frozen=True, slots=True)
class TakenRows:
    """The rows that one walk would delete."""

    table: TableFacts
    rows: FromClause
    children: tuple[Child, ...]

    @property
    def count(self) -> Select[Any]:
        """The query that counts them."""
        return select(func.count()).select_from(self.rows)

    def along(self) -> Along:
        """Rows of other tables that are deleted with them, each once even if several paths reach it."""
        return _union(_along(self.rows, self.children, is_going=True))

    def let_go(self) -> Along:
        """Rows of other tables whose reference is set to NULL."""
        return _union(_along(self.rows, self.children, is_going=False))


def rows_of(table: TableFacts, condition: ColumnElement[bool]) -> CTE:
    """Return the rows of a table that match a condition."""
    return select(*table.clause.c).where(condition).cte()


def key_names(table: TableFacts) -> list[str]:
    """The columns by which rows are known to be gone."""
    return [column.name for column in table.key]


def _along(parents: FromClause, children: Sequence[Child], *, is_going: bool) -> _Paths:
    paths: _Paths = []
    for child in children:
        keys = select(*(parents.c[name] for name in child.parent_columns)).correlate(None)
        refers = _in(tuple(child.table.clause.c[name] for name in child.columns), keys)
        if (child.mode is not ChildMode.SET_NULL) == is_going:
            paths.append((child.table, refers))
        if child.mode is not ChildMode.SET_NULL:
            paths += _along(rows_of(child.table, refers), child.children, is_going=is_going)
    return paths


def _union(paths: _Paths) -> Along:
    united: Along = {}
    for table, refers in paths:
        before = united.get(table.name)
        united[table.name] = (table, refers if before is None else or_(before[1], refers))
    return united


def selected(walk: AgeWalk | CapWalk, now: datetime) -> Selection:
    """Return the rows that match the walk's conditions; for a cap, of any rank."""
    if isinstance(walk, AgeWalk):
        return walk.frozen_at(now)
    return Selection(
        table=walk.table,
        dead=and_(true(), *walk.conditions, *walk.guards),
        order=walk.order,
        children=walk.children,
    )


def taken_by(walk: AgeWalk | CapWalk, selection: Selection, gone: Gone) -> TakenRows:
    """Return the rows of the selection that the walk would delete, without the rows already gone."""
    may_go, left = gone.seen_by(selection.dead), gone.left(walk.table)
    if isinstance(walk, AgeWalk):
        return TakenRows(walk.table, rows_of(walk.table, and_(may_go, left)), selection.children)
    columns = tuple(walk.table.clause.c)
    newest_first = [column.desc().nulls_last() for column in walk.order]
    rank = func.row_number().over(partition_by=walk.per or None, order_by=newest_first)
    ranked = select(*columns, rank.label("gandy_rank"), may_go.label("gandy_may_go")).where(left).cte()
    beyond = select(*(ranked.c[column.name] for column in columns)).where(
        ranked.c.gandy_rank > walk.rule.rows, ranked.c.gandy_may_go
    )
    return TakenRows(walk.table, beyond.cte(), selection.children)


def does_fit(table: TableFacts, children: Sequence[Child], bound: int) -> ColumnElement[bool]:
    """Return a condition: the row and its dependent rows are at most `bound` rows."""
    counts = (
        select(func.count())
        .select_from(*(source for source, _ in path))
        .where(*(condition for _, joined in path for condition in joined))
        .correlate(table.clause)
        .scalar_subquery()
        for path in _paths_below(table.clause, children)
    )
    return sum(counts, start=literal(1)) <= bound


def _paths_below(parent: FromClause, children: Sequence[Child]) -> Iterator[_Path]:
    for child in children:
        source = child.table.clause.alias()
        pairs = zip(child.columns, child.parent_columns, strict=True)
        step = (source, [source.c[mine] == parent.c[theirs] for mine, theirs in pairs])
        yield [step]
        if child.mode is not ChildMode.SET_NULL:
            yield from ([step, *further] for further in _paths_below(source, child.children))


def oldest_instant(selection: Selection, form: Form) -> Select[Any]:
    """Select the first instant of the selection, clamped to Python's range."""
    instant = selection.order[0]
    return select(readable(instant, form)).where(selection.dead).order_by(*selection.order).limit(1)


def extent(taken: TakenRows, instant: str, form: Form) -> Select[Any]:
    """Select the number of rows, and their oldest and newest instants."""
    at = readable(taken.rows.c[instant], form)
    columns: list[ColumnElement[Any]] = [func.count(), func.min(at), func.max(at)]
    return select(*columns).select_from(taken.rows)
