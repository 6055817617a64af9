"""Rules resolved against a database: which rows, in which order, with which dependent rows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from sqlalchemy import ColumnElement, and_

from gandy.lifecycle.contract.tables import ChildMode
from gandy.lifecycle.database.instants import Form, is_before

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gandy.lifecycle.contract.base import AgeRule
    from gandy.lifecycle.contract.fields import Scalar
    from gandy.lifecycle.contract.rules import Cap, DropPartition, Inline, Keep
    from gandy.lifecycle.database.facts import TableFacts, Trigger
    from gandy.lifecycle.state.progress import RuleKey

Columns = tuple[ColumnElement[Any], ...]


@dataclass(frozen=True, slots=True)
class Child:
    """Rows of another table that refer to rows of this one, and how they are treated."""

    table: TableFacts
    columns: tuple[str, ...]
    parent_columns: tuple[str, ...]
    mode: ChildMode
    children: tuple[Child, ...] = ()
    set_null_columns: tuple[str, ...] = ()  # of set_null; () means all

    @property
    def nulled(self) -> tuple[str, ...]:
        """The columns that set_null sets to NULL."""
        return self.set_null_columns or self.columns

    @property
    def restorers(self) -> tuple[Trigger, ...]:
        """Triggers that may keep or restore a reference that is set to NULL."""
        if self.mode is not ChildMode.SET_NULL:
            return ()
        return self.table.standing.fired_by_update(self.nulled)


def cuts_own_rows(table: TableFacts, children: Iterable[Child]) -> bool:
    """Whether deleting rows sets references of other rows of their table to NULL, at any depth."""
    return any(
        child.table.name == table.name
        if child.mode is ChildMode.SET_NULL
        else cuts_own_rows(table, child.children)
        for child in children
    )


@dataclass(frozen=True, slots=True)
class Chain:
    """A table's reference to itself, read upwards, where a row waits until no other row refers to it."""

    table: TableFacts
    columns: tuple[str, ...]  # of the row that waits
    parent_columns: tuple[str, ...]  # of the row that refers to it


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Dead rows of one table at a fixed cutoff, as one sweep walks them."""

    table: TableFacts
    dead: ColumnElement[bool]
    order: Columns
    children: tuple[Child, ...] = ()
    is_guarded: bool = False  # depends on other rows: checked again once the rows are locked
    chains: tuple[Chain, ...] = ()

    @property
    def key(self) -> Columns:
        """The columns that identify a row."""
        return tuple(self.table.clause.c[column.name] for column in self.table.key)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgeWalk:
    """Rows that are dead once an instant in them is old enough."""

    key: RuleKey
    label: str
    rule: AgeRule
    table: TableFacts
    instant: str
    form: Form
    keep_for: timedelta
    equals: tuple[tuple[str, Scalar], ...] = ()  # what the first conditions pin
    conditions: Columns = ()
    guards: Columns = ()  # conditions that read other rows than the deleted row
    children: tuple[Child, ...] = ()
    chains: tuple[Chain, ...] = ()

    @property
    def shape(self) -> str:
        """The rule's selection, without its retention; a change invalidates the cursor."""
        key = ",".join(column.name for column in self.table.key)
        return f"{self.key.rule}|{self.form.kind}{self.form.separator}|{key}"

    @property
    def retention(self) -> int:
        """The retention to be confirmed, as a number that shrinks if more is deleted."""
        return self.keep_for // timedelta(milliseconds=1)

    @property
    def pinned(self) -> tuple[str, ...]:
        """The columns that the conditions pin to one value, which may lead an index."""
        return tuple(name for name, _ in self.equals)

    def frozen_at(self, now: datetime) -> Selection:
        """The rows that are dead at this instant."""
        columns = self.table.clause.c
        order = [columns[self.instant]]
        order += [columns[key.name] for key in self.table.key if key.name != self.instant]
        return Selection(
            table=self.table,
            dead=and_(
                is_before(columns[self.instant], self.form, now - self.keep_for),
                *self.conditions,
                *self.guards,
            ),
            order=tuple(order),
            children=self.children,
            is_guarded=bool(self.guards or self.children),
            chains=self.chains,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CapWalk:
    """Rows beyond the newest N of each key."""

    key: RuleKey
    label: str
    rule: Cap
    table: TableFacts
    conditions: Columns = ()
    guards: Columns = ()
    children: tuple[Child, ...] = ()
    chains: tuple[Chain, ...] = ()

    @property
    def shape(self) -> str:
        """The rule's selection, without the number of rows kept."""
        return self.key.rule

    @property
    def retention(self) -> int:
        """The rows kept per key."""
        return self.rule.rows

    @property
    def per(self) -> Columns:
        """The columns of the key."""
        return tuple(self.table.clause.c[name] for name in self.rule.per)

    @property
    def order(self) -> Columns:
        """From the oldest to the newest row of one key."""
        columns = self.table.clause.c
        rest = (columns[key.name] for key in self.table.key if key.name != self.rule.order_by)
        return (columns[self.rule.order_by], *rest)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionWalk:
    """Partitions whose every row is older than keep_for."""

    key: RuleKey
    label: str
    rule: DropPartition
    table: TableFacts
    form: Form
    keeps: tuple[Keep, ...] = ()  # values that keep their whole partition

    @property
    def shape(self) -> str:
        """The rule's selection."""
        return self.key.rule

    @property
    def retention(self) -> int:
        """The retention to be confirmed."""
        return self.rule.keep_for // timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class InlineWatch:
    """Rows that the application should have deleted by now."""

    key: RuleKey
    label: str
    rule: Inline
    table: TableFacts
    instant: str
    form: Form
    alarm_after: timedelta
    conditions: Columns = ()

    def overdue_at(self, now: datetime) -> Selection:
        """Return the rows that the application failed to delete."""
        columns = self.table.clause.c
        return Selection(
            table=self.table,
            dead=and_(is_before(columns[self.instant], self.form, now - self.alarm_after), *self.conditions),
            order=(columns[self.instant],),
        )


Walk = AgeWalk | CapWalk | PartitionWalk
