"""The application that a run belongs to, as Gandy's own trains see it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gandy.desk.requests import EnqueueOptions, enqueue_request
from gandy.errors import ManifestNotFoundError, TriggerInputConflictError
from gandy.store.queueing import enqueue, lock_manifest, trigger
from gandy.train.registry import OfThisProcess

if TYPE_CHECKING:
    from gandy.clock import ManualClock
    from gandy.store.drivers.database import Database
    from gandy.store.statements import Operation
    from gandy.train.registry import AnyTrain, Registry
    from gandy.train.run import Run
    from gandy.upkeep.clock_trust import ClockTrust


@dataclass(frozen=True, slots=True, kw_only=True)
class HostApp(OfThisProcess):
    """Provided to every train of an open application."""

    owner: str
    registry: Registry
    database: Database
    url: str
    clock: ManualClock | None = None
    trust: ClockTrust | None = None  #: says which instant it is, by a clock that is believed

    async def queue_again(self, run: Run, value: object) -> int | None:
        """Queue the train of a run once more with this input; the id of the entry that now waits.

        A run of a manifest triggers its manifest, unless somebody switched that off meanwhile: then None.
        """
        train = self.registry.get(run.train)
        if run.manifest is None:
            return await self.database.run(self._enqueue(train, value))
        try:
            return await self.database.run(self._trigger(run.manifest, train.input.encode(value)))
        except ManifestNotFoundError:
            return None
        except TriggerInputConflictError:  # what waits there has another input: it cannot stand for this one
            return await self.database.run(self._enqueue(train, value))

    def _enqueue(self, train: AnyTrain, value: object) -> Operation[int]:
        options = EnqueueOptions(unique_until="start")
        queued = yield from enqueue(enqueue_request(self.owner, train, [value], options=options))
        return queued.ids[0]

    def _trigger(self, external_id: str, input_json: str) -> Operation[int | None]:
        manifest = yield from lock_manifest(external_id, owner=self.owner)
        if manifest.is_orphaned or not (manifest.is_enabled and manifest.is_group_enabled):
            return None
        triggered = yield from trigger(external_id, input_json=input_json, owner=self.owner)
        return triggered.id
