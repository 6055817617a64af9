"""Shape one rule for one database: its rows, their order, and their dependent rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import ColumnElement, exists, literal, or_, select

from gandy.lifecycle.contract.rules import (
    Cap,
    DropPartition,
    Expires,
    Inline,
    OlderThan,
    RowRule,
    Rule,
    Singleton,
    StaleCursor,
    Terminal,
)
from gandy.lifecycle.contract.tables import keys_of, kind_of
from gandy.lifecycle.database.instants import InstantKind, is_strange_text
from gandy.lifecycle.selection.children import ColumnReader, Family, NotCoveredError, WrongFieldError
from gandy.lifecycle.selection.findings import Obstacle, Obstacles, ObstructedError, Severity
from gandy.lifecycle.selection.holds import Holds, any_held
from gandy.lifecycle.selection.walks import AgeWalk, CapWalk, Child, Columns, InlineWatch, PartitionWalk, Walk
from gandy.lifecycle.state.home import remembered_as
from gandy.lifecycle.state.progress import RuleKey

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import timedelta

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

    def walks(self, rule: RowRule) -> Iterator[Walk]:
        """Yield the walks of a rule that deletes rows: one walk, or one for each state."""
        if not self.facts.key:
            raise NotCoveredError("the table is partitioned and has no key that identifies its rows")
        match rule:
            case Expires():
                yield self._age(rule, instant=rule.column, keep_for=rule.grace)
            case OlderThan():
                yield self._age(rule, instant=rule.column, keep_for=rule.keep_for)
            case Terminal():
                yield from self._terminal(rule)
            case StaleCursor():
                unread = self._unread(rule)
                yield self._age(rule, instant=rule.column, keep_for=rule.keep_for, guards=(~unread,))
            case Cap():
                yield self._cap(rule)

    def _age(
        self,
        rule: Expires | OlderThan | Terminal | StaleCursor,
        *,
        instant: str,
        keep_for: timedelta,
        index: int = 0,
        more: Columns = (),
        guards: Columns = (),
    ) -> AgeWalk:
        children, surrounding = self._surroundings(rule)
        field = "at" if isinstance(rule, Terminal) else kind_of(rule)
        return AgeWalk(
            key=self._key(rule, index),
            label=self.resolved.label,
            rule=rule,
            table=self.facts,
            instant=instant,
            form=self.reader.form(field, instant, unit=rule.unit),
            keep_for=keep_for,
            equals=(rule.column,) if isinstance(rule, Terminal) else (),
            conditions=(*more, *self.holds.not_held(self.facts)),
            guards=(*guards, *surrounding),
            children=children,
        )

    def _terminal(self, rule: Terminal) -> Iterator[AgeWalk]:
        self.reader.find("terminal", rule.column)
        column = self.facts.clause.c[rule.column]
        for index, (state, keep_for) in enumerate(rule.keep_for):
            is_state = column == literal(state, column.type)
            yield self._age(rule, instant=rule.at, keep_for=keep_for, index=index, more=(is_state,))

    def _unread(self, rule: StaleCursor) -> ColumnElement[bool]:
        """Return a condition: the log still contains a row older than the cursor's progress."""
        log = self._log(rule)
        log_reader = ColumnReader(self.reader.connection, self.dialect, log)
        form = self.reader.form("stale_cursor", rule.column, unit=rule.unit)
        log_form = log_reader.form("log_at", rule.log_at, unit=rule.unit)
        is_known = InstantKind.UNKNOWN not in {log_form.kind, form.kind}
        if log_form != form and is_known and self.reader.holds(rule.column) and log_reader.holds(rule.log_at):
            raise WrongFieldError("log_at", f"stores instants in another form than {rule.column} does")
        at = log.clause.c[rule.log_at]
        older = select(1).where(at < self.facts.clause.c[rule.column])
        unread = exists(older.correlate(self.facts.clause))
        if log_form.kind is InstantKind.TEXT:  # no instant, no known age: it counts as unread
            strange = select(1).select_from(log.clause).where(is_strange_text(at, log_form))
            return or_(unread, exists(strange))
        if form.window is None:
            return unread
        # A number that is not an instant of the unit has no known age: it counts as unread.
        return or_(unread, exists(select(1).select_from(log.clause).where(form.window.above(at))))

    def _log(self, rule: StaleCursor) -> TableFacts:
        log = self.schema.find(rule.log, self.facts.name.schema)
        if log is None:
            raise WrongFieldError("log", f"there is no table {rule.log}")
        return log

    @property
    def obstacles(self) -> Obstacles:
        """The checks that may stop the rule."""
        return Obstacles(self.resolved, self.schema, self.facts)

    def _cap(self, rule: Cap) -> CapWalk:
        self.reader.find("order_by", rule.order_by)
        for name in rule.per:
            self.reader.find("per", name)
        children, surrounding = self._surroundings(rule)
        return CapWalk(
            key=self._key(rule),
            label=self.resolved.label,
            rule=rule,
            table=self.facts,
            conditions=tuple(self.holds.not_held(self.facts)),
            guards=surrounding,
            children=children,
        )

    def _surroundings(self, rule: RowRule) -> tuple[tuple[Child, ...], Columns]:
        """Return the children, and conditions on other rows that keep a row of any age."""
        family = Family(self.resolved.contract, self.schema, self.resolved.declared)
        waits = [family.nobody_refers(self.facts, reference) for reference in rule.wait_for]
        children = family.children(self.facts, rule.wait_for)
        read = [family.find(reference) for reference in rule.wait_for]
        read += [self._log(rule)] if isinstance(rule, StaleCursor) else []
        self.obstacles.judge(rule, children, read)
        return children, (*waits, *self.holds.none_held_below(self.facts, children))

    def partitions(self, rule: DropPartition) -> PartitionWalk:
        """Return the walk of a rule that drops partitions."""
        if not self.dialect.has_partitions:
            raise WrongFieldError("drop_partition", f"{self.dialect.name} has no partitions; use older_than")
        form = self.reader.form("drop_partition", rule.column, unit=rule.unit)
        if not self.facts.is_partitioned:
            raise WrongFieldError("drop_partition", "the table is not partitioned; use older_than")
        self._must_be_range(rule)
        referring = self.schema.referring_to(self.facts.name)
        for key in (key for key in referring if key.member is None):  # other keys block one partition only
            raise NotCoveredError(f"{key} refers to the table, so its partitions cannot be dropped")
        self.obstacles.judge_dropping()
        keeps = tuple(self.holds.keeps(self.facts))
        any_held(self.facts.clause, keeps)  # raises now if values cannot be compared, not in a batch
        return PartitionWalk(
            key=self._key(rule),
            label=self.resolved.label,
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
            raise ObstructedError([Obstacle(message, "Use older_than", field="drop_partition")])
        if layout.endless:
            names = ", ".join(map(str, layout.endless))
            message = f"rows in {names} stay: a partition without an upper bound is never dropped"
            self.resolved.note(Severity.WARNING, message, field="drop_partition")

    def watch(self, rule: Inline) -> InlineWatch | None:
        """Return the watch for rows that the application did not delete; None without an instant."""
        if rule.column is not None:
            self.reader.find("column", rule.column)
        if rule.at is None or rule.alarm_after is None:
            return None
        columns = self.facts.clause.c
        states = () if rule.column is None else (columns[rule.column].in_(rule.states),)
        return InlineWatch(
            key=self._key(rule),
            label=self.resolved.label,
            rule=rule,
            table=self.facts,
            instant=rule.at,
            form=self.reader.form("at", rule.at, unit=rule.unit),
            alarm_after=rule.alarm_after,
            conditions=(*states, *self.holds.not_held(self.facts)),
        )

    def check_singleton(self, rule: Singleton) -> None:
        """Check that the constraint that bounds the table exists."""
        self.reader.find("singleton", rule.column)
        if not self.facts.is_unique_on((rule.column,)):
            message = (
                f"no primary key or unique constraint covers {rule.column} alone: nothing bounds the table"
            )
            raise WrongFieldError("singleton", message)
        if self.dialect.is_checked_singleton(self.reader.connection, self.facts, rule.column):
            return
        found = self.reader.connection.execute(select(self.facts.clause.c[rule.column]).limit(2)).all()
        if len(found) > 1:
            self.resolved.note(Severity.WARNING, "the table holds more than one row", field="singleton")

    def _key(self, rule: Rule, index: int = 0) -> RuleKey:
        contract, declared = self.resolved.contract, self.resolved.declared
        scheduler = remembered_as(contract, self.schema.default_schema, self.schema.state_schema)
        return RuleKey(scheduler, declared.label, keys_of(rule)[index])
