"""A first run, or a change that lets more rows go, asks a person before it removes most of a large table."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from sqlalchemy import ColumnElement, func, literal, select, true

from gandy.lifecycle.advisor.indexes import LARGE, IndexAdvisor
from gandy.lifecycle.contract.rules import Keep
from gandy.lifecycle.contract.tables import ChildMode
from gandy.lifecycle.driver.partitions import dead_partitions, rows_in
from gandy.lifecycle.selection.foresight import Gone, selected, taken_by
from gandy.lifecycle.selection.walks import CapWalk, Child, PartitionWalk, Walk
from gandy.lifecycle.supervisor.report import Held

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from gandy.lifecycle.contract.tables import Contract
    from gandy.lifecycle.database.facts import SchemaFacts, TableFacts, TableName
    from gandy.lifecycle.state.progress import RuleState

Confirm = Callable[[Held], bool]

# Up to here a table is counted; beyond, the planner's estimate is near enough for "more than half".
_COUNTED = 1_000_000
_LONGEST_COUNT = timedelta(seconds=10)


@dataclass(frozen=True, slots=True)
class Agreement:
    """What selects the rows of one walk, in the contract's own words: not its pace, not its prose."""

    selects: str
    retention: int
    holds: frozenset[str]
    waits: frozenset[str]
    takes: frozenset[str]

    @property
    def written(self) -> str:
        """The text that is remembered."""
        sets = {name: sorted(getattr(self, name)) for name in ("holds", "waits", "takes")}
        return json.dumps({"selects": self.selects, "retention": self.retention, **sets})

    @classmethod
    def read(cls, written: str) -> Agreement:
        """What `written` said."""
        said = json.loads(written)
        sets = {name: frozenset(said[name]) for name in ("holds", "waits", "takes")}
        return cls(selects=said["selects"], retention=said["retention"], **sets)

    def may_take_more_than(self, agreed: Agreement) -> bool:
        """Whether rows may go that did not before; a longer retention or one more hold takes less."""
        return (
            self.selects != agreed.selects
            or self.retention < agreed.retention
            or bool(agreed.holds - self.holds)
            or bool(agreed.waits - self.waits)
            or bool(self.takes - agreed.takes)
        )


def agreement_of(walk: Walk, contracts: Iterable[Contract], schema: SchemaFacts) -> Agreement:
    """What a person agrees to with this walk; holds of every contract count."""
    form = "" if isinstance(walk, CapWalk) else f"|{walk.form.kind.value}"
    children = () if isinstance(walk, PartitionWalk) else tuple(_descendants(walk.children))
    touched = {walk.table.name, *(child.table.name for child in children)}
    waits = () if isinstance(walk, PartitionWalk) else walk.rule.wait_for
    return Agreement(
        selects=f"{walk.key.rule}{form}",
        retention=walk.retention,
        holds=frozenset(_holds(contracts, schema, touched)),
        waits=frozenset(map(str, waits)),
        takes=frozenset(f"{child.table.name}.{','.join(child.columns)}" for child in children),
    )


def _descendants(children: Iterable[Child]) -> Iterator[Child]:
    """The children that go along, at any depth."""
    for child in children:
        if child.mode is not ChildMode.SET_NULL:
            yield child
            yield from _descendants(child.children)


def _holds(contracts: Iterable[Contract], schema: SchemaFacts, touched: set[TableName]) -> Iterator[str]:
    for contract in contracts:
        for table in contract.tables:
            facts = schema.find(table.name, table.schema)
            if facts is not None and facts.name in touched:
                keeps = (rule for rule in table.rules if isinstance(rule, Keep))
                yield from (f"{facts.name}.{keep.column}={keep.equals!r}" for keep in keeps)


def is_new(agreement: Agreement, state: RuleState | None) -> bool:
    """Whether the rule runs for the first time, or may take more than was agreed to."""
    if state is None or state.accepted is None:
        return True
    if state.agreed is None:  # agreed to under the first version, which remembered the retention alone
        return agreement.retention < state.accepted
    return agreement.may_take_more_than(Agreement.read(state.agreed))


@dataclass(frozen=True, slots=True)
class Confirmation:
    """Judges whether a walk needs a person's word."""

    advisor: IndexAdvisor

    def needed(self, walk: Walk, agreement: Agreement, state: RuleState | None) -> Held | None:
        """What a person would agree to; None where no question is needed."""
        if not is_new(agreement, state):
            return None
        try:
            with self.advisor.dialect.counting(self.advisor.connection, _LONGEST_COUNT):
                return self._judge(walk)
        except TimeoutError:
            return Held(table=walk.key.table, rule=walk.label, rows=LARGE + 1, of=LARGE + 1, is_counted=False)

    def _judge(self, walk: Walk) -> Held | None:
        """The table itself, then each table that rows go from along with its own."""
        total = self._total(walk.table)
        if total is not None and (dead := self._dead(walk, total)) * 2 > total:
            return Held(table=walk.key.table, rule=walk.label, rows=dead, of=total)
        if isinstance(walk, PartitionWalk):
            return None
        taken = taken_by(walk, selected(walk, self.advisor.now), Gone())
        for table, goes in taken.along().values():
            total = self._total(table)
            if total is not None and (dead := self._count(table, goes, total)) * 2 > total:
                return Held(table=str(table.name), rule=walk.label, rows=dead, of=total)
        return None

    def _total(self, table: TableFacts) -> int | None:
        """How many rows a large table holds; None for one that is not."""
        if self._count(table, true(), LARGE + 1) <= LARGE:
            return None
        estimate = self.advisor.dialect.estimated_rows(self.advisor.connection, table)
        if estimate is not None and estimate > _COUNTED:
            return estimate
        return self._count(table, true(), None)

    def _dead(self, walk: Walk, total: int) -> int:
        connection, now = self.advisor.connection, self.advisor.now
        if isinstance(walk, PartitionWalk):
            dialect = self.advisor.dialect
            dead = dead_partitions(connection, dialect, walk, now=now)
            return sum(rows_in(connection, walk, partition, dialect=dialect) for partition in dead)
        if isinstance(walk, CapWalk):
            taken = taken_by(walk, selected(walk, now), Gone())
            return int(connection.execute(taken.count).scalar_one())
        return self._count(walk.table, walk.frozen_at(now).dead, total)

    def _count(self, table: TableFacts, rows: ColumnElement[bool], most: int | None) -> int:
        some = select(literal(1)).select_from(table.clause).where(rows)
        if most is not None:
            some = some.limit(most if most <= _COUNTED else most // 2 + 1)
        counted = select(func.count()).select_from(some.subquery())
        return int(self.advisor.connection.execute(counted).scalar_one())
