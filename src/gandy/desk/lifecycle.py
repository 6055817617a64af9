"""The lifecycle of application tables for operators."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from gandy.desk.explain import Concern
from gandy.desk.findings import Finding
from gandy.errors import ContractNotFoundError, GandyError
from gandy.lifecycle.contract.tables import matrix
from gandy.store.audit import AuditRecord, record_audit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from gandy.lifecycle import Contract
    from gandy.lifecycle.database.dialect import TableSize
    from gandy.lifecycle.reports.plan import PlannedRule
    from gandy.lifecycle.state.progress import QuarantinedRow, RuleKey, RuleState
    from gandy.lifecycle.state.tables import MeasuredTable
    from gandy.lifecycle.supervisor.report import ContractReport, Held
    from gandy.model.owners import Operator
    from gandy.store.drivers.database import ReadingRunner


_ASKED_EVERY: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ContractTable:
    """One table of a contract with its bound and its safety rule."""

    scheduler: str
    table: str
    bound: str
    pruned_by: str
    safety: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RulePlan:
    """The rows that one rule would delete now."""

    scheduler: str
    table: str
    rule: str
    rows: int
    oldest: datetime | None
    newest: datetime | None
    batches: int
    index: str | None
    quarantined: int
    needs_confirmation: bool
    refused: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """The result of a sweep of one contract."""

    scheduler: str
    deleted: int
    by_table: dict[str, int]
    failures: tuple[str, ...]
    held: tuple[str, ...]  #: rules that need confirmation


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleProgress:
    """The stored state of one rule, from the database that it sweeps."""

    scheduler: str
    table: str
    rule: str
    deleted: int
    backlog: int
    measured_at: datetime | None
    lag: timedelta | None  #: how long the oldest expired row was overdue at that time
    arriving_per_hour: float | None  #: rows that became due; known from the second measurement on
    removed_per_hour: float | None
    table_rows: int | None  #: as of the last audit
    table_bytes: int | None
    held_rows: int | None  #: the number of rows whose deletion needs confirmation

    @property
    def is_falling_behind(self) -> bool:
        """Whether there is a backlog and rows arrive faster than they are deleted."""
        return bool(self.backlog) and (self.arriving_per_hour or 0.0) > (self.removed_per_hour or 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class SetAside:
    """A row that could not be deleted."""

    scheduler: str
    table: str
    key: str
    error: str
    quarantined_at: datetime


def list_contract_tables(contracts: Sequence[Contract]) -> tuple[ContractTable, ...]:
    """List every table of the contracts, as declared."""
    return tuple(
        ContractTable(
            scheduler=row.scheduler,
            table=row.table,
            bound=row.bounded_by,
            pruned_by=row.prune_path,
            safety=row.safety,
        )
        for row in matrix(contracts)
    )


class HeldRules:
    """The rules that need confirmation; cached for a minute, because every page view reads them."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._asked_at: float | None = None
        self._found: tuple[Concern, ...] = ()

    async def concerns(self, contracts: Sequence[Contract]) -> tuple[Concern, ...]:
        """Return a concern for each rule that needs confirmation."""
        if self._asked_at is None or self._now() - self._asked_at > _ASKED_EVERY:
            self._asked_at = self._now()
            states = await asyncio.to_thread(lambda: tuple(_progress(contracts)))
            self._found = tuple(_held(state) for state in states if state.held_rows is not None)
        return self._found


def _held(rule: RuleProgress) -> Concern:
    which = f"{rule.scheduler}: {rule.table} {rule.rule}"
    said = f"{which} would delete {rule.held_rows} rows; needs confirmation"
    return Concern(kind="rule held back", said=said, place="/tables/plan", is_urgent=True)


class LifecycleDesk:
    """Reads and sweeps the tables of contracts, each in its own database, in a thread."""

    def __init__(
        self, contracts: Sequence[Contract], database: ReadingRunner, operator: Operator, *, owner: str
    ) -> None:
        self._contracts = contracts
        self._database = database
        self._operator = operator
        self._owner = owner

    async def plan(self) -> tuple[RulePlan, ...]:
        """Return what a sweep would delete now, rule by rule; writes nothing."""
        from gandy.lifecycle.reports.plan import plan  # noqa: PLC0415 an extra

        return tuple(_planned(rule) for rule in await asyncio.to_thread(plan, self._contracts))

    async def progress(self) -> tuple[RuleProgress, ...]:
        """Return the progress of each rule; leave out rules whose database does not answer."""
        return await asyncio.to_thread(lambda: tuple(_progress(self._contracts)))

    async def quarantine(self) -> tuple[SetAside, ...]:
        """List the rows of the application's contracts that could not be deleted."""
        from gandy.lifecycle.entry import quarantine  # noqa: PLC0415 an extra

        targets = sorted({contract.target() for contract in self._contracts})
        found = [row for target in targets for row in await asyncio.to_thread(quarantine, target)]
        own = {contract.name for contract in self._contracts}
        return tuple(_set_aside(row) for row in found if row.scheduler in own)

    async def sweep(
        self, scheduler: str, *, table: str | None = None, rule: str | None = None, is_confirmed: bool = False
    ) -> tuple[Swept, ...]:
        """Sweep one contract now; delete rows that need confirmation only if it is given.

        With a rule, the confirmation is for that rule alone.
        """
        from gandy.lifecycle.entry import sweep  # noqa: PLC0415 an extra
        from gandy.lifecycle.supervisor.tick import SweepOptions  # noqa: PLC0415 an extra

        wanted = [contract for contract in self._contracts if contract.name == scheduler]
        if not wanted:
            raise ContractNotFoundError(scheduler)

        def confirm(held: Held) -> bool:
            return is_confirmed and rule in {None, held.rule}

        options = replace(SweepOptions(), confirm=confirm, beside=self._contracts)
        reports = await asyncio.to_thread(sweep, wanted, table=table, options=options)
        swept = tuple(_swept(report) for report in reports)
        detail = {
            "deleted": sum(each.deleted for each in swept),
            "table": table,
            "rule": rule,
            "confirmed": is_confirmed,
        }
        audited = AuditRecord(owner=self._owner, action="sweep", subject=scheduler, detail=detail)
        await self._database.run(record_audit(self._operator, audited))
        return swept


def _progress(contracts: Sequence[Contract]) -> Iterator[RuleProgress]:
    if not contracts:
        return
    from gandy.lifecycle.state.progress import read_states  # noqa: PLC0415 an extra
    from gandy.lifecycle.state.setup import must_allow, open_state, scheduler_of  # noqa: PLC0415 an extra
    from gandy.lifecycle.state.tables import (  # noqa: PLC0415 an extra
        AUDIT,
        QUARANTINE,
        RULE,
        last_measured,
    )

    for contract in contracts:
        try:
            with open_state(contract.target()) as session:
                must_allow(session, (AUDIT, QUARANTINE, RULE), ("SELECT",))
                with session.reading() as connection:
                    states = read_states(connection, scheduler_of(session, contract))
                    sizes = last_measured(connection)
        except GandyError:
            continue  # its sweep fails too and reports the error
        for key, state in states.items():
            found = _kept_up(key, state, _size_of(key.table, sizes))
            yield replace(found, scheduler=contract.name)


def _kept_up(key: RuleKey, state: RuleState, size: TableSize | None) -> RuleProgress:
    pace = state.pace
    return RuleProgress(
        scheduler=key.scheduler,
        table=key.table,
        rule=key.rule,
        deleted=state.deleted,
        backlog=state.backlog,
        measured_at=state.measured_at,
        lag=None if pace is None else timedelta(seconds=pace.lag_seconds),
        arriving_per_hour=None if pace is None else pace.arriving_per_hour,
        removed_per_hour=None if pace is None else pace.removed_per_hour,
        table_rows=None if size is None else size.rows,
        table_bytes=None if size is None else size.bytes,
        held_rows=state.held_rows,
    )


def _size_of(table: str, sizes: Mapping[str, MeasuredTable]) -> TableSize | None:
    """Return the size at the last audit, whose table names may include the schema."""
    found = [each.size for name, each in sizes.items() if table in {name, name.rpartition(".")[2]}]
    return found[0] if len(found) == 1 else None


def _planned(rule: PlannedRule) -> RulePlan:
    return RulePlan(
        scheduler=rule.scheduler,
        table=rule.table,
        rule=rule.rule,
        rows=rule.rows,
        oldest=rule.oldest,
        newest=rule.newest,
        batches=rule.batches,
        index=rule.index,
        quarantined=rule.quarantined,
        needs_confirmation=rule.needs_confirmation,
        refused=rule.refused,
    )


def _swept(report: ContractReport) -> Swept:
    return Swept(
        scheduler=report.scheduler,
        deleted=report.deleted,
        by_table=dict(report.counts),
        failures=tuple(f"{each.table} {each.rule}: {each.error}" for each in report.failures),
        held=tuple(f"{each.table} {each.rule}: {each.rows} of {each.of} rows" for each in report.held),
    )


def _set_aside(row: QuarantinedRow) -> SetAside:
    return SetAside(
        scheduler=row.scheduler,
        table=row.table,
        key=", ".join(map(str, row.key)),
        error=row.error,
        quarantined_at=row.quarantined_at,
    )


CHECK: Final = "lifecycle"


def of_contracts(contracts: Iterable[Contract]) -> Iterator[Finding]:
    """Report contracts that do not fit their database, and rules that need confirmation."""
    known = list(contracts)
    for contract in known:
        try:
            yield from _of_contract(contract, known)
        except GandyError as error:
            yield Finding(
                level="problem",
                check=CHECK,
                what=f"{contract.name}: the contract cannot be applied: {error}",
                to_do="correct its database settings where the service lifecycle runs",
            )


def _of_contract(contract: Contract, known: Sequence[Contract]) -> Iterator[Finding]:
    from gandy.lifecycle import check  # noqa: PLC0415 an extra; it raises MissingExtraError
    from gandy.lifecycle.reports.audit import held_rules  # noqa: PLC0415 the same

    for found in check([contract], beside=known):
        if found.severity == "information":
            continue
        yield Finding(
            level="warning" if found.severity == "warning" else "problem",
            check=CHECK,
            what=f"{found.scheduler}: table {found.table}: {found.rule}: {found.message}",
            to_do=found.remedy or "correct the contract: gandy lifecycle check",
        )
    for held in held_rules(contract):
        yield Finding(
            level="problem",
            check=CHECK,
            what=f"{contract.name}: table {held.table}: {held.rule} needs confirmation to delete "
            f"{held.rows:,} rows, more than half of the table",
            to_do=f"review: gandy lifecycle plan; confirm: gandy lifecycle sweep --table {held.table} --yes",
        )
