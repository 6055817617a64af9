"""The single set of our own tables in a database, in any schema, and obstacles to using it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from gandy.lifecycle.contract.names import quoted
from gandy.lifecycle.database.state_sight import SETTING, StateObstacle, StateTable, StateTables
from gandy.lifecycle.state.tables import HOLD, OWN_TABLES, RULE, STATE_TABLES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from sqlalchemy import Table

    from gandy.lifecycle.contract.tables import Contract

EVERY_PRIVILEGE = ("SELECT", "INSERT", "UPDATE", "DELETE")
_LATER = {(RULE.name, "agreed")}  # columns that the first version lacks
#: Columns that distinguish our own tables from an application's tables of the same name.
_COLUMNS = {
    table.name: {column.name for column in table.columns if (table.name, column.name) not in _LATER}
    for table in STATE_TABLES
}


@dataclass(frozen=True)
class StateHome:
    """The location of the state, among all tables with the names of our own."""

    sight: StateTables

    @cached_property
    def schemas(self) -> tuple[str, ...]:
        """The schemas with our own tables; more than one only if an older version created them."""
        return tuple(sorted({table.schema for table in self.sight.tables if _is_ours(table)}))

    @property
    def place(self) -> str | None:
        """The schema where the state is, or where it is to be created."""
        return self.schema or self.sight.named_schema or self.sight.default_schema

    @property
    def schema(self) -> str | None:
        """The schema of the state; None if there is none or more than one."""
        return self.schemas[0] if len(self.schemas) == 1 else None

    @property
    def is_complete(self) -> bool:
        """Whether every table exists with every column."""
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
        """Return the table of this name, or None."""
        return next((table for table in self.tables if table.name == name), None)

    def split(self) -> StateObstacle | None:
        """Report two sets of tables: leases and holds of one set are invisible in the other."""
        if len(self.schemas) < 2:  # noqa: PLR2004  # two are one too many
            return None
        message = (
            f"it is in {len(self.schemas)} schemas, {' and '.join(self.schemas)}, so that holds and"
            " leases in one are ignored in the other"
        )
        having = (table.schema for table in self.sight.tables if table.name == HOLD.name and _is_ours(table))
        kept = next(having, self.schemas[0])
        steps = "; ".join(self._moving(kept))
        return StateObstacle(message, f"Stop every sweep of this database and run, as their owner: {steps}")

    def _moving(self, kept: str) -> Iterator[str]:
        """Yield SQL that moves the holds of other sets into the kept set; the rest can be rebuilt."""
        columns = ", ".join(column.name for column in HOLD.columns)
        rest = ", ".join(column.name for column in HOLD.columns if column.name != "scheduler")
        for schema in self.schemas:
            mine = [table for table in self.sight.tables if table.schema == schema and _is_ours(table)]
            if schema == kept:
                continue
            if HOLD.name in {table.name for table in mine}:
                name = f"replace(scheduler, '@', '@@') || {_literal(_apart('', schema))}"  # stored unescaped
                yield (
                    f"INSERT INTO {quoted(kept)}.{HOLD.name} ({columns}) SELECT "  # noqa: S608  # shown, not executed
                    f"{name}, {rest} FROM {quoted(schema)}.{HOLD.name} ON CONFLICT DO NOTHING"
                )
            yield f"DROP TABLE {', '.join(map(_named, mine))}"

    def unsafe(self) -> StateObstacle | None:
        """Report tables that would run another role's code as this role, or that are not the state."""
        return self._foreign() or self._armed() or (None if self.schema is None else self.taken())

    def _foreign(self) -> StateObstacle | None:
        """Report tables like ours that belong to an untrusted role."""
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
            f" code that it defines on them would run as the role {self.sight.role}"
        )
        naming = f"ALTER DATABASE {quoted(self.sight.database)} SET {SETTING} = {_literal(schema)}"
        dropping = f"DROP TABLE {', '.join(map(_named, mine))}"
        remedy = f"If they are the state of this database, run as a superuser: {naming}; else run: {dropping}"
        return StateObstacle(message, remedy)

    def _armed(self) -> StateObstacle | None:
        """Report triggers and rules: a role with the TRIGGER privilege could run its code in every sweep."""
        armed = next((table for table in self.tables if table.fires), None)
        if armed is None:
            return None
        message = f"triggers or rules of {_named(armed)} would run in every sweep: {', '.join(armed.fires)}"
        return StateObstacle(message, "Drop them: the lifecycle's state has none")

    def taken(self) -> StateObstacle | None:
        """Report an application's table that has the name and place of one of ours."""
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
        """Report privileges on these tables that this role lacks."""
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
        """Report why this role cannot create the missing tables."""
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
    """Return the stored name of a contract: "@" is doubled, so that a single "@" precedes a schema."""
    return name.replace("@", "@@")


def _apart(name: str, schema: str) -> str:
    """Return the stored name of a contract whose tables are in another schema than the state."""
    is_odd = schema.startswith(("@", '"'))  # else a doubled "@" after the separator is ambiguous
    return f"{plain(name)}@{plain(quoted(schema) if is_odd else schema)}"


def remembered_as(contract: Contract, default_schema: str | None, state_schema: str | None) -> str:
    """Return the name of a contract in the state.

    A bare table name may mean another table under another search path, so each path has its own state.
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
