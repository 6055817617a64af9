"""The one set of our own tables that a database has, wherever it is, and what keeps a role from using it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from gandy.lifecycle.contract.rules import quoted
from gandy.lifecycle.database.state_sight import SETTING, StateObstacle, StateSight, StateTable
from gandy.lifecycle.state.tables import HOLD, OWN_TABLES, RULE, STATE_TABLES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from sqlalchemy import Table

    from gandy.lifecycle.contract.tables import Contract

EVERY_PRIVILEGE = ("SELECT", "INSERT", "UPDATE", "DELETE")
_LATER = {(RULE.name, "agreed")}  # columns that the first version did not make
#: What tells our own tables from an application's of the same name.
_COLUMNS = {
    table.name: {column.name for column in table.columns if (table.name, column.name) not in _LATER}
    for table in STATE_TABLES
}


@dataclass(frozen=True)
class StateHome:
    """Where the state is, out of all tables that have the names of ours."""

    sight: StateSight

    @cached_property
    def schemas(self) -> tuple[str, ...]:
        """Each schema that holds a table of ours; more than one only where an older version made them."""
        return tuple(sorted({table.schema for table in self.sight.tables if _is_ours(table)}))

    @property
    def place(self) -> str | None:
        """Where the state is, or where it is to be made."""
        return self.schema or self.sight.named_schema or self.sight.default_schema

    @property
    def schema(self) -> str | None:
        """The schema of the state; None where there is none, or no single one."""
        return self.schemas[0] if len(self.schemas) == 1 else None

    @property
    def is_complete(self) -> bool:
        """Whether every table is there with every column."""
        made = {table.name: table.columns for table in self.tables}
        return all(
            {column.name for column in table.columns} <= made.get(table.name, frozenset())
            for table in STATE_TABLES
        )

    @cached_property
    def tables(self) -> tuple[StateTable, ...]:
        """Our own tables."""
        mine = (table for table in self.sight.tables if table.schema == self.schema)
        return tuple(table for table in mine if _is_ours(table))

    def find(self, name: str) -> StateTable | None:
        """The one of this name, if it is there."""
        return next((table for table in self.tables if table.name == name), None)

    def split(self) -> StateObstacle | None:
        """Two sets: neither lease nor hold of the one is seen in the other."""
        if len(self.schemas) < 2:  # noqa: PLR2004  # two are one too many
            return None
        message = (
            f"it is in {len(self.schemas)} schemas, {' and '.join(self.schemas)}, so that the holds and"
            " leases of the one are not heeded in the other"
        )
        having = (table.schema for table in self.sight.tables if table.name == HOLD.name and _is_ours(table))
        kept = next(having, self.schemas[0])
        steps = "; ".join(self._moving(kept))
        return StateObstacle(message, f"Stop every sweep of this database and run, as their owner: {steps}")

    def _moving(self, kept: str) -> Iterator[str]:
        """What brings the holds of the other sets into the one that is kept; the rest is found again."""
        columns = ", ".join(column.name for column in HOLD.columns)
        rest = ", ".join(column.name for column in HOLD.columns if column.name != "scheduler")
        for schema in self.schemas:
            mine = [table for table in self.sight.tables if table.schema == schema and _is_ours(table)]
            if schema == kept:
                continue
            if HOLD.name in {table.name for table in mine}:
                name = f"replace(scheduler, '@', '@@') || {_literal(_apart('', schema))}"  # written as it was
                yield (
                    f"INSERT INTO {quoted(kept)}.{HOLD.name} ({columns}) SELECT "  # noqa: S608  # for people
                    f"{name}, {rest} FROM {quoted(schema)}.{HOLD.name} ON CONFLICT DO NOTHING"
                )
            yield f"DROP TABLE {', '.join(map(_named, mine))}"

    def unsafe(self) -> StateObstacle | None:
        """What would run code of another role as this one, or is not the state at all."""
        return self._foreign() or self._armed() or (None if self.schema is None else self.taken())

    def _foreign(self) -> StateObstacle | None:
        """Tables like ours that a role made which this one has no reason to trust."""
        is_known = bool(self.schemas) or self.sight.named_schema is not None
        others = [
            table
            for table in self.sight.tables
            if _looks_like_ours(table) and not table.is_trusted
            if table.schema == self.place or not is_known
        ]
        if not others:
            return None
        schema = others[0].schema
        mine = [table for table in others if table.schema == schema]
        message = (
            f"tables like the lifecycle's own in the schema {schema} belong to the role {mine[0].owner}, and"
            f" what that role defines on them would run as the role {self.sight.role}"
        )
        naming = f"ALTER DATABASE {quoted(self.sight.database)} SET {SETTING} = {_literal(schema)}"
        dropping = f"DROP TABLE {', '.join(map(_named, mine))}"
        remedy = f"If they are the state of this database, run as a superuser: {naming}; else run: {dropping}"
        return StateObstacle(message, remedy)

    def _armed(self) -> StateObstacle | None:
        """A role that was granted TRIGGER needs no more to let its own code run in every sweep."""
        armed = next((table for table in self.tables if table.fires), None)
        if armed is None:
            return None
        message = f"triggers or rules of {_named(armed)} would run in every sweep: {', '.join(armed.fires)}"
        return StateObstacle(message, "Drop them: the lifecycle's state has none")

    def taken(self) -> StateObstacle | None:
        """A table of an application that has the name of one of ours, where ours has to be."""
        for table in self.sight.tables:
            if table.schema == self.place and table.name in OWN_TABLES and not _looks_like_ours(table):
                missing = ", ".join(sorted(_COLUMNS[table.name] - table.columns))
                why = f"it lacks {missing}" if table.columns else "it is no table"
                message = f"{_named(table)} is no table of the lifecycle: {why}"
                return StateObstacle(message, "Rename it, or drop it")
        return None

    def closed(
        self, tables: Sequence[Table] = STATE_TABLES, privileges: Sequence[str] = EVERY_PRIVILEGE
    ) -> StateObstacle | None:
        """What this role may not do with these tables."""
        names = {table.name for table in tables}
        mine = [table for table in self.tables if table.name in names]
        lacking = [table for table in mine if set(privileges) & set(table.lacks)]
        if lacking or not all(table.may_enter for table in mine):
            return self._refused(lacking, privileges, may_enter=all(table.may_enter for table in mine))
        hidden = next((table for table in mine if table.hides_rows), None)
        if hidden is None:
            return None
        message = f"row level security may hide rows of {_named(hidden)} from the role {self.sight.role}"
        return StateObstacle(message, f"Run: ALTER TABLE {_named(hidden)} DISABLE ROW LEVEL SECURITY")

    def _refused(
        self, lacking: Sequence[StateTable], privileges: Iterable[str], *, may_enter: bool
    ) -> StateObstacle:
        role, schema = quoted(self.sight.role), quoted(self.schema or "")
        missing = [each for each in privileges if any(each in table.lacks for table in lacking)]
        what = [] if may_enter else [("USAGE", f"SCHEMA {schema}")]
        if missing:
            what.append((", ".join(missing), ", ".join(map(_named, lacking))))
        message = " and ".join(f"{rights} on {where}" for rights, where in what)
        grants = "; ".join(f"GRANT {rights} ON {where} TO {role}" for rights, where in what)
        return StateObstacle(
            f"the role {self.sight.role} lacks {message}, where the lifecycle keeps its state",
            f"Run: {grants}",
        )

    def unmade(self) -> StateObstacle | None:
        """What keeps this role from making the tables that are missing."""
        if {table.name for table in self.tables} == set(OWN_TABLES):
            return None
        place = self.place
        may_create = self.tables[0].may_create if self.tables else self.sight.may_create
        role = quoted(self.sight.role)
        if place is None:
            message = (
                f"no schema on the search path of the role {self.sight.role} can hold the lifecycle's state"
            )
            return StateObstacle(message, f"Run: ALTER ROLE {role} SET search_path = ...")
        if may_create:
            return None
        message = f"the role {self.sight.role} may not create the tables of the lifecycle's state in {place}"
        return StateObstacle(message, f"Run: GRANT CREATE ON SCHEMA {quoted(place)} TO {role}")


def plain(name: str) -> str:
    """How a contract is remembered: with "@" doubled, so that a single one only ever precedes a schema."""
    return name.replace("@", "@@")


def _apart(name: str, schema: str) -> str:
    """How a contract is remembered whose names mean the tables of another schema than the state's."""
    is_odd = schema.startswith(("@", '"'))  # doubled behind the separator, it could be the end of the name
    return f"{plain(name)}@{plain(quoted(schema) if is_odd else schema)}"


def remembered_as(contract: Contract, default_schema: str | None, state_schema: str | None) -> str:
    """The name of a contract in the state.

    A bare table name means another table under another search path, so each path has a memory of its own.
    """
    is_bare = any(table.schema is None for table in contract.tables)
    if not is_bare or default_schema is None or state_schema in {None, default_schema}:
        return plain(contract.name)
    return _apart(contract.name, default_schema)


def _is_ours(table: StateTable) -> bool:
    return table.is_trusted and _looks_like_ours(table)


def _looks_like_ours(table: StateTable) -> bool:
    return table.name in _COLUMNS and _COLUMNS[table.name] <= table.columns


def _named(table: StateTable) -> str:
    return f"{quoted(table.schema)}.{table.name}"


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
