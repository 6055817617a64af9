"""Delete expired rows of Gandy's own tables, in batches."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from dataclasses import dataclass, field
from datetime import timedelta
from time import perf_counter
from typing import TYPE_CHECKING, Final, assert_never

from gandy.errors import DatabaseBusyError, DatabaseFaultError, GandyError, RowConflictError
from gandy.lifecycle.supervisor import report as announce
from gandy.lifecycle.supervisor.report import process_metrics
from gandy.loops.cycles import run_in_steps
from gandy.store.cleanup import find_first, next_place, prune_batch
from gandy.store.manifests import read_now
from gandy.sweep import (
    Attempt,
    Checkpoint,
    Contended,
    Pace,
    PassOver,
    Refused,
    Rest,
    SetAsideRequest,
    SweepEnding,
    SweptBatch,
    Verdict,
    drive_async,
    walk,
)
from gandy.upkeep.declaration import UPKEEP, ByRow, upkeep_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gandy.loops.cycles import Record
    from gandy.store.cleanup import Walk, WalkPlace
    from gandy.store.drivers.database import Database
    from gandy.sweep import Answer, Request
    from gandy.train.base import Train
    from gandy.upkeep.declaration import PrunedBy, Upkeep, UpkeepRequest


_log = logging.getLogger("gandy.cleanup")

#: How long a batch waits for a lock before it gives way.
PATIENCE: Final = timedelta(milliseconds=200)
_START: Final = 500
LARGEST: Final = 2_000  # other commits wait for the flush of a whole batch's log
#: More rows than any table has: one statement deletes all of them.
_ALL: Final = 2**31 - 1


def _never() -> bool:
    return False


@dataclass(frozen=True, slots=True)
class PruningShift:
    """The database of a cycle, and the stop flag that is checked between two batches."""

    database: Database
    is_stopping: Callable[[], bool] = _never


@dataclass(slots=True)
class Pruned:
    """The outcome of one walk, or of several together."""

    counts: Counter[str] = field(default_factory=Counter)  #: deleted rows, by table
    set_aside: int = 0  #: rows that the database refuses to delete
    passed_over: int = 0  #: rows that stayed locked
    endings: set[SweepEnding] = field(default_factory=set)
    longest_batch: timedelta = timedelta(0)

    def add(self, other: Pruned) -> None:
        """Add the outcome of another walk."""
        self.counts += other.counts
        self.set_aside += other.set_aside
        self.passed_over += other.passed_over
        self.endings |= other.endings
        self.longest_batch = max(self.longest_batch, other.longest_batch)

    @property
    def is_stopped(self) -> bool:
        """Whether a walk was stopped before its end."""
        return SweepEnding.STOPPED in self.endings


async def prune(shift: PruningShift, dead: Walk, *, batch_size: int | None = LARGEST) -> Pruned:
    """Delete all dead rows; without a batch size, in one statement for each table."""
    driver = _Driver(shift, dead)
    if batch_size is None:
        whole = await driver.attempt(None, _ALL)
        if isinstance(whole, SweptBatch):
            driver.pruned.endings.add(SweepEnding.EXHAUSTED)
            return driver.pruned
        batch_size = LARGEST  # one row blocks all: find it batch by batch
    pace = Pace(start=min(_START, batch_size), largest=batch_size)
    result = await drive_async(walk(None, pace=pace), driver.perform)
    driver.pruned.set_aside, driver.pruned.passed_over = result.set_aside, result.passed_over
    driver.pruned.endings.add(result.ending)
    return driver.pruned


class _Driver:
    """Answers the requests of one sweep."""

    def __init__(self, shift: PruningShift, dead: Walk) -> None:
        self._shift = shift
        self._dead = dead
        self.pruned = Pruned()

    async def perform(self, request: Request[WalkPlace]) -> Answer[WalkPlace]:
        match request:
            case Checkpoint():
                await asyncio.sleep(0)  # give way to other tasks on the event loop
                return Verdict.STOP if self._shift.is_stopping() else Verdict.GO
            case Rest(rest_for):
                await asyncio.sleep(rest_for.total_seconds())
                return Verdict.GO
            case Attempt(after, limit):
                return await self.attempt(after, limit)
            case SetAsideRequest(after):
                return await self._set_aside(after)
            case PassOver(after):
                return await self._pass_over(after)
            case _:
                assert_never(request)

    async def attempt(
        self, after: WalkPlace | None, limit: int
    ) -> SweptBatch[WalkPlace] | Refused | Contended:
        begun = perf_counter()
        try:
            batch = await self._shift.database.run(
                prune_batch(self._dead, after, limit=limit, patience=PATIENCE)
            )
        except DatabaseBusyError:
            return Contended(elapsed=_since(begun))
        except RowConflictError as error:
            return Refused(reason=str(error), elapsed=_since(begun))
        elapsed = _since(begun)
        self.pruned.counts += Counter(batch.counts)  # only after the commit: a rollback must not count
        self.pruned.longest_batch = max(self.pruned.longest_batch, elapsed)
        rows = batch.counts.get(self._dead.table, 0)
        return SweptBatch(rows=rows, cursor=batch.place, is_full=batch.is_full, elapsed=elapsed)

    async def _set_aside(self, after: WalkPlace | None) -> Answer[WalkPlace]:
        answer = await self.attempt(after, 1)
        if not isinstance(answer, Refused):
            return answer
        place = await self._shift.database.run(next_place(self._dead, after))
        if place is None:  # deleted by another process
            return SweptBatch(rows=0, cursor=after, is_full=False, elapsed=answer.elapsed)
        _log.error("row %s of %s cannot be deleted: %s", place.id, self._dead.table, answer.reason)
        return SweptBatch(rows=0, cursor=place, is_full=True, elapsed=answer.elapsed, set_aside=1)

    async def _pass_over(self, after: WalkPlace | None) -> Answer[WalkPlace]:
        begun = perf_counter()
        place = await self._shift.database.run(next_place(self._dead, after))
        is_there = place is not None
        return SweptBatch(rows=0, cursor=place or after, is_full=is_there, elapsed=_since(begun))


def _since(begun: float) -> timedelta:
    return timedelta(seconds=perf_counter() - begun)


@dataclass(frozen=True, slots=True)
class FailedBound:
    """A bound that failed in this cycle; the others were maintained."""

    table: str
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UpkeepResult:
    """What a cycle deleted, and what it could not delete."""

    rows: Mapping[str, int] = field(default_factory=dict)  #: by table
    days_made: int = 0
    pieces_opened: int = 0
    days_dropped: int = 0
    set_aside: int = 0  #: rows that the database refuses to delete
    passed_over: int = 0  #: rows that stayed locked
    failed: tuple[FailedBound, ...] = ()
    is_stopped: bool = False
    longest_batch: timedelta | None = None

    @property
    def deleted(self) -> int:
        """The number of deleted rows in all tables."""
        return sum(self.rows.values())

    @property
    def counts(self) -> dict[str, int]:
        """The counts of the cycle, by name; zeros are left out."""
        done = {
            "deleted": self.deleted,
            **{f"deleted_{table}": rows for table, rows in sorted(self.rows.items())},
            "days_made": self.days_made,
            "pieces_opened": self.pieces_opened,
            "days_dropped": self.days_dropped,
            "set_aside": self.set_aside,
            "passed_over": self.passed_over,
            "failed": len(self.failed),
        }
        return {word: count for word, count in done.items() if count or word == "deleted"}

    @property
    def is_idle(self) -> bool:
        """Whether there was nothing to do."""
        return not any(self.counts.values())


def result_of(pruned: Pruned, *, failed: tuple[FailedBound, ...] = ()) -> UpkeepResult:
    """Convert the outcome of walks to a result."""
    return UpkeepResult(
        rows=dict(pruned.counts),
        set_aside=pruned.set_aside,
        passed_over=pruned.passed_over,
        failed=failed,
        is_stopped=pruned.is_stopped,
        longest_batch=pruned.longest_batch,
    )


async def prune_rows_of(
    pruned_by: PrunedBy, request: UpkeepRequest, shift: PruningShift, *, batch_size: int | None = LARGEST
) -> UpkeepResult:
    """Prune the rows of every bound of the train; a failed bound does not stop the others."""
    total, failed = Pruned(counts=Counter()), list[FailedBound]()
    for upkeep, dead in await _walks(pruned_by, request, shift):
        if total.is_stopped:
            break
        try:
            total.add(await prune(shift, dead, batch_size=batch_size))
        except GandyError as error:
            if isinstance(error, DatabaseFaultError) and not isinstance(error, DatabaseBusyError):
                raise  # the fault affects the other bounds too
            _log.error("%s could not be pruned (%s): %s", upkeep.table, upkeep.bound, error)
            failed.append(FailedBound(upkeep.table, str(error)))
    return result_of(total, failed=tuple(failed))


async def _walks(
    pruned_by: PrunedBy, request: UpkeepRequest, shift: PruningShift
) -> list[tuple[Upkeep, Walk]]:
    """Return the bounds that have expired rows; one transaction looks at all of them."""
    now = await shift.database.read(read_now())  # once: rows that expire meanwhile are left to the next cycle
    walks = [
        (upkeep, upkeep.means.dead(request, now))
        for upkeep in upkeep_of(pruned_by)
        if isinstance(upkeep.means, ByRow)
    ]
    try:
        places = await shift.database.run(find_first([dead for _, dead in walks], patience=PATIENCE))
    except (DatabaseBusyError, RowConflictError):
        return walks  # each bound meets its own trouble
    return [walk for walk, place in zip(walks, places, strict=True) if place is not None]


#: The scheduler label of Gandy's own tables in events and metrics.
SCHEDULER: Final = "gandy"


def declare_metrics() -> None:
    """Create every series at 0."""
    metrics = process_metrics()
    metrics.failed(SCHEDULER, 0)
    for table in {upkeep.table for upkeep in UPKEEP}:
        metrics.pruned(SCHEDULER, table, 0)


async def run_upkeep(
    shift: PruningShift,
    train: type[Train[UpkeepRequest, UpkeepResult]],
    request: UpkeepRequest,
    *,
    record: Record,
) -> UpkeepResult:
    """Run one cycle and record it; count deleted rows in the metrics after the commit."""
    try:
        result = await run_in_steps(
            shift.database, train, request, record=record, provide={PruningShift: shift}
        )
    except Exception as error:
        _tell_failure("", train.definition.name, str(error))
        raise
    _tell(result, train.definition.name)
    return result


def _tell(result: UpkeepResult, rule: str) -> None:
    metrics = process_metrics()
    for table, rows in result.rows.items():
        metrics.pruned(SCHEDULER, table, rows)
    if result.deleted:
        announce.pruned(SCHEDULER, result.rows)
    for bound in result.failed:
        _tell_failure(bound.table, rule, bound.error)


def _tell_failure(table: str, rule: str, error: str) -> None:
    process_metrics().failed(SCHEDULER)
    announce.tick_failed(SCHEDULER, table=table, rule=rule, error=error)
