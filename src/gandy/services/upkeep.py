"""When the trains that prune run: at once on start, and then at their interval."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from time import monotonic
from typing import TYPE_CHECKING, Literal

from gandy.admin.running import Record
from gandy.admin.upkeep.declaration import UpkeepRequest
from gandy.admin.upkeep.pruning import Shift
from gandy.admin.upkeep.running import declare_metrics, run_upkeep
from gandy.clock import STEADY_FOR
from gandy.errors import ClockDoubtedError
from gandy.events import CycleEnded
from gandy.services.polling import Poller

if TYPE_CHECKING:
    from gandy.admin.clock_trust import ClockTrust
    from gandy.admin.upkeep.cycle import UpkeepResult
    from gandy.events import EventBus
    from gandy.settings import Settings
    from gandy.store.drivers.database import Database
    from gandy.train.base import Train


@dataclass(frozen=True, slots=True, kw_only=True)
class UpkeepParts:
    """What the application gives to a service that prunes."""

    owner: str
    database: Database
    settings: Settings
    events: EventBus
    trust: ClockTrust | None = None  #: None: the clock is believed


class UpkeepService:
    """Runs one of the trains that prune; any number of servers may do so at once."""

    def __init__(
        self,
        parts: UpkeepParts,
        name: str,
        train: type[Train[UpkeepRequest, UpkeepResult]],
        *,
        every: timedelta,
    ) -> None:
        self._parts = parts
        self._name = name
        self._train = train
        self._every = every
        self._stop = asyncio.Event()

    async def run(self, stop: asyncio.Event) -> None:
        """Run cycles until told to stop, also between two batches of one."""
        self._stop = stop
        declare_metrics()
        await Poller(self._name, self._cycle, poll_every=self._every, wake=asyncio.Event()).run(stop)

    async def tick(self, *, is_overruled: bool = False) -> UpkeepResult:
        """Run exactly one cycle because a person asks for it.

        ClockDoubtedError: the clock cannot be believed, and the person does not vouch for it.
        """
        trust = self._parts.trust
        found = None if trust is None else await trust.examine(is_overruled=is_overruled)
        if found is not None:
            raise ClockDoubtedError(str(found))
        return await self._run(is_asked_for=True)

    async def _run(self, *, is_asked_for: bool) -> UpkeepResult:
        parts, begun = self._parts, monotonic()
        request = UpkeepRequest(
            owner=parts.owner, retention=parts.settings.retention, cleanup=parts.settings.cleanup
        )
        record = Record(
            owner=parts.owner,
            keep_for=parts.settings.cleanup.kept(self._train.definition.name),
            is_asked_for=is_asked_for,
        )
        shift = Shift(parts.database, self._stop.is_set)
        try:
            result = await run_upkeep(shift, self._train, request, record=record)
        except Exception as error:
            self._tell("failed", begun, error=str(error))
            raise
        self._tell("idle" if result.is_idle else "worked", begun, result=result)
        return result

    async def _cycle(self) -> timedelta | None:
        trust, begun = self._parts.trust, monotonic()
        if trust is not None and await trust.examine() is not None:
            self._tell("skipped", begun)
            return min(self._every, STEADY_FOR)
        await self._run(is_asked_for=False)
        return None

    def _tell(
        self,
        verdict: Literal["worked", "idle", "skipped", "failed"],
        begun: float,
        *,
        result: UpkeepResult | None = None,
        error: str | None = None,
    ) -> None:
        self._parts.events.emit(
            CycleEnded(
                service=self._name,
                verdict=verdict,
                took=timedelta(seconds=monotonic() - begun),
                counts={} if result is None else result.counts,
                error=error,
            )
        )
