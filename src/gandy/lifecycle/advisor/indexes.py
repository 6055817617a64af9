"""Check that an index serves every rule, and suggest one where it is missing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import Column, Connection, Index, MetaData, Table, func, literal, select
from sqlalchemy.schema import CreateIndex

from gandy.lifecycle.database.sampling import learned_about
from gandy.lifecycle.selection.findings import Severity
from gandy.lifecycle.selection.statements import first_row, nth_row
from gandy.lifecycle.selection.walks import AgeWalk, CapWalk, Child, PartitionWalk, Walk

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Sequence
    from datetime import datetime

    from sqlalchemy import Select

    from gandy.lifecycle.database.dialect import Dialect
    from gandy.lifecycle.database.facts import SchemaFacts, TableFacts
    from gandy.lifecycle.selection.resolve import Resolved

LARGE = 10_000
_LONGEST_NAME = 63
_USUAL_BATCH = 500


@dataclass(frozen=True, slots=True)
class IndexAdvisor:
    """Checks which access path the database would use for the rows of each rule."""

    connection: Connection
    dialect: Dialect
    schema: SchemaFacts
    now: datetime

    def advise(self, resolved: Resolved) -> None:
        """Add missing indexes to the rule's findings."""
        for walk in resolved.walks:
            if isinstance(walk, AgeWalk):
                self._advise_age(resolved, walk)
            elif isinstance(walk, CapWalk):
                self._advise_cap(resolved, walk)
            if not isinstance(walk, PartitionWalk):
                self._advise_children(resolved, walk)
        if resolved.watch is not None:
            access = self.dialect.access(
                self.connection, first_row(resolved.watch.overdue_at(self.now)), resolved.watch.table
            )
            if not access.is_search:
                columns = (*filter(None, [resolved.watch.rule.column]), resolved.watch.instant)
                self._missing(resolved, resolved.watch.table, columns)

    def index_of(self, walk: AgeWalk | CapWalk) -> str | None:
        """The index that a walk reads."""
        if isinstance(walk, CapWalk):
            return _cap_index(walk)
        return self.dialect.access(self.connection, self._first_batch(walk), walk.table).index

    def row_count(self, table: TableFacts) -> int:
        """Return the estimated row count; without an estimate, count to just above `LARGE`."""
        estimate = self.dialect.estimated_rows(self.connection, table)
        if estimate is not None:
            return estimate
        some = select(literal(1)).select_from(table.clause).limit(LARGE + 1)
        return int(self.connection.execute(select(func.count()).select_from(some.subquery())).scalar_one())

    def _advise_age(self, resolved: Resolved, walk: AgeWalk) -> None:
        if not self._is_served(walk):
            self._missing(resolved, walk.table, _with_key(walk.table, (*walk.pinned, walk.instant)))

    def asks_nothing(self, resolved: Resolved) -> bool:
        """Whether all results for the rule are cached, so that it needs no savepoint."""
        return resolved.watch is None and all(self._is_known(walk) for walk in resolved.walks)

    def _is_known(self, walk: Walk) -> bool:
        return (
            isinstance(walk, AgeWalk)
            and not walk.form.is_number
            and learned_about(self.connection).recall(self._question(walk)) is True
            and all(table.has_index_on(columns) for table, columns in self._beside(walk))
        )

    def _is_served(self, walk: AgeWalk) -> bool:
        """Cache a positive result until the table's columns or indexes, or the rule's conditions, change."""
        learned, question = learned_about(self.connection), self._question(walk)
        if learned.recall(question):
            return True
        access = self.dialect.access(self.connection, self._first_batch(walk), walk.table)
        is_served = access.is_search and _is_led_to(walk, access.index)
        if is_served and _is_for_all_rows(walk.table, access.index):
            learned.keep(question, True)
        return is_served

    def _question(self, walk: AgeWalk) -> Hashable:
        statement = self._first_batch(walk).compile(dialect=self.connection.dialect)
        values = repr(walk.equals)  # the statement has parameters, and a value may not fit its column
        return "served", str(statement), walk.instant, values, walk.table.fingerprint

    def _first_batch(self, walk: AgeWalk) -> Select[Any]:
        return nth_row(walk.frozen_at(self.now), None, _USUAL_BATCH)

    def _advise_cap(self, resolved: Resolved, walk: CapWalk) -> None:
        if _cap_index(walk) is None:
            self._missing(resolved, walk.table, _with_key(walk.table, walk.rule.sorted_by))

    def _advise_children(self, resolved: Resolved, walk: AgeWalk | CapWalk) -> None:
        for table, columns in self._beside(walk):
            if not table.has_index_on(columns):
                self._missing(resolved, table, columns)

    def _beside(self, walk: AgeWalk | CapWalk) -> Iterator[tuple[TableFacts, tuple[str, ...]]]:
        """Yield the other tables that a batch reads, with the columns of the lookup."""
        yield from self._read(walk)
        yield from _descendants(walk.children)

    def _read(self, walk: AgeWalk | CapWalk) -> Iterator[tuple[TableFacts, tuple[str, ...]]]:
        for reference in walk.rule.reads:
            other = self.schema.find(reference.table, reference.schema or walk.table.name.schema)
            if other is not None:
                yield other, reference.columns

    def _missing(self, resolved: Resolved, table: TableFacts, columns: tuple[str, ...]) -> None:
        rows = self.row_count(table)
        is_large = rows > LARGE
        size = f"about {rows:,}" if is_large else f"{rows:,}"
        resolved.note(
            Severity.REFUSED if is_large else Severity.WARNING,
            f"no index of {table.name} serves {', '.join(columns)}, and it holds {size} rows",
            remedy=f"Create one: {self._create_index(table, columns)}",
        )

    def _create_index(self, table: TableFacts, columns: Sequence[str]) -> str:
        target = Table(
            table.name.name,
            MetaData(),
            *(Column(name, table.columns[name].type) for name in columns),
            schema=table.name.schema if table.name.schema != self.schema.default_schema else None,
        )
        name = f"ix_{table.name.name}_{'_'.join(columns)}"[:_LONGEST_NAME]
        index = Index(name, *(target.c[column] for column in columns), postgresql_concurrently=True)
        return " ".join(str(CreateIndex(index).compile(dialect=self.connection.dialect)).split())


def _is_led_to(walk: AgeWalk, index: str | None) -> bool:
    """Check the columns too: a plan also reports an index condition for a filter over a whole index."""
    columns = walk.table.index_columns(index)
    return columns is None or _leads_to(columns, walk.instant, pinned=walk.pinned)


def _is_for_all_rows(table: TableFacts, index: str | None) -> bool:
    """Whether it is a full index of the table itself; a partial index may not cover the next cutoff."""
    listed = any(each.name == index and not each.is_partial for each in table.indexes)
    return listed and not table.is_partitioned and not table.inheritors


def _with_key(table: TableFacts, columns: tuple[str, ...]) -> tuple[str, ...]:
    """Append the key to the columns, so that rows with the same instant have an order."""
    key = (column.name for column in table.key if column.name in table.columns)
    return tuple(dict.fromkeys((*columns, *key)))


def _leads_to(columns: tuple[str, ...], instant: str, *, pinned: tuple[str, ...]) -> bool:
    for column in columns:
        if column == instant:
            return True
        if column not in pinned:
            return False
    return False


def _cap_index(walk: CapWalk) -> str | None:
    """Return an index that stores the rows of each `per` key together, in order."""
    wanted = walk.rule.sorted_by
    leads = [("the primary key", walk.table.primary_key)]
    leads += [(index.name, index.columns) for index in walk.table.indexes if not index.is_partial]
    for name, columns in leads:
        if columns[: len(wanted)] == wanted:
            return name
    return None


def _descendants(children: Sequence[Child]) -> Iterator[tuple[TableFacts, tuple[str, ...]]]:
    for child in children:
        yield child.table, child.columns
        yield from _descendants(child.children)
