"""What a rule was judged by: the tables as the catalogue described them, and the holds of other contracts.

Both may change while a sweep runs. Each batch looks again, in the statement that renews its lease: what was
made since the rule was judged is seen, and what is made later waits until the batch has ended.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import ColumnElement, and_, exists, false, or_

from gandy.lifecycle.contract.tables import ChildMode
from gandy.lifecycle.selection.statements import equal
from gandy.lifecycle.selection.walks import Child, PartitionWalk, Walk
from gandy.lifecycle.state.tables import HOLD

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from gandy.lifecycle.database.dialect import Dialect
    from gandy.lifecycle.database.facts import SchemaFacts, TableFacts, TableName
    from gandy.lifecycle.state.holds import Hold


class GroundsChangedError(Exception):
    """A table or a hold is not as it was when the rules were judged: they must be judged again."""


@dataclass(slots=True)
class Grounds:
    """What one rule relies on."""

    unchanged: ColumnElement[bool]
    emptied: tuple[TableName, ...] = ()  # tables that lose rows, children first
    have_changed: bool = False


def grounds_of(walk: Walk, schema: SchemaFacts, dialect: Dialect, *, holds: Iterable[Hold]) -> Grounds:
    """The grounds of one rule; a sweep that drops partitions changes its table itself."""
    no_new_hold = _no_hold_but(holds, walk.key.scheduler)
    if isinstance(walk, PartitionWalk):
        return Grounds(no_new_hold)
    tables = {table.name: schema.marks[table.name] for table in _read(walk, schema)}
    emptied = [*_emptied(walk.children), walk.table]
    may_lock = (table.name for table in emptied if table.standing.may_delete)
    return Grounds(and_(dialect.unchanged(tables), no_new_hold), tuple(dict.fromkeys(may_lock)))


def _read(walk: Walk, schema: SchemaFacts) -> Iterator[TableFacts]:
    """The tables whose rows decide, or go."""
    yield walk.table
    if isinstance(walk, PartitionWalk):
        return
    yield from _below(walk.children)
    for reference in walk.rule.wait_for:
        found = schema.find(reference.table, reference.schema or walk.table.name.schema)
        if found is not None:
            yield found


def _below(children: Iterable[Child]) -> Iterator[TableFacts]:
    for child in children:
        yield from _below(child.children)
        yield child.table


def _emptied(children: Iterable[Child]) -> Iterator[TableFacts]:
    for child in children:
        if child.mode is not ChildMode.SET_NULL:
            yield from _emptied(child.children)
            yield child.table


def _no_hold_but(known: Iterable[Hold], scheduler: str) -> ColumnElement[bool]:
    """Whether no other contract has recorded a hold that is not known; one that is gone does no harm."""
    columns = tuple(HOLD.c)
    recorded = (
        equal(columns, (hold.scheduler, hold.schema_name, hold.table_name, hold.column_name, hold.equals))
        for hold in known
    )
    return ~exists().where(HOLD.c.scheduler != scheduler, ~or_(false(), *recorded))
