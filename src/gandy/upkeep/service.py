"""The services of upkeep, and the service that runs contracts."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from threading import Event
from time import monotonic
from typing import TYPE_CHECKING, Final, Literal

from gandy.clock import STEADY_FOR
from gandy.errors import ClockDoubtedError
from gandy.events import CycleEnded
from gandy.lifecycle.supervisor.report import process_metrics
from gandy.loops.cycles import Record
from gandy.loops.poller import Poller
from gandy.upkeep.contracts import ContractShift, ContractSweepTrain, sweep_contract
from gandy.upkeep.declaration import UpkeepRequest
from gandy.upkeep.pruning import PruningShift, declare_metrics, run_upkeep
from gandy.upkeep.samples import sample_contract
from gandy.upkeep.trains import DeadLetterCleanupTrain, MetadataCleanupTrain, TableMaintenanceTrain

if TYPE_CHECKING:
    from gandy.context import Context
    from gandy.lifecycle import Contract
    from gandy.lifecycle.supervisor.report import ContractReport
    from gandy.train.base import Train
    from gandy.upkeep.contracts import SweptContract
    from gandy.upkeep.pruning import UpkeepResult


class UpkeepService:
    """Runs one of the trains that prune; any number of servers may do so at once."""

    def __init__(
        self,
        context: Context,
        name: str,
        train: type[Train[UpkeepRequest, UpkeepResult]],
        *,
        every: timedelta,
    ) -> None:
        self._context = context
        self._name = name
        self._train = train
        self._every = every
        self._stop = asyncio.Event()

    async def run(self, stop: asyncio.Event) -> None:
        """Run cycles until `stop` is set, which also ends a cycle between two batches."""
        self._stop = stop
        declare_metrics()
        await Poller(self._name, self._cycle, poll_every=self._every, wake=asyncio.Event()).run(stop)

    async def tick(self, *, is_overruled: bool = False) -> UpkeepResult:
        """Run exactly one cycle on request.

        ClockDoubtedError: the clock cannot be trusted, and the request does not overrule this.
        """
        trust = self._context.trust
        found = None if trust is None else await trust.examine(is_overruled=is_overruled)
        if found is not None:
            raise ClockDoubtedError(str(found))
        return await self._run(is_requested=True)

    async def _run(self, *, is_requested: bool) -> UpkeepResult:
        context, begun = self._context, monotonic()
        request = UpkeepRequest(
            owner=context.owner, retention=context.settings.retention, cleanup=context.settings.cleanup
        )
        record = Record(
            owner=context.owner,
            keep_for=context.settings.cleanup.kept(self._train.definition.name),
            is_requested=is_requested,
        )
        shift = PruningShift(context.database, self._stop.is_set)
        try:
            result = await run_upkeep(shift, self._train, request, record=record)
        except Exception as error:
            self._tell("failed", begun, error=str(error))
            raise
        self._tell("idle" if result.is_idle else "worked", begun, result=result)
        return result

    async def _cycle(self) -> timedelta | None:
        trust, begun = self._context.trust, monotonic()
        if trust is not None and await trust.examine() is not None:
            self._tell("skipped", begun)
            return min(self._every, STEADY_FOR)
        await self._run(is_requested=False)
        return None

    def _tell(
        self,
        verdict: Literal["worked", "idle", "skipped", "failed"],
        begun: float,
        *,
        result: UpkeepResult | None = None,
        error: str | None = None,
    ) -> None:
        self._context.events.emit(
            CycleEnded(
                service=self._name,
                verdict=verdict,
                took=timedelta(seconds=monotonic() - begun),
                counts={} if result is None else result.counts,
                error=error,
            )
        )


DEAD_LETTER_CLEANUP: Final = "dead-letter-cleanup"


def dead_letter_cleanup(context: Context) -> UpkeepService:
    """Return the service, which runs every `retention.interval`."""
    return UpkeepService(
        context, DEAD_LETTER_CLEANUP, DeadLetterCleanupTrain, every=context.settings.retention.interval
    )


METADATA_CLEANUP: Final = "metadata-cleanup"


def metadata_cleanup(context: Context) -> UpkeepService:
    """Return the service, which runs every `cleanup.interval`."""
    return UpkeepService(
        context, METADATA_CLEANUP, MetadataCleanupTrain, every=context.settings.cleanup.interval
    )


LIFECYCLE: Final = "lifecycle"


def table_maintenance(context: Context) -> UpkeepService:
    """Return the service, which runs every `retention.interval`."""
    return UpkeepService(context, LIFECYCLE, TableMaintenanceTrain, every=context.settings.retention.interval)


@dataclass(frozen=True, slots=True, kw_only=True)
class LifecycleTick:
    """One cycle of Gandy's own tables and of all contracts."""

    own: UpkeepResult
    contracts: tuple[ContractReport, ...]


class LifecycleService:
    """Runs TableMaintenance concurrently with the contracts, which run one after the other."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._own = table_maintenance(context)
        self._keeper = ContractRunner(context)

    async def run(self, stop: asyncio.Event) -> None:
        """Run until `stop` is set, which ends a sweep between two batches."""
        process_metrics().declare(self._context.contracts)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._own.run(stop))
            group.create_task(self._keeper.run(stop))

    async def tick(self, *, is_overruled: bool = False) -> LifecycleTick:
        """Run exactly one cycle of Gandy's own tables, and each contract once."""
        own = await self._own.tick(is_overruled=is_overruled)
        reports = [
            await self._keeper.tick(contract, is_overruled=is_overruled)
            for contract in self._context.contracts
        ]
        return LifecycleTick(own=own, contracts=tuple(reports))


class ContractRunner:
    """Runs contracts, each at its own interval; any number of servers may do so at once."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._is_told = Event()  # checked in the sweeping threads
        self._turn = asyncio.Lock()

    async def run(self, stop: asyncio.Event) -> None:
        """Run every contract immediately, and then at its interval."""
        try:
            async with asyncio.TaskGroup() as group:
                for contract in self._context.contracts:
                    group.create_task(self._poll(contract, stop))
                await stop.wait()
                self._is_told.set()
        finally:
            self._is_told.set()  # also on cancellation of the service: a thread cannot be cancelled

    async def tick(
        self, contract: Contract, *, is_requested: bool = True, is_overruled: bool = False
    ) -> ContractReport:
        """Run one contract once."""
        upkeep = self._context
        shift = ContractShift(
            contract=contract,
            is_stopping=self._is_told.is_set,
            rest=self._rest,
            clock=self._context.clock,
            beside=self._context.contracts,
            believed=None if upkeep.trust is None else upkeep.trust.believed,
            is_clock_right=is_overruled,
        )
        record = Record(
            owner=upkeep.owner,
            keep_for=upkeep.settings.cleanup.kept(ContractSweepTrain.definition.name),
            is_requested=is_requested,
        )
        async with self._turn:
            begun = monotonic()
            swept = await sweep_contract(upkeep.database, shift, record=record)
            await sample_contract(upkeep.database, contract, upkeep.owner)
        self._tell(swept, timedelta(seconds=monotonic() - begun))
        return swept.report

    async def _poll(self, contract: Contract, stop: asyncio.Event) -> None:
        async def cycle() -> timedelta | None:
            if self._context.trust is not None:
                await self._context.trust.examine()
            report = await self.tick(contract, is_requested=False)
            return None if report.doubt is None else STEADY_FOR

        name = f"{LIFECYCLE} {contract.name}"
        await Poller(name, cycle, poll_every=contract.interval, wake=asyncio.Event()).run(stop)

    def _rest(self, span: timedelta) -> None:
        self._is_told.wait(span.total_seconds())

    def _tell(self, swept: SweptContract, took: timedelta) -> None:
        """Emit the end of the cycle; results of the rules are in the contract's own events."""
        event = CycleEnded(service=LIFECYCLE, verdict=_verdict(swept), took=took, counts=swept.counts)
        self._context.events.emit(event)


def _verdict(swept: SweptContract) -> Literal["worked", "idle", "skipped"]:
    if swept.report.is_skipped:
        return "skipped"
    return "idle" if swept.is_idle else "worked"
