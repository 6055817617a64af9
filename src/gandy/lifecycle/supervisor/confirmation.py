"""Ask for confirmation before a new or wider rule deletes most of a large table."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from sqlalchemy import ColumnElement, Connection, func, literal, or_, select, true
from sqlalchemy.exc import DBAPIError

from gandy.lifecycle.advisor.indexes import LARGE, IndexAdvisor
from gandy.lifecycle.contract.tables import ChildMode
from gandy.lifecycle.database.dialect import Dialect, DriverFailure
from gandy.lifecycle.database.facts import reflect
from gandy.lifecycle.database.failures import is_interrupted
from gandy.lifecycle.database.instants import InstantKind
from gandy.lifecycle.driver.partitions import count_rows, dead_partitions
from gandy.lifecycle.selection.foresight import Gone, selected, taken_by
from gandy.lifecycle.selection.resolve import resolve, tables_of, with_null_keys
from gandy.lifecycle.selection.walks import CapWalk, Child, PartitionWalk, Walk
from gandy.lifecycle.state.holds import REMEMBERED
from gandy.lifecycle.supervisor.report import Held

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from gandy.lifecycle.advisor.survey import Survey
    from gandy.lifecycle.contract.tables import Contract
    from gandy.lifecycle.database.facts import SchemaFacts, TableFacts, TableName
    from gandy.lifecycle.selection.resolve import Resolved
    from gandy.lifecycle.state.progress import RuleKey, RuleState

Confirm = Callable[[Held], bool]

_LONGEST_COUNT = timedelta(seconds=10)


@dataclass(frozen=True, slots=True)
class Agreement:
    """The selection of one walk as the contract declares it, without pace and documentation."""

    selects: str
    retention: int
    holds: frozenset[str]
    waits: frozenset[str]
    takes: frozenset[str]

    @property
    def written(self) -> str:
        """The stored text."""
        sets = {name: sorted(getattr(self, name)) for name in ("holds", "waits", "takes")}
        return json.dumps({"selects": self.selects, "retention": self.retention, **sets})

    @classmethod
    def read(cls, written: str) -> Agreement:
        """Parse the output of `written`."""
        said = json.loads(written)
        sets = {name: frozenset(said[name]) for name in ("holds", "waits", "takes")}
        return cls(selects=said["selects"], retention=said["retention"], **sets)

    def may_take_more_than(self, agreed: Agreement) -> bool:
        """Whether it may delete more rows than before; a longer retention or one more hold deletes fewer."""
        return (
            self.selects != agreed.selects
            or self.retention < agreed.retention
            or bool(agreed.holds - self.holds)
            or bool(agreed.waits - self.waits)
            or bool(self.takes - agreed.takes)
        )


def agreement_of(walk: Walk, contracts: Iterable[Contract], schema: SchemaFacts) -> Agreement:
    """Return the agreement for this walk; the holds of every contract apply."""
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
    """Yield the children that are deleted too, at any depth."""
    for child in children:
        if child.mode is not ChildMode.SET_NULL:
            yield child
            yield from _descendants(child.children)


def _holds(contracts: Iterable[Contract], schema: SchemaFacts, touched: set[TableName]) -> Iterator[str]:
    for contract in contracts:
        for table in contract.tables:
            facts = schema.find(table.name, table.schema)
            if facts is not None and facts.name in touched:
                yield from (f"{facts.name}.{keep.column}={keep.equals!r}" for keep in table.keeps)


def is_new(agreement: Agreement, state: RuleState | None) -> bool:
    """Whether the rule runs for the first time, or may delete more than was confirmed."""
    if state is None or state.accepted is None:
        return True
    if state.agreed is None:  # confirmed under the first version, which stored only the retention
        return agreement.retention < state.accepted
    return agreement.may_take_more_than(Agreement.read(state.agreed))


@dataclass(frozen=True, slots=True, eq=False)
class Share:
    """The rows that one walk would delete from one table."""

    table: TableFacts
    rows: int
    condition: ColumnElement[bool] | None = None  # None if no single condition selects the rows


class Confirmation:
    """Decides whether a walk needs a confirmation, by the rows that all rules together would delete."""

    def __init__(self, advisor: IndexAdvisor, walks: Sequence[Walk]) -> None:
        self._advisor = advisor
        self._walks = walks  # of every rule of the database
        self._shares: dict[RuleKey, list[Share]] = {}

    def needed(self, walk: Walk, agreement: Agreement, state: RuleState | None) -> Held | None:
        """Return what needs confirmation; None if nothing does."""
        if not is_new(agreement, state):
            return None
        advisor = self._advisor
        try:
            with advisor.dialect.counting(advisor.connection, _LONGEST_COUNT):
                return self._judge(walk)
        except TimeoutError:
            return Held(table=walk.key.table, rule=walk.label, rows=LARGE + 1, of=LARGE + 1, is_counted=False)

    def _judge(self, walk: Walk) -> Held | None:
        """Judge the table itself, then each table that loses dependent rows."""
        for mine in self._taken(walk):
            if not mine.rows:
                continue
            together = [mine, *self._beside(walk, mine.table.name)]
            found = self._most_of(mine.table, together)
            if found is not None:
                dead, total = found
                is_own = mine.table.name == walk.table.name
                table = walk.key.table if is_own else str(mine.table.name)
                return Held(table=table, rule=walk.label, rows=dead, of=total, is_shared=dead > mine.rows)
        return None

    def _beside(self, walk: Walk, table: TableName) -> Iterator[Share]:
        """Yield the shares of the other rules in the table."""
        others = (other for other in self._walks if other.key != walk.key)
        for other in others:
            yield from (share for share in self._taken_by_other(other) if share.table.name == table)

    def _taken_by_other(self, walk: Walk) -> list[Share]:
        """Return no shares for a rule whose query fails: the rule itself fails with the same error."""
        try:
            with self._advisor.connection.begin_nested():
                return self._taken(walk)
        except DBAPIError as error:
            if self._advisor.dialect.failure(error) is DriverFailure.CONTENDED or is_interrupted(error):
                raise  # a slow count needs confirmation
            return self._shares.setdefault(walk.key, [])

    def _most_of(self, table: TableFacts, shares: Sequence[Share]) -> tuple[int, int] | None:
        """Return dead and total rows if more than half of a large table would be deleted."""
        dead = sum(share.rows for share in shares)
        total = self._total(table, dead)
        if total is None:
            return None
        dead = min(dead, self._once(table, shares))  # a row that two rules select counts once
        return (dead, total) if dead * 2 > total else None

    def _total(self, table: TableFacts, dead: int) -> int | None:
        """Count the rows of a large table; None if it is small, or has at least twice as many as are dead."""
        most = 2 * dead
        if most <= LARGE:
            return None
        total = self._count(table, true(), most)
        return total if LARGE < total < most else None

    def _once(self, table: TableFacts, shares: Sequence[Share]) -> int:
        told = [share for share in shares if share.condition is not None and share.table is table]
        others = sum(share.rows for share in shares if share not in told)
        if len(told) < 2:  # noqa: PLR2004  # a single rule selects each row once
            return others + sum(share.rows for share in told)
        return others + self._count(
            table, or_(*(share.condition for share in told if share.condition is not None))
        )

    def _taken(self, walk: Walk) -> list[Share]:
        if walk.key not in self._shares:
            self._shares[walk.key] = list(self._counted(walk))
        return self._shares[walk.key]

    def _counted(self, walk: Walk) -> Iterator[Share]:
        advisor = self._advisor
        if isinstance(walk, PartitionWalk):
            connection, dialect = advisor.connection, advisor.dialect
            dead = dead_partitions(connection, dialect, walk, now=advisor.now)
            counts = (count_rows(connection, walk, partition, dialect=dialect) for partition in dead)
            yield Share(walk.table, sum(counts))
            return
        selection = selected(walk, advisor.now)
        taken = taken_by(walk, selection, Gone())
        if isinstance(walk, CapWalk):
            yield Share(walk.table, int(advisor.connection.execute(taken.count).scalar_one()))
        else:
            yield Share(walk.table, self._count(walk.table, selection.dead), selection.dead)
        for table, goes in taken.along().values():
            yield Share(table, self._count(table, goes), goes)

    def _count(self, table: TableFacts, rows: ColumnElement[bool], most: int | None = None) -> int:
        some = select(literal(1)).select_from(table.clause).where(rows)
        some = some if most is None else some.limit(most)
        counted = select(func.count()).select_from(some.subquery())
        return int(self._advisor.connection.execute(counted).scalar_one())


def all_walks(connection: Connection, seen: Survey, dialect: Dialect) -> list[Walk]:
    """Return the walks of every contract of the database."""
    rules = list(seen.rules)
    for contract in seen.contracts:
        if contract.name != seen.contract.name and contract.source != REMEMBERED:
            # A contract that cannot be read here cannot run either.
            with suppress(DBAPIError), connection.begin_nested():
                rules += _rules_of(contract, connection, seen, dialect=dialect)
    return [walk for rule in rules if not rule.is_refused for walk in rule.walks if not is_waiting(walk)]


def _rules_of(
    contract: Contract, connection: Connection, seen: Survey, *, dialect: Dialect
) -> list[Resolved]:
    schema = with_null_keys(connection, dialect, reflect(connection, dialect, tables_of(contract)))
    return resolve(contract, connection, dialect=dialect, schema=schema, contracts=seen.contracts)


def is_waiting(walk: Walk) -> bool:
    """Whether the unit of the rule's numbers is unknown: nothing is deleted, and the agreement stays."""
    return not isinstance(walk, CapWalk) and walk.form.kind is InstantKind.UNKNOWN
