"""Findings about a rule, and obstacles that stop it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from gandy.errors import ContractProblem
from gandy.lifecycle.contract.names import quoted
from gandy.lifecycle.contract.tables import ChildMode

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from gandy.lifecycle.contract.base import RowRule
    from gandy.lifecycle.database.facts import SchemaFacts, TableFacts, TableName, Trigger
    from gandy.lifecycle.selection.resolve import Resolved
    from gandy.lifecycle.selection.walks import Child


class Severity(StrEnum):
    """How bad a finding is."""

    WRONG = "wrong"  # the contract does not fit the database: nothing of it should run
    REFUSED = "refused"  # this rule may not delete; the others may
    WARNING = "warning"
    INFORMATION = "information"

    @property
    def stops(self) -> bool:
        """Whether the rule may not delete."""
        return self in {Severity.WRONG, Severity.REFUSED}


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleFinding:
    """One finding, its location, and its remedy."""

    severity: Severity
    scheduler: str
    table: str
    rule: str
    message: str
    field: str = ""
    remedy: str = ""

    def __str__(self) -> str:
        where = ": ".join(part for part in (f"table {self.table}", self.rule, self.field) if part)
        remedy = f". {self.remedy}" if self.remedy else ""
        return f"{self.scheduler}: {where}: {self.message}{remedy}"

    def as_problem(self, source: str) -> ContractProblem:
        """Convert the finding to a problem of the contract."""
        remedy = f". {self.remedy}" if self.remedy else ""
        return ContractProblem(
            source=source,
            table=self.table,
            rule=self.rule,
            field=self.field,
            message=self.message + remedy,
        )


@dataclass(frozen=True, slots=True)
class Obstacle:
    """A reason that stops a rule, and its remedy."""

    message: str
    remedy: str
    field: str = ""


class ObstructedError(ValueError):
    """All obstacles that stop the rule."""

    def __init__(self, obstacles: Sequence[Obstacle]) -> None:
        super().__init__("; ".join(obstacle.message for obstacle in obstacles))
        self.obstacles = tuple(obstacles)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Need:
    """The access that a rule needs to one table, besides reading."""

    table: TableFacts
    deletes: bool = False
    locks: bool = False
    nulls: tuple[str, ...] = ()

    @property
    def changes(self) -> frozenset[str]:
        """The statements that change rows."""
        return frozenset({"DELETE"} if self.deletes else {"UPDATE"} if self.nulls else ())


@dataclass(frozen=True, slots=True)
class Obstacles:
    """Checks the needs of one rule against the catalogue."""

    resolved: Resolved
    schema: SchemaFacts
    target: TableFacts

    def judge_reading(self) -> None:
        """Raise an error if the role has no access to the rule's table, or if it is one of Gandy's own."""
        _raise_if_any([*self._foreign_to_contracts(self.target), *_missing(_Need(table=self.target))])

    def judge_log(self, log: TableFacts) -> None:
        """Raise an error if the role cannot read the log: its values are sampled before `judge`."""
        _raise_if_any(list(_missing(_Need(table=log))))

    def judge_dropping(self) -> None:
        """Raise an error if the role may not drop partitions, or if a drop would pass over a trigger."""
        passed_over = self._unlisted([self.target], happens="does not fire when a partition is dropped")
        _raise_if_any([*self._elsewhere(self.target), *passed_over])
        if self.target.standing.owns:
            return
        role, name = self.target.standing.role, self.target.name
        message = f"the role {role} does not own {name} and all its partitions, so it may drop none"
        raise ObstructedError(
            [Obstacle(message, f"Run: ALTER TABLE {_sql(name)} OWNER TO {quoted(role)}, partitions too")]
        )

    def judge(self, rule: RowRule, children: Sequence[Child], read: Sequence[TableFacts]) -> None:
        """Raise an error if the rule lacks privileges or its effects are not foreseeable; note triggers."""
        needs = list(self._needs(rule, children, read))
        found = [obstacle for need in needs for obstacle in _missing(need)]
        found += [
            obstacle
            for need in needs
            if need.table is not self.target and (need.deletes or need.nulls)
            for obstacle in self._foreign_to_contracts(need.table)
        ]
        changed = [need.table for need in needs if need.deletes or need.nulls]
        found += [obstacle for table in changed for obstacle in self._elsewhere(table)]
        found += self._inherited(needs[0])
        found += self._unlisted(need.table for need in needs if need.deletes)
        found += self._restoring(children)
        _raise_if_any(list(dict.fromkeys(found)))

    def _needs(self, rule: RowRule, children: Sequence[Child], read: Sequence[TableFacts]) -> Iterator[_Need]:
        locks = bool(children or rule.wait_for) or rule.reads_other_rows or self.target.may_keep_rows
        yield _Need(table=self.target, deletes=True, locks=locks)
        for child in _each(children):
            if child.mode is ChildMode.SET_NULL:
                yield _Need(table=child.table, nulls=child.nulled)
            else:
                yield _Need(table=child.table, deletes=True, locks=True)
        yield from (_Need(table=table) for table in read)

    def _foreign_to_contracts(self, table: TableFacts) -> Iterator[Obstacle]:
        if table.name in self.schema.own_tables:
            message = f"{table.name} is a table of Gandy itself, which bounds its own tables"
            yield Obstacle(message, "Remove it from the contract", field="name")

    def _elsewhere(self, table: TableFacts) -> Iterator[Obstacle]:
        """Refuse foreign tables: their keys, triggers and holds are not in this catalogue."""
        for foreign in self.schema.lineage.elsewhere(table.name):
            message = f"rows of {foreign}, a foreign table below {table.name}, are kept by another server"
            remedy = "Detach it (or let it no longer inherit), and give it rules where its rows are"
            yield Obstacle(f"{message}, where keys, triggers and holds cannot be seen", remedy, field="name")

    def _inherited(self, need: _Need) -> Iterator[Obstacle]:
        """Refuse inheriting tables: the parent's key does not identify their rows."""
        if need.locks and need.table.inheritors:
            heirs = ", ".join(map(str, need.table.inheritors))
            message = (
                f"rows of {heirs}, which inherit from {need.table.name}, are included, and no key identifies"
            )
            yield Obstacle(f"{message} them", "Give each of these tables rules of its own", field="name")

    def _unlisted(
        self, tables: Iterable[TableFacts], *, happens: str = "fires when rows of it are deleted"
    ) -> Iterator[Obstacle]:
        for table in tables:
            for trigger in table.standing.delete_triggers:
                name = self._spelled(table, trigger)
                if name not in self.resolved.triggers:
                    self.resolved.triggers.append(name)
                message = f"the trigger {trigger.name} of {trigger.table} {happens}"
                self.resolved.note(Severity.INFORMATION, message, field="triggers")
                if not self._spellings(table, trigger).intersection(self.resolved.declared.triggers):
                    remedy = f'Check what it does, then add it to the table: triggers = ["{name}"]'
                    yield Obstacle(f"{message}, and the contract does not list it", remedy, field="triggers")

    def _restoring(self, children: Sequence[Child]) -> Iterator[Obstacle]:
        """Note triggers that fire when references are set to NULL; refuse a rule that replaces the update."""
        for child in _each(children):
            for trigger in child.restorers:
                name = self._spelled(child.table, trigger)
                if name not in self.resolved.triggers:
                    self.resolved.triggers.append(name)
                message = f"{trigger.name} of {trigger.table} fires when its references are set to NULL"
                if trigger.is_instead:
                    remedy = "Write it as a trigger, or use wait_for or delete_first for these rows"
                    yield Obstacle(f"the rule {message}, and replaces the update", remedy, field="children")
                else:
                    self.resolved.note(Severity.INFORMATION, f"the trigger {message}", field="triggers")

    def _spelled(self, table: TableFacts, trigger: Trigger) -> str:
        """Return the shortest name of the trigger in a contract."""
        if table is self.target:
            return trigger.name
        home = trigger.table.schema == self.target.name.schema
        return f"{trigger.table.name if home else trigger.table}.{trigger.name}"

    def _spellings(self, table: TableFacts, trigger: Trigger) -> set[str]:
        """Return every accepted name: bare for the rule's own table, or with its table or root table."""
        names = {str(trigger)}
        for owner in (trigger.table, table.name):
            names.add(f"{owner}.{trigger.name}")
            if owner.schema == self.target.name.schema:
                names.add(f"{owner.name}.{trigger.name}")
        return names | {trigger.name} if table is self.target else names


def unknown_triggers(resolved: Resolved, schema: SchemaFacts) -> Iterator[str]:
    """Yield listed triggers that exist on no table that concerns the contract."""
    known = {trigger.name for facts in schema.tables.values() for trigger in facts.standing.delete_triggers}
    known |= {name.rpartition(".")[2] for name in resolved.triggers}
    for name in resolved.declared.triggers:
        if not any(name == each or name.endswith(f".{each}") for each in known):
            yield name


def _raise_if_any(obstacles: Sequence[Obstacle]) -> None:
    if obstacles:
        raise ObstructedError(obstacles)


def _missing(need: _Need) -> Iterator[Obstacle]:
    standing, name = need.table.standing, need.table.name
    role = quoted(standing.role)
    if not standing.may_enter:
        message = f"the role {standing.role} may not use the schema {name.schema} of {name}"
        yield Obstacle(message, f"Run: GRANT USAGE ON SCHEMA {quoted(str(name.schema))} TO {role}")
    rights = ", ".join(_missing_rights(need))
    if rights:
        message = f"the role {standing.role} lacks {rights} on {name}"
        yield Obstacle(message, f"Run: GRANT {rights} ON {_sql(name)} TO {role}")
    if need.changes & standing.untold:
        verbs = " and ".join(sorted(need.changes & standing.untold))
        message = f"{name} publishes each {verbs}, and has no replica identity, so PostgreSQL refuses them"
        yield Obstacle(
            message, f"Give it a primary key, or run: ALTER TABLE {_sql(name)} REPLICA IDENTITY FULL"
        )
    if need.changes and standing.is_silent:
        message = "this session has session_replication_role = replica, which disables keys and triggers"
        yield Obstacle(message, f"Run: ALTER ROLE {role} SET session_replication_role = origin")
    if standing.has_row_security:
        message = f"row level security of {name} is active for the role {standing.role} and may hide rows"
        yield Obstacle(message, f"Run: ALTER ROLE {role} BYPASSRLS, or sweep as a role that sees every row")


def _missing_rights(need: _Need) -> Iterator[str]:
    standing, columns = need.table.standing, set(need.table.columns)
    if standing.unreadable:
        yield "SELECT"
    if need.deletes and not standing.may_delete:
        yield "DELETE"
    is_locked_out = need.locks and columns <= standing.unwritable  # one column is enough for FOR UPDATE
    if is_locked_out or standing.unwritable.intersection(need.nulls):
        yield "UPDATE"


def _each(children: Sequence[Child]) -> Iterator[Child]:
    for child in children:
        yield child
        yield from _each(child.children)


def _sql(name: TableName) -> str:
    return ".".join(quoted(part) for part in (name.schema, name.name) if part is not None)
