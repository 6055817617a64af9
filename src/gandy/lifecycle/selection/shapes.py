"""Shape one rule for one database: its rows, their order, and their dependent rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, assert_never

from sqlalchemy import ColumnElement, exists, literal, or_, select

from gandy.lifecycle.contract.base import AgeRule, RowRule
from gandy.lifecycle.contract.rules import Cap, DropPartition, Inline, Keep, Rule, Singleton, StaleCursor
from gandy.lifecycle.database.instants import InstantKind, is_strange_text
from gandy.lifecycle.selection.children import (
    ColumnReader,
    Family,
    NotCoveredError,
    UnjudgedError,
    WrongFieldError,
    must_be_identifiable,
)
from gandy.lifecycle.selection.findings import Obstacle, Obstacles, ObstructedError, Severity
from gandy.lifecycle.selection.holds import Holds, any_held, is_held
from gandy.lifecycle.selection.walks import (
    AgeWalk,
    CapWalk,
    Chain,
    Child,
    Columns,
    InlineWatch,
    PartitionWalk,
)
from gandy.lifecycle.state.home import remembered_as
from gandy.lifecycle.state.progress import RuleKey

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gandy.lifecycle.contract.base import Age
    from gandy.lifecycle.contract.tables import Contract
    from gandy.lifecycle.database.dialect import Dialect
    from gandy.lifecycle.database.facts import SchemaFacts, TableFacts
    from gandy.lifecycle.selection.resolve import Resolved


@dataclass(frozen=True, slots=True)
class RuleShaper:
    """One rule of one table."""

    resolved: Resolved
    schema: SchemaFacts
    reader: ColumnReader
    contracts: tuple[Contract, ...]  # all contracts of this database: each may hold rows

    @property
    def facts(self) -> TableFacts:
        """The rule's table."""
        return self.reader.facts

    @property
    def dialect(self) -> Dialect:
        """The kind of database."""
        return self.reader.dialect

    @property
    def holds(self) -> Holds:
        """The holds of every contract of the database."""
        return Holds(self.contracts, self.schema)

    def shape(self, rule: Rule) -> None:
        """Add what the rule does in this database: its walks, its watch, or a finding."""
        if isinstance(rule, RowRule):
            must_be_identifiable(self.facts)
        if rule.deletes:
            self._must_be_bounded_once()
        match rule:
            case StaleCursor():
                unread = self._unread(rule)
                self.resolved.walks = tuple(self._ages(rule, guards=(~unread,)))
            case AgeRule():
                self.resolved.walks = tuple(self._ages(rule))
            case Cap():
                self.resolved.walks = (self._cap(rule),)
            case DropPartition():
                self.resolved.walks = (self._partitions(rule),)
            case Inline():
                self.resolved.watch = self._watch(rule)
            case Singleton():
                self._check_singleton(rule)
            case Keep():
                self._check_hold(rule)
            case _:
                assert_never(rule)

    def _must_be_bounded_once(self) -> None:
        """Refuse rules of a partition whose table has rules as well: both would take the same rows."""
        lineage = self.schema.lineage
        if self.facts.name not in lineage.partitions:
            return
        above = set(lineage.ancestors(self.facts.name))
        for contract in self.contracts:
            for declared in contract.tables:
                roots = above.intersection(self.schema.meant(declared.name, declared.schema))
                if roots and not declared.only_keeps:
                    raise UnjudgedError(
                        "name",
                        f"is a partition of {roots.pop()}, which the contract {contract.name} bounds; "
                        "put its rules there",
                    )

    def _ages(self, rule: AgeRule, guards: Columns = ()) -> Iterator[AgeWalk]:
        """Yield a walk for each age of the rule."""
        for key, age in zip(rule.keys, rule.ages, strict=True):
            more = tuple(self._equals(rule, age))
            children, surrounding = self._surroundings(rule)
            yield AgeWalk(
                key=self._key(key),
                label=rule.label,
                rule=rule,
                table=self.facts,
                instant=age.instant,
                form=self.reader.form(age.field, age.instant, unit=rule.unit),
                keep_for=age.keep_for,
                equals=age.equals,
                conditions=(*more, *self.holds.not_held(self.facts)),
                guards=(*guards, *surrounding),
                children=children,
                chains=self._chains(rule),
            )

    def _equals(self, rule: AgeRule, age: Age) -> Iterator[ColumnElement[bool]]:
        for name, value in age.equals:
            self.reader.find_compared(rule.kind, name)
            column = self.facts.clause.c[name]
            yield column == literal(value, column.type)

    def _unread(self, rule: StaleCursor) -> ColumnElement[bool]:
        """Return a condition: the log still contains a row older than the cursor's progress."""
        log = self.schema.find(rule.log, self.facts.name.schema)
        if log is None:
            raise WrongFieldError("log", f"there is no table {rule.log}")
        self.obstacles.judge_log(log)
        log_reader = ColumnReader(self.reader.connection, self.dialect, log)
        form = self.reader.form(rule.kind, rule.column, unit=rule.unit)
        log_form = log_reader.form("log_at", rule.log_at, unit=rule.unit)
        is_known = InstantKind.UNKNOWN not in {log_form.kind, form.kind}
        if log_form != form and is_known and self.reader.holds(rule.column) and log_reader.holds(rule.log_at):
            raise WrongFieldError("log_at", f"stores instants in another form than {rule.column} does")
        at = log.clause.c[rule.log_at]
        older = select(1).where(at < self.facts.clause.c[rule.column])
        unread = exists(older.correlate(self.facts.clause))
        # What is no instant has no known age, and counts as unread: NULL, strange texts, numbers of no unit.
        ageless: list[ColumnElement[bool]] = [at.is_(None)] if log.columns[rule.log_at].is_nullable else []
        if log_form.kind is InstantKind.TEXT:
            ageless.append(is_strange_text(at, log_form))
        elif form.window is not None:
            ageless.append(form.window.above(at))
        rows = select(1).select_from(log.clause)
        return or_(unread, *(exists(rows.where(condition)) for condition in ageless))

    @property
    def obstacles(self) -> Obstacles:
        """The checks that may stop the rule."""
        return Obstacles(self.resolved, self.schema, self.facts)

    def _cap(self, rule: Cap) -> CapWalk:
        self.reader.find_compared("order_by", rule.order_by)
        for name in rule.per:
            self.reader.find_compared("per", name)
        children, surrounding = self._surroundings(rule)
        return CapWalk(
            key=self._key(rule.keys[0]),
            label=rule.label,
            rule=rule,
            table=self.facts,
            conditions=tuple(self.holds.not_held(self.facts)),
            guards=surrounding,
            children=children,
            chains=self._chains(rule),
        )

    def _chains(self, rule: RowRule) -> tuple[Chain, ...]:
        family = Family(self.resolved.contract, self.schema, self.resolved.declared)
        return tuple(family.chains(self.facts, rule.wait_for))

    def _surroundings(self, rule: RowRule) -> tuple[tuple[Child, ...], Columns]:
        """Return the children, and conditions on other rows that keep a row of any age."""
        family = Family(self.resolved.contract, self.schema, self.resolved.declared)
        waits = [family.is_unreferenced(self.facts, reference) for reference in rule.wait_for]
        children = family.children(self.facts, rule.wait_for)
        read = [family.find(reference) for reference in rule.reads]
        self.obstacles.judge(rule, children, read)
        return children, (*waits, *self.holds.none_held_below(self.facts, children))

    def _partitions(self, rule: DropPartition) -> PartitionWalk:
        """Return the walk of a rule that drops partitions."""
        if not self.dialect.has_partitions:
            raise WrongFieldError(rule.kind, f"{self.dialect.name} has no partitions; use older_than")
        form = self.reader.form(rule.kind, rule.column, unit=rule.unit)
        if not self.facts.is_partitioned:
            raise WrongFieldError(rule.kind, "the table is not partitioned; use older_than")
        self._must_be_range(rule)
        referring = self.schema.referring_to(self.facts.name)
        for key in (key for key in referring if key.member is None):  # other keys block one partition only
            raise NotCoveredError(f"{key} refers to the table, so its partitions cannot be dropped")
        self.obstacles.judge_dropping()
        keeps = tuple(self.holds.keeps(self.facts))
        any_held(self.facts.clause, keeps)  # raises now if values cannot be compared, not in a batch
        return PartitionWalk(
            key=self._key(rule.keys[0]),
            label=rule.label,
            rule=rule,
            table=self.facts,
            form=form,
            keeps=keeps,
        )

    def _must_be_range(self, rule: DropPartition) -> None:
        """Require RANGE partitions by the column: only an upper bound proves that all rows are old."""
        layout = self.dialect.layout(self.reader.connection, self.facts)
        if layout.column != rule.column:
            message = (
                f"the table is partitioned by {layout.key}, and drop_partition judges only partitions "
                f"BY RANGE ({rule.column}), each by the value of {rule.column} that it ends at"
            )
            raise ObstructedError([Obstacle(message, "Use older_than", field=rule.kind)])
        if layout.endless:
            names = ", ".join(map(str, layout.endless))
            message = f"rows in {names} stay: a partition without an upper bound is never dropped"
            self.resolved.note(Severity.WARNING, message, field=rule.kind)

    def _watch(self, rule: Inline) -> InlineWatch | None:
        """Return the watch for rows that the application did not delete; None without an instant."""
        if rule.column is not None:
            self.reader.find("column", rule.column)
        if rule.at is None or rule.alarm_after is None:
            return None
        columns = self.facts.clause.c
        states = () if rule.column is None else (columns[rule.column].in_(rule.states),)
        return InlineWatch(
            key=self._key(rule.keys[0]),
            label=rule.label,
            rule=rule,
            table=self.facts,
            instant=rule.at,
            form=self.reader.form("at", rule.at, unit=rule.unit),
            alarm_after=rule.alarm_after,
            conditions=(*states, *self.holds.not_held(self.facts)),
        )

    def _check_singleton(self, rule: Singleton) -> None:
        """Check that the constraint that bounds the table exists."""
        self.reader.find(rule.kind, rule.column)
        if not self.facts.is_unique_on((rule.column,)):
            message = (
                f"no primary key or unique constraint covers {rule.column} alone: nothing bounds the table"
            )
            raise WrongFieldError(rule.kind, message)
        if self.dialect.is_checked_singleton(self.reader.connection, self.facts, rule.column):
            return
        found = self.reader.connection.execute(select(self.facts.clause.c[rule.column]).limit(2)).all()
        if len(found) > 1:
            self.resolved.note(Severity.WARNING, "the table holds more than one row", field=rule.kind)

    def _check_hold(self, rule: Keep) -> None:
        """Check that the column exists and that its values can be compared."""
        self.reader.find(rule.kind, rule.column)
        is_held(self.facts.clause, rule)

    def _key(self, key: str) -> RuleKey:
        contract, declared = self.resolved.contract, self.resolved.declared
        scheduler = remembered_as(contract, self.schema.default_schema, self.schema.state_schema)
        return RuleKey(scheduler, declared.label, key)
