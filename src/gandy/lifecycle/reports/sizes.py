"""The sizes of a contract's tables, at a bounded cost, with the lag of their rules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gandy.lifecycle.database.facts import TableName, reflect_all
from gandy.lifecycle.state.progress import read_states
from gandy.lifecycle.state.setup import must_allow, open_state, scheduler_of
from gandy.lifecycle.state.tables import QUARANTINE, RULE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gandy.lifecycle.contract.tables import Contract
    from gandy.lifecycle.state.progress import RuleState


@dataclass(frozen=True, slots=True, kw_only=True)
class ContractTableSize:
    """One table of a contract; None: it cannot be estimated without a count."""

    table: str
    rows: int | None
    bytes: int | None
    lag_seconds: float | None  #: of the rule that is furthest behind, as of the last sweep


def sizes_of(contract: Contract) -> list[ContractTableSize]:
    """Estimate the sizes of the tables; a table that does not exist is left out."""
    with open_state(contract.target()) as session:
        must_allow(session, (RULE, QUARANTINE), ("SELECT",))
        with session.reading() as connection:
            states = read_states(connection, scheduler_of(session, contract))
            schema = reflect_all(connection, session.dialect)
            lags = {
                table.label: _lag(state for key, state in states.items() if key.table == table.label)
                for table in contract.tables
            }
            found = {
                table.label: schema.tables.get(TableName(table.schema or schema.default_schema, table.name))
                for table in contract.tables
            }
            sizes = {
                label: session.dialect.estimate(connection, facts)
                for label, facts in found.items()
                if facts is not None
            }
    return [
        ContractTableSize(
            table=label,
            rows=None if size is None else size.rows,
            bytes=None if size is None else size.bytes,
            lag_seconds=lags[label],
        )
        for label, size in sizes.items()
    ]


def _lag(states: Iterable[RuleState]) -> float | None:
    return max((state.pace.lag_seconds for state in states if state.pace is not None), default=None)
