"""Run one cycle of a service as a train, in a transaction or in steps, and record it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import timedelta
from time import monotonic
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias, TypeVar

from gandy.errors import CycleStoppedError
from gandy.model.run import Cancelled, Completed, Failed
from gandy.store.audit import AdministrativeRun, record_run
from gandy.store.drivers.database import Transaction
from gandy.store.owners import take_turn
from gandy.train.endings import encode_timings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gandy.model.run import Timings
    from gandy.store.drivers.database import Database, Runner
    from gandy.store.statements import Operation
    from gandy.train.base import Train


_IDLE_EVERY_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedCycle:
    """One cycle of a service, as it is to be recorded."""

    owner: str
    train: str
    timings: Timings
    failure: Failed | None = None
    took: timedelta
    counts: Mapping[str, int]
    keep_for: timedelta
    is_idle: bool
    is_requested: bool = False  #: requested by an operator: always recorded


async def record_cycle(database: Runner, cycle: FinishedCycle) -> None:
    """Record a cycle that did something or failed; of idle cycles, one a minute across all servers."""
    await database.run(_record(cycle))


def _record(cycle: FinishedCycle) -> Operation[None]:
    if cycle.is_idle and not cycle.is_requested:
        key = f"idle:{cycle.train}"
        if not (yield from take_turn(key, every_seconds=_IDLE_EVERY_SECONDS, owner=cycle.owner)):
            return
    failed = cycle.failure
    run = AdministrativeRun(
        owner=cycle.owner,
        train=cycle.train,
        is_failed=failed is not None,
        took=cycle.took,
        keep_for=cycle.keep_for,
        output_json=None if failed else json.dumps(dict(cycle.counts)),
        junctions_json=encode_timings(cycle.timings),
        failure_junction=failed.junction if failed else None,
        failure_exception=failed.exception_type if failed else None,
        failure_reason=failed.reason if failed else None,
        stack_trace=failed.stack_trace if failed else None,
    )
    yield from record_run(run)


class Result(Protocol):
    """The result of a cycle."""

    @property
    def counts(self) -> Mapping[str, int]:
        """The counts of the cycle, by name."""
        ...

    @property
    def is_idle(self) -> bool:
        """Whether there was nothing to do."""
        ...


Request = TypeVar("Request")
Done = TypeVar("Done", bound=Result)
Ended: TypeAlias = "Completed[Done] | Failed | Cancelled"


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """The owner and the retention of a cycle's run."""

    owner: str
    keep_for: timedelta
    is_requested: bool = False  #: requested by an operator: always recorded


class _CycleFailed(Exception):  # noqa: N818 - internal: it only rolls the transaction back
    def __init__(self, outcome: Failed | Cancelled) -> None:
        super().__init__()
        self.outcome = outcome


async def run_in_transaction(
    database: Database,
    train: type[Train[Request, Done]],
    request: Request,
    *,
    record: Record,
    lock: Callable[[], Operation[bool]] | None = None,
) -> Done | None:
    """Run a cycle in one transaction; return None if another server holds its lock."""
    begun = monotonic()

    async def run() -> tuple[Ended[Done], bool] | None:
        """Return the outcome, and whether it is recorded: an idle cycle needs no transaction of its own."""
        try:
            async with database.transaction() as transaction:
                if lock is not None and not await transaction.run(lock()):
                    return None
                outcome = _completed(await train.outcome(request, provide={Transaction: transaction}))
                is_idle = outcome.value.is_idle and not record.is_requested
                if is_idle:
                    await record_cycle(transaction, _finished(train, outcome, record=record, begun=begun))
                return outcome, is_idle
        except _CycleFailed as failed:
            return failed.outcome, False

    ended = await run()
    if ended is None:
        return None
    outcome, is_recorded = ended
    if not is_recorded:
        await record_cycle(database, _finished(train, outcome, record=record, begun=begun))
    return _result(train, outcome)


async def run_in_steps(
    database: Database,
    train: type[Train[Request, Done]],
    request: Request,
    *,
    record: Record,
    provide: Mapping[type, object],
) -> Done:
    """Run a cycle whose junctions commit separately."""
    begun = monotonic()
    outcome = await train.outcome(request, provide=provide)
    await record_cycle(database, _finished(train, outcome, record=record, begun=begun))
    return _result(train, outcome)


def _completed(outcome: Ended[Done]) -> Completed[Done]:
    """Return a completed cycle; raise for any other, so that the transaction is rolled back."""
    if isinstance(outcome, Completed):
        return outcome
    raise _CycleFailed(outcome)


def _finished(
    train: type[Train[Request, Done]], outcome: Ended[Done], *, record: Record, begun: float
) -> FinishedCycle:
    result = outcome.value if isinstance(outcome, Completed) else None
    return FinishedCycle(
        owner=record.owner,
        train=train.definition.name,
        timings=outcome.timings,
        failure=outcome if isinstance(outcome, Failed) else None,
        took=timedelta(seconds=monotonic() - begun),
        counts={} if result is None else result.counts,
        keep_for=record.keep_for,
        is_idle=result is not None and result.is_idle,
        is_requested=record.is_requested,
    )


def _result(train: type[Train[Request, Done]], outcome: Ended[Done]) -> Done:
    """Return the result of a recorded cycle, or raise its failure."""
    if isinstance(outcome, Completed):
        return outcome.value
    raise outcome.exception if isinstance(outcome, Failed) else CycleStoppedError(train.definition.name)
