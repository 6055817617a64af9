"""What a person may ask of the work queue: what waits, one job more, a run once more."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime  # noqa: TC003 the faces read it at run time
from typing import TYPE_CHECKING

from gandy.desk.listing import Listed
from gandy.desk.payloads import edited_input, with_stored_secrets
from gandy.desk.requests import enqueue_request, input_left_out
from gandy.model.layout import Layouts
from gandy.store.audit import Deed, record_deed
from gandy.store.manifests import read_now
from gandy.store.owners import single_owner
from gandy.store.queueing import enqueue
from gandy.store.reading.listings import list_entries, queue_rerun
from gandy.store.runs import load_run
from gandy.work.layouts import record_known

if TYPE_CHECKING:
    from gandy.desk.requests import EnqueueOptions
    from gandy.model.owners import Operator, Owners
    from gandy.store.drivers.database import ReadingRunner
    from gandy.store.reading.listings import EntryFilter, Rerun, Search
    from gandy.store.statements import Operation, Row
    from gandy.train.registry import Registry


@dataclass(frozen=True, slots=True, kw_only=True)
class EntrySummary:
    """An entry of the queue; once it is dispatched, its id is its run's."""

    id: int
    train: str
    manifest: str | None
    group: str | None
    status: str
    gate: str | None  #: what a queued entry waits for: nothing (open), its instant, its manifest, a worker
    reason: str | None
    origin: str
    priority: int
    attempt: int
    due_at: datetime
    due_until: datetime | None
    occurrences: int
    scheduled_at: datetime
    created_at: datetime
    dispatched_at: datetime | None
    dead_letter_id: int | None
    error: str | None
    owner: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedJob:
    """A job that was asked for."""

    id: int
    train: str
    is_new: bool  #: False: one with the same key is there already


class QueueDesk:
    """Reads the queue and puts work into it, in the name of somebody."""

    def __init__(self, database: ReadingRunner, operator: Operator, *, owners: Owners) -> None:
        """Take the owners whose entries and runs are seen."""
        self._database = database
        self._operator = operator
        self._owners = owners

    async def list(self, wanted: EntryFilter) -> Listed[EntrySummary]:
        """List the newest entries first."""

        def operation() -> Operation[tuple[Search, datetime]]:
            found = yield from list_entries(wanted, self._owners)
            return found, (yield from read_now())

        found, now = await self._database.read(operation())
        return Listed.of(found, lambda row: _summary(row, now))

    async def enqueue(
        self,
        train: str,
        input_json: str | None,
        options: EnqueueOptions,
        *,
        registry: Registry,
    ) -> QueuedJob:
        """Queue one job of a train that the application knows; no input: the train's default."""
        owner = single_owner(self._owners)
        definition = registry.get(train)
        if input_json is None:
            value = input_left_out(definition)
        else:
            layouts = Layouts([definition.input.layout])
            value = definition.input.decode(
                with_stored_secrets(layouts, train, given=input_json, stored=None)
            )
        request = enqueue_request(owner, definition, [value], options=options)

        def operation() -> Operation[QueuedJob]:
            yield from record_known(owner, registry, train)
            enqueued = yield from enqueue(request)
            (job_id,) = enqueued.ids
            deed = Deed(owner=owner, action="enqueue", subject=train, detail={"entry": job_id})
            yield from record_deed(self._operator, deed)
            return QueuedJob(id=job_id, train=train, is_new=job_id not in enqueued.existing)

        return await self._database.run(operation())

    async def rerun(
        self, run_id: int, *, input_json: str | None = None, registry: Registry | None = None
    ) -> Rerun:
        """Run what is over once more; the copy belongs to no manifest, so its schedule is not touched."""

        def operation() -> Operation[Rerun]:
            run = yield from load_run(run_id, self._owners)
            text = input_json
            if run is not None and text is not None:
                text = yield from edited_input(registry, run.owner, run.train, given=text, stored=run.input)
            again = yield from queue_rerun(run_id, owners=self._owners, input_json=text)
            detail = {"entry": again.id, "is_edited": input_json is not None}
            deed = Deed(owner=again.owner, action="rerun", subject=str(run_id), detail=detail)
            yield from record_deed(self._operator, deed)
            return again

        return await self._database.run(operation())


def _summary(row: Row, now: datetime) -> EntrySummary:
    return EntrySummary(
        id=row.id,
        train=row.train,
        manifest=row.manifest,
        group=row.group_name,
        status=row.status,
        gate=_gate(row, now) if row.status == "queued" else None,
        reason=row.reason,
        origin=row.origin,
        priority=row.priority,
        attempt=row.attempt,
        due_at=row.due_at,
        due_until=row.due_until,
        occurrences=row.occurrences,
        scheduled_at=row.scheduled_at,
        created_at=row.created_at,
        dispatched_at=row.dispatched_at,
        dead_letter_id=row.dead_letter_id,
        error=row.error,
        owner=row.owner,
    )


def _gate(row: Row, now: datetime) -> str:
    """Name what an entry waits for; a gate that was opened under a wrong clock does not make it ready."""
    return "time" if row.gate == "open" and row.scheduled_at > now else str(row.gate)
