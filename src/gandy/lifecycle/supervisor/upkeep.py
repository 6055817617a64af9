"""Keep the lifecycle's own state bounded: delete state of removed rules and of deleted rows."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import ColumnElement, Connection, Text, and_, cast, exists, select
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.exc import DBAPIError
from sqlalchemy.types import NullType

from gandy.lifecycle.selection.statements import among, operand
from gandy.lifecycle.state.home import remembered_as
from gandy.lifecycle.state.progress import (
    KeyText,
    QuarantinedRow,
    RuleKey,
    RuleState,
    forget_rules,
    recall_quarantine,
    recall_states,
    release_rows,
)
from gandy.lifecycle.state.tables import QUARANTINE
from gandy.lifecycle.supervisor import report as announce

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gandy.lifecycle.advisor.survey import Survey
    from gandy.lifecycle.database.facts import TableFacts
    from gandy.lifecycle.database.target import TargetSession
    from gandy.lifecycle.selection.statements import Values

_BLOB = re.compile("X'((?:[0-9A-F]{2})*)'")


@dataclass(frozen=True, slots=True)
class Memory:
    """The state of a contract: by rule, and the keys in quarantine by table."""

    states: dict[RuleKey, RuleState]
    quarantine: dict[str, list[Values]]


@dataclass(frozen=True, slots=True)
class Recalled:
    """The stored state of a contract, and the part of it that is obsolete."""

    states: dict[RuleKey, RuleState]
    quarantine: list[QuarantinedRow]
    vanished: list[QuarantinedRow]


def recall(session: TargetSession, survey: Survey) -> Recalled:
    """Read the stored state."""
    scheduler = _name(survey)
    with session.reading() as connection:
        states, has_quarantine = recall_states(connection, scheduler)
        rows = recall_quarantine(connection, scheduler) if has_quarantine else []
        return Recalled(states, rows, list(_vanished(connection, survey, rows)))


def tidied(session: TargetSession, survey: Survey, recalled: Recalled) -> Memory:
    """Delete obsolete state, and return the rest."""
    declared = {
        RuleKey(_name(survey), table.label, key)
        for table in survey.contract.tables
        for rule in table.rules
        for key in rule.keys
    }
    undeclared = set(recalled.states) - declared
    if undeclared or recalled.vanished:
        with session.writing() as connection:
            forget_rules(connection, undeclared)
            release_rows(connection, recalled.vanished)
    gone = {(row.table, row.stored) for row in recalled.vanished}
    quarantine: dict[str, list[Values]] = {}
    for row in recalled.quarantine:
        if (row.table, row.stored) not in gone:
            quarantine.setdefault(row.table, []).append(row.key)
    return Memory({key: state for key, state in recalled.states.items() if key in declared}, quarantine)


def _name(survey: Survey) -> str:
    return remembered_as(survey.contract, survey.schema.default_schema, survey.schema.state_schema)


def _vanished(connection: Connection, survey: Survey, rows: list[QuarantinedRow]) -> Iterator[QuarantinedRow]:
    """Yield quarantined rows that were deleted since, or whose key matches no row any more."""
    for table in survey.contract.tables:
        facts = survey.schema.find(table.name, table.schema)
        mine = [row for row in rows if row.table == table.label]
        if facts is None or not facts.standing.is_readable or not mine or not facts.key:
            continue
        there = _there(connection, facts, mine)
        yield from (row for row in mine if row.stored not in there)


def _there(connection: Connection, facts: TableFacts, rows: Sequence[QuarantinedRow]) -> set[str]:
    """Return the stored keys that still exist; bisect to find a key that the database cannot parse."""
    try:
        with connection.begin_nested():
            return _present(connection, facts, rows)
    except DBAPIError:
        if len(rows) > 1:
            middle = len(rows) // 2
            return _there(connection, facts, rows[:middle]) | _there(connection, facts, rows[middle:])
        announce.quarantine_outdated(rows[0].scheduler, table=rows[0].table, key=rows[0].stored)
        return set()


def _present(connection: Connection, facts: TableFacts, rows: Sequence[QuarantinedRow]) -> set[str]:
    key = tuple(facts.clause.c[column.name] for column in facts.key)
    if connection.dialect.name == "sqlite":
        values = [tuple(map(_read_blob, row.key)) for row in rows if len(row.key) == len(key)]
        return set(connection.execute(select(KeyText(key)).where(among(key, values))).scalars())
    stored = QUARANTINE.c.row_key
    pairs = [operand(column) == _part(place, column) for place, column in enumerate(key)]
    is_row = exists(select(1).select_from(facts.clause).where(and_(*pairs), KeyText(key) == stored))
    wanted = select(stored).where(
        QUARANTINE.c.scheduler == rows[0].scheduler,
        QUARANTINE.c.table_name == rows[0].table,
        stored.in_([row.stored for row in rows]),
        is_row.correlate(QUARANTINE),
    )
    return set(connection.execute(wanted).scalars())


def _part(place: int, column: ColumnElement[Any]) -> ColumnElement[Any]:
    """Return one value of the stored key, cast to the column's type."""
    text = cast(QUARANTINE.c.row_key, JSONB)[place].astext
    return text if isinstance(column.type, NullType | Text) else cast(text, column.type)


def _read_blob(value: object) -> object:
    """Decode an SQLite blob literal; return every other value unchanged."""
    found = _BLOB.fullmatch(value) if isinstance(value, str) else None
    return value if found is None else bytes.fromhex(found[1])
