"""Recorded holds of all contracts of a database, for sweeps that do not have those contracts."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING

from sqlalchemy import Connection, delete, select

from gandy.lifecycle.contract.rules import Keep
from gandy.lifecycle.contract.tables import Contract, Table
from gandy.lifecycle.database.state_sight import columns_of
from gandy.lifecycle.state.home import remembered_as
from gandy.lifecycle.state.tables import HOLD

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from gandy.lifecycle.contract.fields import Scalar
    from gandy.lifecycle.database.facts import SchemaFacts, Wanted
    from gandy.lifecycle.database.target import TargetSession

REMEMBERED = "recorded in this database"  # source of a contract that is only recorded in the database


@dataclass(frozen=True, slots=True, order=True)
class Hold:
    """One value of one column that keeps rows, and the contract that declares it."""

    scheduler: str
    schema_name: str  # '' on SQLite
    table_name: str
    column_name: str
    equals: str  # as JSON, which distinguishes true, 1 and 'true'

    @property
    def place(self) -> tuple[str, str]:
        """The table."""
        return self.schema_name, self.table_name

    @property
    def keep(self) -> Keep:
        """The rule, as the contract declares it."""
        equals: Scalar = json.loads(self.equals)
        return Keep(column=self.column_name, equals=equals)


def absent_tables(
    connection: Connection, schema: SchemaFacts, contracts: Iterable[Contract]
) -> frozenset[Wanted]:
    """Return tables with `keep` rules that do not exist: each may have been renamed."""
    return frozenset(
        (table.schema, table.name)
        for contract in contracts
        for table in contract.tables
        if table.keeps
        and schema.find(table.name, table.schema) is None
        and columns_of(connection, table.name, table.schema) is None
    )


def _name(contract: Contract, schema: SchemaFacts) -> str:
    return remembered_as(contract, schema.default_schema, schema.state_schema)


def _holds_of(contract: Contract, schema: SchemaFacts) -> set[Hold]:
    """Return a contract's holds on this database; a name without a schema means the default schema."""
    scheduler = _name(contract, schema)
    return {
        Hold(scheduler, found.name.schema or "", found.name.name, keep.column, json.dumps(keep.equals))
        for table in contract.tables
        if (found := schema.find(table.name, table.schema)) is not None
        for keep in table.keeps
    }


def read_holds(connection: Connection, schema: SchemaFacts) -> frozenset[Hold]:
    """Read the recorded holds of all contracts; an older version has no table for them."""
    if not {(HOLD.name, column.name) for column in HOLD.columns} <= schema.state:
        return frozenset()
    return frozenset(Hold(*row) for row in connection.execute(select(*HOLD.c)))


def record_holds(
    session: TargetSession, contract: Contract, schema: SchemaFacts, *, recorded: Iterable[Hold]
) -> None:
    """Record the contract's current holds; they replace its earlier holds on the same tables.

    Holds on other tables may belong to another application with a contract of the same name.
    """
    scheduler = _name(contract, schema)
    before = {hold for hold in recorded if hold.scheduler == scheduler}
    mine = _holds_of(contract, schema)
    found = (schema.find(table.name, table.schema) for table in contract.tables)
    declared = {(facts.name.schema or "", facts.name.name) for facts in found if facts is not None}
    gone = {hold for hold in before - mine if hold.place in declared}
    if not gone and mine <= before:
        return
    with session.writing() as connection:
        for hold in gone:
            connection.execute(delete(HOLD).filter_by(**asdict(hold)))
        for hold in mine - before:
            connection.execute(HOLD.insert().values(asdict(hold)))


def declared_elsewhere(
    recorded: Iterable[Hold], known: Iterable[Contract], schema: SchemaFacts
) -> Iterator[Contract]:
    """Yield recorded holds that no known contract declares, as contracts with only those holds."""
    spoken_for = {
        (_name(contract, schema), place)
        for contract in known
        for table in contract.tables
        for place in _places(table, schema)
    }
    others = sorted(hold for hold in recorded if (hold.scheduler, hold.place) not in spoken_for)
    for scheduler, holds in groupby(others, attrgetter("scheduler")):
        tables = [
            Table(name, [hold.keep for hold in of_table], schema=place or None)
            for (place, name), of_table in groupby(holds, attrgetter("schema_name", "table_name"))
        ]
        yield Contract(scheduler, tables, source=REMEMBERED)


def _places(table: Table, schema: SchemaFacts) -> Iterator[tuple[str, str]]:
    """Yield the table's location, or its possible locations if the catalogue does not list it."""
    found = schema.find(table.name, table.schema)
    if found is not None:
        yield found.name.schema or "", found.name.name
        return
    bare = (*schema.search_path, schema.default_schema)
    for place in bare if table.schema is None else (table.schema,):
        yield place or "", table.name
