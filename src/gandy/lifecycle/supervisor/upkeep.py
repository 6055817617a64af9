"""Keeping the lifecycle's own memory bounded: rules that are gone, quarantined rows that are gone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import Connection, select

from gandy.lifecycle.contract.consistency import keys_of
from gandy.lifecycle.selection.statements import Values, among
from gandy.lifecycle.state.progress import RuleKey, RuleState, forget_rules, read_states
from gandy.lifecycle.state.quarantine import QuarantinedRow, list_quarantine, release_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gandy.lifecycle.advisor.survey import Survey
    from gandy.lifecycle.database.facts import TableFacts
    from gandy.lifecycle.database.target import Session


@dataclass(frozen=True, slots=True)
class Memory:
    """What is remembered about a contract: by rule, and the keys in quarantine by table."""

    states: dict[RuleKey, RuleState]
    quarantine: dict[str, list[Values]]


def remembered(session: Session, survey: Survey) -> Memory:
    """Read what is remembered, and forget what no longer means anything."""
    scheduler = survey.contract.name
    declared = {
        RuleKey(scheduler, table.label, key)
        for table in survey.contract.tables
        for rule in table.rules
        for key in keys_of(rule)
    }
    with session.reading() as connection:
        states = read_states(connection, scheduler)
        rows = list_quarantine(connection, scheduler=scheduler)
        vanished = list(_vanished(connection, survey, rows))
    undeclared = set(states) - declared
    if undeclared or vanished:
        with session.writing() as connection:
            forget_rules(connection, undeclared)
            release_rows(connection, vanished)
    quarantine: dict[str, list[Values]] = {}
    for row in rows:
        if row not in vanished:
            quarantine.setdefault(row.table, []).append(row.key)
    return Memory({key: state for key, state in states.items() if key in declared}, quarantine)


def _vanished(connection: Connection, survey: Survey, rows: list[QuarantinedRow]) -> Iterator[QuarantinedRow]:
    """Quarantined rows that somebody has deleted since."""
    for table in survey.contract.tables:
        facts = survey.schema.find(table.name, table.schema)
        mine = [row for row in rows if row.table == table.label]
        if facts is not None and facts.standing.is_readable and mine:
            there = _there(connection, facts, mine)
            yield from (row for row in mine if row.key not in there)


def _there(connection: Connection, facts: TableFacts, rows: list[QuarantinedRow]) -> set[Values]:
    key = tuple(facts.clause.c[column.name] for column in facts.key)
    fitting = [row.key for row in rows if len(row.key) == len(key)]
    return {tuple(values) for values in connection.execute(select(*key).where(among(key, fitting)))}
