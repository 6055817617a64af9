"""Rules that wait for a person's word, as the last tick left them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gandy.lifecycle.database.target import open_target
from gandy.lifecycle.state.progress import read_states

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
    with open_target(contract.target()) as session, session.reading() as connection:
        states = read_states(connection, contract.name)
    return [
        HeldRule(table=key.table, rule=key.rule, rows=state.held_rows)
        for key, state in sorted(states.items(), key=lambda item: (item[0].table, item[0].rule))
        if state.held_rows is not None
    ]
