"""Running one cycle of an administrative train: the train itself, then its record."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from time import monotonic
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar

from gandy.admin.recording import FinishedCycle, record_cycle
from gandy.errors import CycleStoppedError
from gandy.model.run import Cancelled, Completed, Failed
from gandy.store.drivers.database import Transaction

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gandy.store.drivers.database import Database
    from gandy.store.statements import Operation
    from gandy.train.base import Train


class Result(Protocol):
    """What every cycle can say of itself."""

    @property
    def counts(self) -> Mapping[str, int]:
        """What was done, in words and numbers."""
        ...

    @property
    def is_idle(self) -> bool:
        """Whether nothing was there to do."""
        ...


Request = TypeVar("Request")
Done = TypeVar("Done", bound=Result)
Ended: TypeAlias = "Completed[Done] | Failed | Cancelled"


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """Whose run it is, and for how long it is kept."""

    owner: str
    keep_for: timedelta
    is_asked_for: bool = False  #: a person ran this very cycle: it is recorded in any case


class _CycleFailed(Exception):  # noqa: N818 never seen outside: it only ends the transaction
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
    """Run a cycle that is committed as one; None where another server holds its lock."""

    async def run() -> Ended[Done] | None:
        try:
            async with database.transaction() as transaction:
                if lock is not None and not await transaction.run(lock()):
                    return None
                outcome = await train.outcome(request, provide={Transaction: transaction})
                return _completed(outcome)
        except _CycleFailed as failed:
            return failed.outcome

    begun = monotonic()
    outcome = await run()
    return None if outcome is None else await _recorded(database, train, outcome, record=record, begun=begun)


async def run_in_steps(
    database: Database,
    train: type[Train[Request, Done]],
    request: Request,
    *,
    record: Record,
    provide: Mapping[type, object],
) -> Done:
    """Run a cycle whose junctions commit for themselves."""
    begun = monotonic()
    outcome = await train.outcome(request, provide=provide)
    return await _recorded(database, train, outcome, record=record, begun=begun)


def _completed(outcome: Ended[Done]) -> Completed[Done]:
    """Give a completed cycle; any other leaves the transaction by raising, so that it is rolled back."""
    if isinstance(outcome, Completed):
        return outcome
    raise _CycleFailed(outcome)


async def _recorded(
    database: Database,
    train: type[Train[Request, Done]],
    outcome: Ended[Done],
    *,
    record: Record,
    begun: float,
) -> Done:
    """Write the cycle's run outside its own transaction, then give its result or raise its failure."""
    result = outcome.value if isinstance(outcome, Completed) else None
    await record_cycle(
        database,
        FinishedCycle(
            owner=record.owner,
            train=train.definition.name,
            timings=outcome.timings,
            failure=outcome if isinstance(outcome, Failed) else None,
            took=timedelta(seconds=monotonic() - begun),
            counts={} if result is None else result.counts,
            keep_for=record.keep_for,
            is_idle=result is not None and result.is_idle,
            is_asked_for=record.is_asked_for,
        ),
    )
    if result is None:
        raise outcome.exception if isinstance(outcome, Failed) else CycleStoppedError(train.definition.name)
    return result
