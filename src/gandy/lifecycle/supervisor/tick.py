"""One tick over contracts: its lease, its clock, and its loop."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import timedelta
from threading import Lock
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from gandy.clock import MOST_DRIFT, STEADY_FOR, ClockWatch
from gandy.errors import (
    ContractRefusedError,
    DatabaseUnreachableError,
    GandyError,
    StateObstructedError,
    SweepLeaseLostError,
    TargetFaultError,
)
from gandy.lifecycle.advisor.survey import Survey, of_one_database, survey
from gandy.lifecycle.contract.tables import gathered
from gandy.lifecycle.database.dialect import LockPatience
from gandy.lifecycle.database.failures import said, unexpected
from gandy.lifecycle.driver.caps import PAGES_PER_TICK
from gandy.lifecycle.driver.careful import WriteGaps
from gandy.lifecycle.driver.rows import GroundsChangedError
from gandy.lifecycle.driver.shift import Counts, Shift
from gandy.lifecycle.state.holds import record_holds
from gandy.lifecycle.state.lease import LEASE_FOR, Lease, give_back, newest_lease, take_lease
from gandy.lifecycle.state.setup import ensure_tables, is_ready, open_state
from gandy.lifecycle.supervisor import report as announce
from gandy.lifecycle.supervisor.report import ContractReport, Held, RuleFailure, SweepMetrics, process_metrics
from gandy.lifecycle.supervisor.run import ContractRun
from gandy.lifecycle.supervisor.upkeep import Memory, Recalled, recall, tidied
from gandy.rules.clocks import doubt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from datetime import datetime
    from threading import Event

    from gandy.clock import Clock
    from gandy.lifecycle.contract.tables import Contract
    from gandy.lifecycle.database.target import TargetSession
    from gandy.lifecycle.driver.rows import RuleOutcome
    from gandy.lifecycle.state.progress import RuleKey
    from gandy.lifecycle.supervisor.confirmation import Confirm


_watches: dict[str, ClockWatch] = {}
_manual: WeakKeyDictionary[Clock, ClockWatch] = WeakKeyDictionary()
_told: set[str] = set()
_lock = Lock()


def doubted(session: TargetSession, url: str, by: SweepOptions) -> str | None:
    """Return why the clock is not trusted; None if it is, or if an operator or the caller overrules."""
    now, newest = newest_lease(session)
    steadiness = _watch(url, by.clock).observe(now)
    is_vouched_for = by.is_clock_right or (by.believed is not None and abs(now - by.believed) <= MOST_DRIFT)
    found = None if is_vouched_for else doubt(now, newest, steadiness)
    _tell(url, None if found is None else str(found))
    return None if found is None else str(found)


def _watch(url: str, clock: Clock | None) -> ClockWatch:
    with _lock:
        if clock is None:
            return _watches.setdefault(url, ClockWatch())
        return _manual.setdefault(clock, ClockWatch(clock))


def _tell(url: str, found: str | None) -> None:
    """Log once when the doubt begins, and once when it ends."""
    with _lock:
        was_told = url in _told
        (_told.discard if found is None else _told.add)(url)
    if found is not None and not was_told:
        announce.LOGGER.error("deletion is suspended until the clock is steady for ten minutes: %s", found)
    if found is None and was_told:
        announce.LOGGER.info("the clock is trusted again; deletion resumes")


_LEASE_POLL = timedelta(milliseconds=100)
_MOST_JUDGEMENTS = 10
_RESTLESS = (
    f"tables or holds changed {_MOST_JUDGEMENTS} times while the sweep ran; the next run continues from here"
)


def confirm_nothing(_held: Held) -> bool:
    """Confirm nothing: without an operator, such rules are held."""
    return False


def _never() -> bool:
    return False


def _ignore(*_: object) -> None:
    return


def _sleep(span: timedelta) -> None:
    time.sleep(span.total_seconds())


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepOptions:
    """The callbacks and options of a run: confirmation, progress, stopping."""

    confirm: Confirm = confirm_nothing
    is_stopping: Callable[[], bool] = _never
    rest: Callable[[timedelta], None] = _sleep
    pruned: Callable[[str, Counts], None] = _ignore
    finished: Callable[[str, RuleOutcome], None] = _ignore
    metrics: SweepMetrics = field(default_factory=process_metrics)
    patience: LockPatience = field(default_factory=LockPatience)
    clock: Clock | None = None
    wait_for_lease: timedelta = timedelta(0)
    pages: int | None = PAGES_PER_TICK  # that caps may read in one run; None means no limit
    beside: Sequence[Contract] = ()  # contracts that are not swept now, but whose holds apply
    is_strict: bool = False  # refuse a contract that does not fit before it deletes anything
    believed: datetime | None = None  # the current instant by a clock that the caller trusts
    is_clock_right: bool = False  # an operator confirms that the clock is right
    is_limited: bool = False  # a row limit bounds the run: no confirmation, no measuring


def run_contracts(
    contracts: Iterable[Contract],
    target: str | None = None,
    *,
    options: SweepOptions | None = None,
    table: str | None = None,
) -> list[ContractReport]:
    """Run each contract once; report and log failures, and continue with the others."""
    by = options or SweepOptions()
    wanted = gathered(contracts, target)
    by.metrics.declare(wanted)
    return [
        _keep(
            _Kept(contract, of_one_database(contract, [*wanted, *by.beside], target)), target, by, table=table
        )
        for contract in wanted
    ]


@dataclass(frozen=True, slots=True)
class _Kept:
    contract: Contract
    contracts: tuple[Contract, ...]  # all contracts of its database


def _keep(kept: _Kept, target: str | None, by: SweepOptions, *, table: str | None) -> ContractReport:
    contract = kept.contract
    url = contract.target(target)
    report = ContractReport(scheduler=contract.name)
    try:
        with open_state(url, clock=by.clock) as session:
            report.doubt = doubted(session, url, by)
            if report.doubt is not None:
                return report
            lease = _wait_for_lease(session, contract.name, by)
            if lease is None:
                report.is_skipped = True
                by.metrics.skipped(contract.name)
                return report
            try:
                _run(_Tick(kept, session, lease, by), report, table=table)
            finally:
                if not session.is_lost:
                    give_back(session, lease)
    except (
        DatabaseUnreachableError,
        StateObstructedError,
        SQLAlchemyError,
        SweepLeaseLostError,
        TargetFaultError,
    ) as error:
        if by.is_strict and not report.failures:
            raise
        _failed_whole(report, by, error.problem if isinstance(error, TargetFaultError) else said(error))
    except GandyError:
        raise
    except Exception as error:  # noqa: BLE001 an error of one contract must not stop the others
        announce.LOGGER.debug("the contract %s raised", contract.name, exc_info=error)
        _failed_whole(report, by, unexpected(error))
    return report


@dataclass(frozen=True, slots=True)
class _Tick:
    kept: _Kept
    session: TargetSession
    lease: Lease
    by: SweepOptions

    @property
    def contract(self) -> Contract:
        return self.kept.contract


def _run(tick: _Tick, report: ContractReport, *, table: str | None) -> None:
    by = tick.by
    report.started_at = tick.lease.taken_at
    counts: Counter[str] = Counter()

    def committed(rows: Counts) -> None:
        counts.update(rows)
        for name, count in rows.items():
            by.metrics.pruned(tick.contract.name, name, count)
        by.pruned(tick.contract.name, rows)

    try:
        _run_rules(tick, report, committed, table=table)
    finally:
        report.counts = {name: count for name, count in counts.items() if count}
        if report.counts:
            announce.pruned(tick.contract.name, report.counts)


def _run_rules(
    tick: _Tick, report: ContractReport, committed: Callable[[Counts], None], *, table: str | None
) -> None:
    """Judge the rules and run them; judge them again if a table or a hold changes meanwhile."""
    outcomes: dict[RuleKey, RuleOutcome] = {}
    for _ in range(_MOST_JUDGEMENTS):
        report.start_over()
        seen, memory = _judged(tick)
        run = _contract_run(tick, seen, report, memory=memory, committed=committed)
        run.outcomes = outcomes
        try:
            return run.run(table)
        except GroundsChangedError:
            announce.judged_again(tick.contract.name)
    return _failed_whole(report, tick.by, _RESTLESS)


def _judged(tick: _Tick) -> tuple[Survey, Memory]:
    """Judge the rules against the current database, and read their state."""
    session = tick.session
    seen, recalled = _look(tick)
    if recalled is None:
        ensure_tables(session, newcomer=tick.contract.name)
        seen, recalled = _look(tick)  # a hold may be recorded in a table that did not exist before
    assert recalled is not None  # noqa: S101  # the tables exist
    record_holds(session, seen.contract, seen.schema, recorded=seen.recorded)
    if tick.by.is_strict and seen.wrong:
        raise ContractRefusedError([finding.as_problem(tick.contract.where) for finding in seen.wrong])
    return seen, tidied(session, seen, recalled)


def _look(tick: _Tick) -> tuple[Survey, Recalled | None]:
    """Survey the contract, and read its state if the state's tables are complete."""
    with tick.session.reading():
        seen = survey(tick.session, tick.contract, tick.lease.taken_at, contracts=tick.kept.contracts)
        return seen, recall(tick.session, seen) if is_ready(seen.schema) else None


def _contract_run(
    tick: _Tick, seen: Survey, report: ContractReport, *, memory: Memory, committed: Callable[[Counts], None]
) -> ContractRun:
    by, session = tick.by, tick.session
    assert report.started_at is not None  # noqa: S101  # set by the caller
    return ContractRun(
        shift=Shift(
            session=session,
            lease=tick.lease,
            now=report.started_at,
            default_schema=seen.schema.default_schema,
            is_stopping=by.is_stopping,
            rest=by.rest,
            committed=committed,
            patience=by.patience,
            gaps=WriteGaps.of(session),
        ),
        survey=seen,
        states=memory.states,
        quarantine=memory.quarantine,
        report=report,
        metrics=by.metrics,
        confirm=by.confirm,
        pages=by.pages,
        is_limited=by.is_limited,
        finished=lambda outcome: by.finished(tick.contract.name, outcome),
    )


def _wait_for_lease(session: TargetSession, scheduler: str, by: SweepOptions) -> Lease | None:
    """Wait for the lease; that of a killed process is free at once, or when it expires."""
    lease = _first_lease(session, scheduler)
    waited = timedelta(0)
    while lease is None and waited < by.wait_for_lease and not by.is_stopping():
        by.rest(_LEASE_POLL)
        waited += _LEASE_POLL
        lease = take_lease(session, scheduler)
    return lease


def _first_lease(session: TargetSession, scheduler: str) -> Lease | None:
    """Take the lease; if its table cannot be used, create our own tables or report the obstacle."""
    try:
        return take_lease(session, scheduler)
    except DBAPIError:
        if session.is_lost:
            raise
        ensure_tables(session)
        return take_lease(session, scheduler)


def _failed_whole(report: ContractReport, by: SweepOptions, error: str) -> None:
    if any(failure.error == error for failure in report.failures):
        return  # already reported by the rule
    report.failures.append(RuleFailure(table="", rule="", error=error))
    by.metrics.failed(report.scheduler)
    announce.tick_failed(report.scheduler, table="", rule="", error=error)


PATIENT = LEASE_FOR + timedelta(seconds=1)


def keep_contracts(
    contracts: Sequence[Contract],
    target: str | None,
    *,
    stop: Event,
    options: SweepOptions | None = None,
    ticked: Callable[[ContractReport], None] = lambda _report: None,
) -> None:
    """Run the contracts at their intervals until `stop` is set, which ends a sweep between two batches."""
    by = replace(
        options or SweepOptions(),
        is_stopping=stop.is_set,
        rest=lambda span: _rest(stop, span),
        beside=contracts,
    )
    for contract in gathered(contracts, target):
        contract.target(target)  # raise now if no database is named, not at the first tick
    by.metrics.declare(contracts)
    due = [(time.monotonic(), index) for index in range(len(contracts))]
    while not stop.is_set():
        at, index = min(due)
        if stop.wait(max(0.0, at - time.monotonic())):
            return
        every = contracts[index].interval.total_seconds()
        for report in run_contracts([contracts[index]], target, options=by):
            ticked(report)
            if report.doubt is not None:
                every = min(every, STEADY_FOR.total_seconds())
        due[due.index((at, index))] = (max(at + every, time.monotonic()), index)


def _rest(stop: Event, span: timedelta) -> None:
    stop.wait(span.total_seconds())
