"""Create and find the lifecycle's tables, and delete the state of a contract."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from sqlalchemy import Connection, and_, delete, exists, or_, select, text
from sqlalchemy.schema import CreateTable

from gandy.errors import StateObstructedError
from gandy.lifecycle.contract.names import quoted
from gandy.lifecycle.database.state_sight import StateObstacle, reach_state, state_schema
from gandy.lifecycle.database.target import TargetSession, open_target
from gandy.lifecycle.state.home import EVERY_PRIVILEGE, StateHome, plain, remembered_as
from gandy.lifecycle.state.tables import HOLD, LEASE, QUARANTINE, RULE, STATE_TABLES, has_table

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from datetime import datetime

    from sqlalchemy import ColumnElement, Table

    from gandy.clock import Clock
    from gandy.lifecycle.contract.tables import Contract
    from gandy.lifecycle.database.facts import SchemaFacts


_ADD_AGREED = "ALTER TABLE {schema}.{table} ADD COLUMN agreed TEXT"
_LOST = (
    "{table} is missing while the other tables of the state are in use: the holds that contracts recorded in"
    " it are lost"
)
_REMAKE = "Restore it; or run: {making}; then sweep every contract that keeps rows before any other contract"


@contextmanager
def open_state(target: str, *, clock: Clock | None = None) -> Iterator[TargetSession]:
    """Connect for the duration of one call, and find the state."""
    with open_target(target, clock=clock) as session:
        _find(session, is_fresh=False)
        yield session


def is_ready(schema: SchemaFacts) -> bool:
    """Whether our own tables have every column and this role may write them."""
    own = {(table.name, column.name) for table in STATE_TABLES for column in table.columns}
    return own <= schema.state and schema.may_write_state


def ensure_tables(session: TargetSession, *, newcomer: str | None = None) -> None:
    """Create our own tables if they are missing, and migrate those of an older version.

    The first lease of `newcomer` does not count as use of the state: it was just taken.
    """
    with session.reading() as connection:
        home = _look(session, is_fresh=True)
        obstacle = _obstacle(connection, home, newcomer=newcomer)
    if obstacle is not None:
        raise StateObstructedError(str(obstacle))
    if home.is_complete:
        return
    with session.writing() as connection:
        session.dialect.serialise_setup(connection)
        home = _look(session, is_fresh=True)  # another process may have been first, in another schema
        obstacle = _obstacle(connection, home, newcomer=newcomer)
        if obstacle is None:
            _make(connection, home)
    if obstacle is not None:
        raise StateObstructedError(str(obstacle))
    with session.reading():
        _look(session, is_fresh=True)


def _make(connection: Connection, home: StateHome) -> None:
    schema = home.place
    assert schema is not None  # noqa: S101  # else there is an obstacle
    reach_state(connection, schema)
    for table in STATE_TABLES:
        if home.find(table.name) is None:
            connection.execute(CreateTable(table))
    rule = home.find(RULE.name)
    if rule is not None and "agreed" not in rule.columns:
        connection.execute(text(_ADD_AGREED.format(schema=quoted(schema), table=RULE.name)))


def sweep_obstacle(session: TargetSession) -> StateObstacle | None:
    """Return why this role cannot sweep: our own tables cannot be found, created or written."""
    with session.reading() as connection:
        return _obstacle(connection, _look(session, is_fresh=False), newcomer=None)


def must_allow(
    session: TargetSession, tables: Sequence[Table], privileges: Sequence[str] = EVERY_PRIVILEGE
) -> None:
    """Raise an error if this role lacks privileges on our own tables; SQLite has no privileges."""
    if session.dialect.only_schema is not None:
        return
    home = _look(session, is_fresh=False)
    obstacle = home.split() or home.unsafe() or home.closed(tables, privileges)
    if obstacle is not None:
        raise StateObstructedError(str(obstacle))


def must_remember_holds(session: TargetSession) -> None:
    """Raise an error if holds cannot be read: a plan without them would be wrong."""
    must_allow(session, (HOLD, RULE, QUARANTINE), ("SELECT",))
    with session.reading() as connection:
        home = _look(session, is_fresh=False)
        if home.find(HOLD.name) is None:
            must_allow(session, [LEASE], ("SELECT",))
        lost = _lost_holds(connection, home, newcomer=None)
    if lost is not None:
        raise StateObstructedError(str(lost))


def scheduler_of(session: TargetSession, contract: Contract) -> str:
    """Return the name of a contract in the state of this database."""
    if session.dialect.only_schema is not None:
        return plain(contract.name)
    sight = session.dialect.state_sight(session.connection, is_fresh=False)
    return remembered_as(contract, sight.default_schema, state_schema(session.connection))


def _find(session: TargetSession, *, is_fresh: bool) -> None:
    if session.dialect.only_schema is None:
        _look(session, is_fresh=is_fresh)
    else:
        reach_state(session.connection, session.dialect.only_schema)


def _look(session: TargetSession, *, is_fresh: bool) -> StateHome:
    """Find the state, and direct the connection's statements to it if it is safe."""
    home = StateHome(session.dialect.state_sight(session.connection, is_fresh=is_fresh))
    schema = home.schema if home.unsafe() is None else None
    reach_state(session.connection, schema or session.dialect.only_schema)
    return home


def _obstacle(connection: Connection, home: StateHome, *, newcomer: str | None) -> StateObstacle | None:
    return (
        home.sight.obstacle
        or home.split()
        or home.unsafe()
        or home.taken()
        or home.closed()
        or _lost_holds(connection, home, newcomer=newcomer)
        or home.unmade()
    )


def _lost_holds(connection: Connection, home: StateHome, *, newcomer: str | None) -> StateObstacle | None:
    """Report a missing table of holds while the others are in use; the first version had no holds."""
    rule = home.find(RULE.name)
    is_first_version = rule is not None and "agreed" not in rule.columns
    if home.find(HOLD.name) is not None or is_first_version or home.schema is None:
        return None
    signs = [sign for table, sign in _signs(newcomer).items() if home.find(table.name) is not None]
    if not signs or not connection.execute(select(or_(*signs))).scalar_one():
        return None
    places = connection.get_execution_options()["schema_translate_map"]
    making = CreateTable(HOLD).compile(
        dialect=connection.dialect, schema_translate_map=places, render_schema_translate=True
    )
    return StateObstacle(
        _LOST.format(table=f"{quoted(home.schema)}.{HOLD.name}"),
        _REMAKE.format(making=" ".join(str(making).split())),
    )


def _signs(newcomer: str | None) -> dict[Table, ColumnElement[bool]]:
    """Return conditions, by table, that show that contracts were swept here."""
    is_new = and_(LEASE.c.scheduler == (newcomer or ""), LEASE.c.token == 1)
    return {
        LEASE: exists(select(1).select_from(LEASE).where(~is_new)),
        RULE: exists(select(1).select_from(RULE)),
        QUARANTINE: exists(select(1).select_from(QUARANTINE)),
    }


_KINDS = {"holds": HOLD, "rules": RULE, "quarantined": QUARANTINE}


def remembered_contracts(connection: Connection) -> list[str]:
    """Return the contracts with stored state in this database."""
    tables = [table for table in _KINDS.values() if has_table(connection, table)]
    found = (connection.execute(select(table.c.scheduler).distinct()) for table in tables)
    return sorted({name for names in found for name in names.scalars()})


def remembered_name(given: str, known: Collection[str]) -> str | None:
    """Return the stored name for a user's input: a stored name, or a contract's name with an "@"."""
    return next((name for name in (given, plain(given)) if name in known), None)


def forget_contract(connection: Connection, scheduler: str, *, now: datetime) -> dict[str, int]:
    """Delete the stored state and return the rows by kind; keep a lease that a sweep still holds.

    A lease belongs to the declared contract under every search path: names with a schema have none.
    """
    there = {kind: table for kind, table in _KINDS.items() if has_table(connection, table)}
    gone = {
        kind: connection.execute(delete(table).where(table.c.scheduler == scheduler)).rowcount
        for kind, table in there.items()
    }
    declared = scheduler.replace("@@", "@")
    if plain(declared) == scheduler and has_table(connection, LEASE):
        connection.execute(delete(LEASE).where(LEASE.c.scheduler == declared, LEASE.c.expires_at < now))
    return gone
