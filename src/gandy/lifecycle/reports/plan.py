"""The dry run: the same selection, read only."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import ceil
from typing import TYPE_CHECKING, assert_never

from sqlalchemy import Connection, func, select

from gandy.lifecycle.advisor.indexes import IndexAdvisor
from gandy.lifecycle.advisor.order import sweep_order
from gandy.lifecycle.advisor.survey import Survey, of_one_database, survey
from gandy.lifecycle.contract.tables import gathered
from gandy.lifecycle.database.instants import read_instant
from gandy.lifecycle.database.target import Session, open_target
from gandy.lifecycle.driver.ages import pace_for, without
from gandy.lifecycle.driver.partitions import dead_partitions
from gandy.lifecycle.reports.children import count_children
from gandy.lifecycle.selection.findings import Severity
from gandy.lifecycle.selection.walks import AgeWalk, CapWalk, PartitionWalk, Selection, Walk
from gandy.lifecycle.state.progress import RuleKey, RuleState, read_states
from gandy.lifecycle.state.quarantine import list_quarantine
from gandy.lifecycle.supervisor.confirmation import Confirmation, rows_beyond

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from gandy.clock import Clock
    from gandy.lifecycle.contract.tables import Contract
    from gandy.lifecycle.selection.resolved import Resolved
    from gandy.lifecycle.selection.statements import Values


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRule:
    """What one rule would do now."""

    scheduler: str
    table: str
    rule: str
    rows: int = 0
    oldest: datetime | None = None
    newest: datetime | None = None
    children: dict[str, int] = field(default_factory=dict)
    index: str | None = None
    batches: int = 0
    quarantined: int = 0
    needs_confirmation: bool = False
    refused: str | None = None
    warnings: tuple[str, ...] = ()
    triggers: tuple[str, ...] = ()  # that fire when the rows go


def plan(
    contracts: Iterable[Contract], target: str | None = None, *, clock: Clock | None = None
) -> list[PlannedRule]:
    """What a sweep would do now, rule by rule in the order it would; nothing is written."""
    planned = []
    wanted = gathered(contracts, target)
    for contract in wanted:
        with open_target(contract.target(target), clock=clock) as session:
            known = of_one_database(contract, wanted, target)
            planned += _Planner(session, survey(session, contract, session.now(), contracts=known)).rules()
    return planned


class _Planner:
    """Plans one contract."""

    def __init__(self, session: Session, seen: Survey) -> None:
        self._session = session
        self._seen = seen
        self._now = session.now()

    def rules(self) -> list[PlannedRule]:
        contract = self._seen.contract
        with self._session.reading() as connection:
            self._states = read_states(connection, contract.name)
            self._quarantine: dict[str, list[Values]] = {}
            for row in list_quarantine(connection, scheduler=contract.name):
                self._quarantine.setdefault(row.table, []).append(row.key)
            return [
                planned
                for table in sweep_order(contract.tables)
                for rule in self._seen.rules
                if rule.declared is table
                for planned in self._rule(connection, rule)
            ]

    def _rule(self, connection: Connection, rule: Resolved) -> list[PlannedRule]:
        return [
            replace(planned, triggers=tuple(rule.triggers)) for planned in self._planned(connection, rule)
        ]

    def _planned(self, connection: Connection, rule: Resolved) -> list[PlannedRule]:
        refusals = [str(found) for found in rule.findings if found.severity.stops]
        warnings = tuple(str(found) for found in rule.findings if found.severity is Severity.WARNING)
        if refusals or not rule.walks:
            return [
                PlannedRule(
                    scheduler=rule.contract.name,
                    table=rule.declared.label,
                    rule=rule.label,
                    refused="; ".join(refusals) or None,
                    warnings=warnings,
                )
            ]
        return [self._walk(connection, walk, warnings) for walk in rule.walks]

    def _walk(self, connection: Connection, walk: Walk, warnings: tuple[str, ...]) -> PlannedRule:
        advisor = IndexAdvisor(connection, self._session.dialect, self._seen.schema, self._now)
        held = Confirmation(advisor).needed(walk, self._state(walk.key, walk.shape))
        poison = self._quarantine.get(walk.key.table, [])
        match walk:
            case AgeWalk():
                selection = without(walk.frozen_at(self._now), walk.key, if_any=bool(poison))
                rows, oldest, newest = self._extent(connection, walk, selection)
                children = count_children(connection, selection)
                batches = ceil(rows / pace_for(selection, self._seen.contract.batch).start)
            case CapWalk():
                rows, oldest, newest, children = rows_beyond(connection, walk), None, None, {}
                batches = ceil(rows / self._seen.contract.batch.start)
            case PartitionWalk():
                dead = dead_partitions(connection, self._session.dialect, walk, now=self._now)
                rows, oldest, newest, children = sum(one.rows for one in dead), None, None, {}
                batches = len(dead)
            case _:
                assert_never(walk)
        return PlannedRule(
            scheduler=walk.key.scheduler,
            table=walk.key.table,
            rule=walk.label,
            rows=rows,
            oldest=oldest,
            newest=newest,
            children=children,
            index=None if isinstance(walk, PartitionWalk) else advisor.index_of(walk),
            batches=batches,
            quarantined=len(poison),
            needs_confirmation=held is not None,
            warnings=warnings,
        )

    def _state(self, key: RuleKey, shape: str) -> RuleState | None:
        state = self._states.get(key)
        return state if state is not None and state.shape == shape else None

    @staticmethod
    def _extent(
        connection: Connection, walk: AgeWalk, selection: Selection
    ) -> tuple[int, datetime | None, datetime | None]:
        instant = walk.table.clause.c[walk.instant]
        found = connection.execute(
            select(func.count(), func.min(instant), func.max(instant)).where(selection.dead)
        ).one()
        return int(found[0]), read_instant(found[1], walk.form), read_instant(found[2], walk.form)
