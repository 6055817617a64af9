"""The plan of a sweep: what it would delete."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from math import ceil
from typing import TYPE_CHECKING

from sqlalchemy import Connection, and_, func, select
from sqlalchemy.exc import DBAPIError

from gandy.lifecycle.advisor.indexes import IndexAdvisor
from gandy.lifecycle.advisor.survey import Survey, of_one_database, survey, sweep_order
from gandy.lifecycle.contract.tables import gathered
from gandy.lifecycle.database.failures import said, unexpected
from gandy.lifecycle.database.instants import read_instant
from gandy.lifecycle.driver.ages import pace_for, without
from gandy.lifecycle.driver.heavy import WHOLE_BATCHES, may_go_in_parts
from gandy.lifecycle.driver.partitions import dead_partitions, is_held, rows_in
from gandy.lifecycle.selection.findings import Severity
from gandy.lifecycle.selection.foresight import (
    Along,
    Gone,
    TakenRows,
    does_fit,
    extent,
    key_names,
    rows_of,
    selected,
    taken_by,
)
from gandy.lifecycle.selection.walks import AgeWalk, CapWalk, Child, PartitionWalk, Selection, Walk
from gandy.lifecycle.state.holds import REMEMBERED
from gandy.lifecycle.state.progress import list_quarantine, read_states
from gandy.lifecycle.state.setup import must_remember_holds, open_state, scheduler_of
from gandy.lifecycle.supervisor.confirmation import Agreement, Confirmation, agreement_of, all_walks, is_new

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

    from gandy.clock import Clock
    from gandy.lifecycle.contract.tables import Contract
    from gandy.lifecycle.database.facts import TableName
    from gandy.lifecycle.database.target import TargetSession
    from gandy.lifecycle.selection.resolve import Resolved
    from gandy.lifecycle.selection.statements import Values


_AFTER_LOCKS = "the counts may change: the sweep checks again after the locks, and sees concurrent writes"
_SELF = "rows wait for rows of their own table: rows that become deletable during the sweep are not counted"
_NEEDED = "{name} cannot be dropped and is not counted: {what} depends on it"
_SET_ASIDE = (
    "{rows} set aside and not counted: each has more dependent rows than one transaction may delete "
    "({bound:,}), and between two batches it may become live, or a trigger may keep it"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRule:
    """What one rule would do now, after the earlier rules: delete `children`, set `set_null` to NULL."""

    scheduler: str
    table: str
    rule: str
    rows: int = 0
    oldest: datetime | None = None  # years before 1 and -infinity are shown as the year 1
    newest: datetime | None = None
    children: dict[str, int] = field(default_factory=dict)
    set_null: dict[str, int] = field(default_factory=dict)
    index: str | None = None
    batches: int = 0
    quarantined: int = 0
    needs_confirmation: bool = False
    refused: str | None = None
    warnings: tuple[str, ...] = ()
    triggers: tuple[str, ...] = ()  # that fire on the deletion
    notes: tuple[str, ...] = ()  # limits of the counts
    is_counted: bool = True

    @property
    def written(self) -> int:
        """Rows of all tables that are deleted or set to NULL."""
        return self.rows + sum(self.children.values()) + sum(self.set_null.values())


def plan(
    contracts: Iterable[Contract], target: str | None = None, *, clock: Clock | None = None
) -> list[PlannedRule]:
    """Plan a sweep, rule by rule in the order of the sweep; write nothing."""
    planned = []
    wanted = gathered(contracts, target)
    gone: dict[str, Gone] = {}
    sessions: dict[str, TargetSession] = {}  # what is kept for later rules belongs to the session
    with ExitStack() as stack:
        for contract in wanted:
            url = contract.target(target)
            if url not in sessions:
                sessions[url] = stack.enter_context(open_state(url, clock=clock))
            session = sessions[url]
            must_remember_holds(session)
            known = of_one_database(contract, wanted, target)
            seen = survey(session, contract, session.now(), contracts=known, is_thorough=True)
            planned += _Planner(session, seen, gone.setdefault(url, Gone())).rules()
    return planned


class _Planner:
    """Plans one contract; `gone` are the rows that the earlier contracts would delete."""

    def __init__(self, session: TargetSession, seen: Survey, gone: Gone) -> None:
        self._session = session
        self._seen = seen
        self._gone = gone
        self._now = session.now()
        self._confirmation: Confirmation | None = None

    def rules(self) -> list[PlannedRule]:
        contract = self._seen.contract
        with self._session.reading() as connection:
            scheduler = scheduler_of(self._session, contract)
            self._states = read_states(connection, scheduler)
            self._quarantine: dict[str, list[Values]] = {}
            for row in list_quarantine(connection, scheduler=scheduler):
                self._quarantine.setdefault(row.table, []).append(row.key)
            return [
                planned
                for table in sweep_order(contract.tables, self._seen.schema.default_schema)
                for rule in self._seen.rules
                if rule.declared is table
                for planned in self._rule(connection, rule)
            ]

    def _rule(self, connection: Connection, rule: Resolved) -> Iterator[PlannedRule]:
        for planned in self._planned(connection, rule):
            yield replace(planned, triggers=tuple(rule.triggers))

    def _planned(self, connection: Connection, rule: Resolved) -> Iterator[PlannedRule]:
        refusals = [str(found) for found in rule.findings if found.severity.stops]
        warnings = tuple(str(found) for found in rule.findings if found.severity is Severity.WARNING)
        if refusals or not rule.walks:
            yield PlannedRule(
                scheduler=rule.contract.name,
                table=rule.declared.label,
                rule=rule.label,
                refused="; ".join(refusals) or None,
                warnings=warnings,
            )
            return
        for walk in rule.walks:
            yield self._walk(connection, walk, warnings)

    def _walk(self, connection: Connection, walk: Walk, warnings: tuple[str, ...]) -> PlannedRule:
        """Plan one walk; an error becomes a note, so that the other rules are still planned."""
        planned = PlannedRule(
            scheduler=self._seen.contract.name,
            table=walk.key.table,
            rule=walk.label,
            quarantined=len(self._quarantine.get(walk.key.table, [])),
            warnings=warnings,
            notes=tuple(_notes(walk, self._seen)),
        )
        try:
            with connection.begin_nested():
                return self._foreseen(connection, walk, planned)
        except DBAPIError as error:  # many rules in sequence may make the query too large
            if connection.invalidated:
                raise
            note = f"could not be counted: {said(error)}"
        except Exception as error:  # noqa: BLE001
            note = f"could not be counted: {unexpected(error)}"
        return replace(planned, is_counted=False, notes=(*planned.notes, note))

    def _foreseen(self, connection: Connection, walk: Walk, planned: PlannedRule) -> PlannedRule:
        advisor = IndexAdvisor(connection, self._session.dialect, self._seen.schema, self._now)
        agreement = agreement_of(walk, self._seen.contracts, self._seen.schema)
        planned = replace(planned, needs_confirmation=self._is_asked(advisor, walk, agreement))
        if isinstance(walk, PartitionWalk):
            return self._partitions(connection, walk, planned)
        return self._rows(connection, walk, replace(planned, index=advisor.index_of(walk)))

    def _is_asked(self, advisor: IndexAdvisor, walk: Walk, agreement: Agreement) -> bool:
        state = self._states.get(walk.key)
        if not is_new(agreement, state):
            return False
        if self._confirmation is None:
            walks = all_walks(advisor.connection, self._seen, self._session.dialect)
            self._confirmation = Confirmation(advisor, walks)
        return self._confirmation.needed(walk, agreement, state) is not None

    def _rows(self, connection: Connection, walk: AgeWalk | CapWalk, planned: PlannedRule) -> PlannedRule:
        is_poisoned = walk.key.table in self._quarantine
        bound = WHOLE_BATCHES * self._seen.contract.batch.largest
        selection = without(selected(walk, self._now), walk.key, if_any=is_poisoned)
        taken = self._kept(connection, walk, selection)
        planned = self._counted(connection, walk, taken, planned=planned)
        if not may_go_in_parts(walk) and planned.written > bound:
            fits = does_fit(walk.table, walk.children, bound)
            light = replace(selection, dead=and_(selection.dead, fits))
            taken = self._kept(connection, walk, light)
            planned = _without_heavy(planned, self._counted(connection, walk, taken, planned=planned), bound)
        keep = partial(self._session.dialect.kept, connection)
        going = taken.along().values()
        along = [(table, keep(rows_of(table, goes), key_names(table))) for table, goes in going]
        for table, rows in ((walk.table, taken.rows), *along):
            self._gone.add(table, rows)
        return planned

    def _kept(self, connection: Connection, walk: AgeWalk | CapWalk, selection: Selection) -> TakenRows:
        taken = taken_by(walk, selection, self._gone)
        used = [*key_names(walk.table), *(name for child in walk.children for name in child.parent_columns)]
        used += [walk.instant] if isinstance(walk, AgeWalk) else []
        kept = self._session.dialect.kept(connection, taken.rows, dict.fromkeys(used))
        return replace(taken, rows=kept)

    def _counted(
        self, connection: Connection, walk: AgeWalk | CapWalk, taken: TakenRows, *, planned: PlannedRule
    ) -> PlannedRule:
        rows, oldest, newest = _extent(connection, walk, taken)
        pace = pace_for(taken.children, self._seen.contract.batch)
        planned = replace(
            planned,
            rows=rows,
            oldest=oldest,
            newest=newest,
            children=self._count(connection, taken.along()),
            set_null=self._count(connection, taken.let_go()),
        )
        return replace(planned, batches=ceil(max(rows / pace.start, planned.written / pace.largest)))

    def _partitions(self, connection: Connection, walk: PartitionWalk, planned: PlannedRule) -> PlannedRule:
        dialect = self._session.dialect
        going = [
            partition
            for partition in dead_partitions(connection, dialect, walk, now=self._now)
            if not is_held(connection, walk, partition, dialect=dialect)
        ]
        needed = {partition.name: dialect.what_needs(connection, partition.name) for partition in going}
        notes = tuple(
            _NEEDED.format(name=name, what=what) for name, what in needed.items() if what is not None
        )
        planned = replace(planned, notes=(*planned.notes, *notes))
        going = [partition for partition in going if needed[partition.name] is None]
        rows = sum(rows_in(connection, walk, partition, dialect=dialect) for partition in going)
        self._gone.add_partitions(walk.table, [partition.name for partition in going])
        return replace(planned, rows=rows, batches=len(going))

    def _count(self, connection: Connection, along: Along) -> dict[str, int]:
        """Count rows of other tables that still exist, by the label of the table."""
        counted = {
            self._label(name): connection.execute(
                select(func.count()).select_from(table.clause).where(goes, self._gone.left(table))
            ).scalar_one()
            for name, (table, goes) in along.items()
        }
        return {name: rows for name, rows in counted.items() if rows}

    def _label(self, table: TableName) -> str:
        return table.name if table.schema == self._seen.schema.default_schema else str(table)


def _extent(
    connection: Connection, walk: AgeWalk | CapWalk, taken: TakenRows
) -> tuple[int, datetime | None, datetime | None]:
    if isinstance(walk, CapWalk):
        return int(connection.execute(taken.count).scalar_one()), None, None
    [rows, oldest, newest] = connection.execute(extent(taken, walk.instant, walk.form)).one()
    return int(rows), read_instant(oldest, walk.form), read_instant(newest, walk.form)


def _without_heavy(every: PlannedRule, light: PlannedRule, bound: int) -> PlannedRule:
    """Note the rows that are set aside because they have more dependent rows than a batch may contain."""
    heavy = every.rows - light.rows
    if not heavy:
        return light
    rows = "1 row is" if heavy == 1 else f"{heavy:,} rows are"
    return replace(light, notes=(*light.notes, _SET_ASIDE.format(rows=rows, bound=bound)))


def _notes(walk: Walk, seen: Survey) -> Iterator[str]:
    """Yield the limits of the counts."""
    if isinstance(walk, PartitionWalk):
        return
    referring = seen.schema.referring_to(walk.table.name)
    keys = {(key.child.name, key.columns) for key in referring if key.is_enforced}
    waits = [(reference.table, reference.columns) for reference in walk.rule.wait_for]
    if walk.rule.reads_other_rows or not set(waits) <= keys:
        yield _AFTER_LOCKS
    if walk.table.name.name in {table for table, _ in waits}:
        yield _SELF
    yield from _remembered(walk, seen)


def _remembered(walk: AgeWalk | CapWalk, seen: Survey) -> Iterator[str]:
    """Yield notes on holds that apply to this rule but are only recorded in the database."""
    going = {walk.table.name, *(child.table.name for child in _all_of(walk.children))}
    for contract in seen.contracts:
        if contract.source != REMEMBERED:
            continue
        found = (seen.schema.find(table.name, table.schema) for table in contract.tables)
        held = sorted(str(table.name) for table in found if table is not None and table.name in going)
        if held:
            where = f"on {', '.join(held)} of the contract {contract.name} apply, {REMEMBERED}"
            yield f"holds {where}; if the contract is gone: gandy lifecycle forget {contract.name}"


def _all_of(children: Iterable[Child]) -> Iterator[Child]:
    for child in children:
        yield child
        yield from _all_of(child.children)
