"""The service `lifecycle`: bounds Gandy's own tables, and keeps each contract at its own interval."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from threading import Event
from time import monotonic
from typing import TYPE_CHECKING, Literal

from gandy.admin.contract_sweep.cycle import ContractShift
from gandy.admin.contract_sweep.running import sweep_contract
from gandy.admin.contract_sweep.train import ContractSweepTrain
from gandy.admin.running import Record
from gandy.clock import STEADY_FOR
from gandy.events import CycleEnded
from gandy.lifecycle.supervisor.metrics import process_metrics
from gandy.services.polling import Poller
from gandy.services.table_maintenance import SERVICE, table_maintenance

if TYPE_CHECKING:
    from gandy.admin.contract_sweep.cycle import SweptContract
    from gandy.admin.upkeep.cycle import UpkeepResult
    from gandy.clock import Clock
    from gandy.lifecycle import Contract
    from gandy.lifecycle.supervisor.report import ContractReport
    from gandy.services.upkeep import UpkeepParts


@dataclass(frozen=True, slots=True, kw_only=True)
class LifecycleParts:
    """What the application gives to the service; every contract names its database."""

    upkeep: UpkeepParts
    contracts: tuple[Contract, ...] = ()
    clock: Clock | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LifecycleTick:
    """One cycle of everything that the service sees to."""

    own: UpkeepResult
    contracts: tuple[ContractReport, ...]


class LifecycleService:
    """Runs TableMaintenance and the contracts side by side; one contract after the other."""

    def __init__(self, parts: LifecycleParts) -> None:
        self._parts = parts
        self._own = table_maintenance(parts.upkeep)
        self._keeper = ContractKeeper(parts)

    async def run(self, stop: asyncio.Event) -> None:
        """Work until told to stop, which a sweep hears between two batches."""
        process_metrics().declare(self._parts.contracts)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._own.run(stop))
            group.create_task(self._keeper.run(stop))

    async def tick(self, *, is_overruled: bool = False) -> LifecycleTick:
        """Run exactly one cycle of Gandy's own tables, and keep each contract once."""
        own = await self._own.tick(is_overruled=is_overruled)
        reports = [
            await self._keeper.tick(contract, is_overruled=is_overruled) for contract in self._parts.contracts
        ]
        return LifecycleTick(own=own, contracts=tuple(reports))


class ContractKeeper:
    """Keeps contracts, each as often as it says; any number of servers may do so at once."""

    def __init__(self, parts: LifecycleParts) -> None:
        self._parts = parts
        self._is_told = Event()  # heard in the threads that sweep
        self._turn = asyncio.Lock()

    async def run(self, stop: asyncio.Event) -> None:
        """Keep every contract at once, and then at its interval."""
        try:
            async with asyncio.TaskGroup() as group:
                for contract in self._parts.contracts:
                    group.create_task(self._poll(contract, stop))
                await stop.wait()
                self._is_told.set()
        finally:
            self._is_told.set()  # also where the service is cut off: a thread cannot be cancelled

    async def tick(
        self, contract: Contract, *, is_asked_for: bool = True, is_overruled: bool = False
    ) -> ContractReport:
        """Keep one contract once."""
        upkeep = self._parts.upkeep
        shift = ContractShift(
            contract=contract,
            is_stopping=self._is_told.is_set,
            rest=self._rest,
            clock=self._parts.clock,
            beside=self._parts.contracts,
            believed=None if upkeep.trust is None else upkeep.trust.believed,
            is_clock_right=is_overruled,
        )
        record = Record(
            owner=upkeep.owner,
            keep_for=upkeep.settings.cleanup.kept(ContractSweepTrain.definition.name),
            is_asked_for=is_asked_for,
        )
        async with self._turn:
            begun = monotonic()
            swept = await sweep_contract(upkeep.database, shift, record=record)
        self._tell(swept, timedelta(seconds=monotonic() - begun))
        return swept.report

    async def _poll(self, contract: Contract, stop: asyncio.Event) -> None:
        async def cycle() -> timedelta | None:
            if self._parts.upkeep.trust is not None:
                await self._parts.upkeep.trust.examine()
            report = await self.tick(contract, is_asked_for=False)
            return None if report.doubt is None else STEADY_FOR

        name = f"{SERVICE} {contract.name}"
        await Poller(name, cycle, poll_every=contract.interval, wake=asyncio.Event()).run(stop)

    def _rest(self, span: timedelta) -> None:
        self._is_told.wait(span.total_seconds())

    def _tell(self, swept: SweptContract, took: timedelta) -> None:
        """Tell of the loop that went round; how the rules fared is in the contract's own events."""
        event = CycleEnded(service=SERVICE, verdict=_verdict(swept), took=took, counts=swept.counts)
        self._parts.upkeep.events.emit(event)


def _verdict(swept: SweptContract) -> Literal["worked", "idle", "skipped"]:
    if swept.report.is_skipped:
        return "skipped"
    return "idle" if swept.is_idle else "worked"
