"""Rules that wait for a person's word, as the last tick left them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gandy.lifecycle.state.progress import read_states
from gandy.lifecycle.state.setup import must_allow, open_state, scheduler_of
from gandy.lifecycle.state.tables import QUARANTINE, RULE

if TYPE_CHECKING:
    from gandy.lifecycle.contract.tables import Contract


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldRule:
    """A rule that was held back: it would have removed so many rows."""

    table: str
    rule: str
    rows: int


def held_rules(contract: Contract) -> list[HeldRule]:
    """The rules of a contract that are held back; nothing is written and no table is counted."""
    with open_state(contract.target()) as session:
        must_allow(session, (RULE, QUARANTINE), ("SELECT",))
        with session.reading() as connection:
            states = read_states(connection, scheduler_of(session, contract))
    return [
        HeldRule(table=key.table, rule=key.rule, rows=state.held_rows)
        for key, state in sorted(states.items(), key=lambda item: (item[0].table, item[0].rule))
        if state.held_rows is not None
    ]
