"""The queue for operators: list entries, enqueue jobs, rerun runs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from gandy.desk.audit import Listed
from gandy.desk.choosing.texts import ENTRIES, search_listing
from gandy.desk.entries import (
    EntrySummary,
    entry_detail,
    entry_explanation,
    entry_summary,
    global_cap,
    picture_entry,
)
from gandy.desk.runs import edited_input, with_stored_secrets
from gandy.errors import EnqueueError, MissingInputError, PayloadError
from gandy.model.layout import Layouts
from gandy.model.manifest import DEFAULT_GROUP
from gandy.settings.bounds import problems_of
from gandy.store.audit import AuditRecord, record_audit
from gandy.store.manifests import read_now
from gandy.store.owners import single_owner
from gandy.store.queueing import EnqueueRequest, Uniqueness, enqueue, uniqueness_key
from gandy.store.reading.listings import queue_rerun
from gandy.store.reading.waits import load_waits
from gandy.store.runs import load_run
from gandy.train.junctions import Required
from gandy.work.layouts import record_known

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gandy.desk.entries import EntryDetail, EntryExplanation
    from gandy.model.owners import Operator, Owners
    from gandy.settings import Settings
    from gandy.settings.bounds import Timeout
    from gandy.store.drivers.database import ReadingRunner
    from gandy.store.queueing import UniqueUntil
    from gandy.store.reading.listings import EntryFilter, Rerun
    from gandy.store.statements import Operation
    from gandy.train.registry import AnyTrain, Registry

_SETTLED: Final = frozenset({"skipped", "cancelled"})
_ENCODED_TOGETHER: Final = 250  #: inputs


@dataclass(frozen=True, slots=True, kw_only=True)
class EnqueueOptions:
    """The options of an enqueue; None takes the train's value."""

    group: str | None = None
    delay: timedelta | None = None
    priority: int | None = None
    max_retries: int | None = None
    retry: bool | None = None
    retry_delay: timedelta | None = None
    timeout: Timeout | None = None
    unique_for: timedelta | None = None
    unique_until: UniqueUntil | None = None
    key: str | None = None

    @property
    def is_unique(self) -> bool:
        """Whether a second job with the same key returns the first."""
        return self.key is not None or self.unique_for is not None or self.unique_until is not None


def input_left_out(definition: AnyTrain) -> object:
    """Return the input of a job without one: the function's default, or None if it has no parameter."""
    if definition.takes_input:
        raise MissingInputError(definition.name, definition.input_type_name)
    return None if isinstance(definition.default_input, Required) else definition.default_input


def enqueue_request(
    owner: str, definition: AnyTrain, values: Sequence[object], *, options: EnqueueOptions, first: int = 0
) -> EnqueueRequest:
    """Check and encode all values, so that the store need not refuse any.

    `first` is the index of the first value among all those of the call.
    """
    if problems := problems_of(options):
        raise EnqueueError(definition.name, problems)
    train = definition.options
    return EnqueueRequest(
        owner=owner,
        train=definition.name,
        inputs=_encoded(definition, values, first),
        input_type_name=definition.input_type_name,
        group=options.group or train.group or DEFAULT_GROUP,
        priority=train.priority if options.priority is None else options.priority,
        delay=options.delay or timedelta(0),
        max_retries=train.max_retries if options.max_retries is None else options.max_retries,
        is_retried=train.retry if options.retry is None else options.retry,
        retry_delay=train.retry_delay if options.retry_delay is None else options.retry_delay,
        timeout=options.timeout or train.timeout,
        uniqueness=_uniqueness(definition, values, options),
    )


def _encoded(definition: AnyTrain, values: Sequence[object], first: int) -> list[str]:
    """Encode every input; an error names the index of the invalid input."""
    codec = definition.input
    texts: list[str] = []
    try:
        for start in range(0, len(values), _ENCODED_TOGETHER):
            some = values[start : start + _ENCODED_TOGETHER]
            # on an error, len(texts) is the index
            texts.extend(codec.encode_together(some) or (codec.encode(value) for value in some))
    except PayloadError as error:
        is_only_one = first == 0 and len(values) == 1
        raise error if is_only_one else error.of_item(first + len(texts)) from None
    return texts


def _uniqueness(definition: AnyTrain, values: Sequence[object], options: EnqueueOptions) -> Uniqueness | None:
    of_train = definition.options.unique_until
    if not options.is_unique and of_train is None:
        return None
    if options.key is None:
        codec = definition.input
        keys = [
            uniqueness_key(definition.name, codec.canonical(value), is_secret=codec.has_secrets)
            for value in values
        ]
    elif len(values) == 1:
        keys = [uniqueness_key(definition.name, options.key)]
    else:
        raise EnqueueError(definition.name, ("one key cannot identify several jobs; leave it out",))
    return Uniqueness(
        keys=keys, until=options.unique_until or of_train or "start", keep_for=options.unique_for
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedJob:
    """An enqueued job."""

    id: int
    train: str
    is_new: bool  #: False: a job with the same key already exists


class QueueDesk:
    """Reads the queue and adds jobs, on behalf of an operator."""

    def __init__(
        self,
        database: ReadingRunner,
        operator: Operator,
        *,
        owners: Owners,
        registry: Registry | None = None,
        settings: Settings | None = None,
    ) -> None:
        """Take the owners whose entries are visible, the trains that declare secrets, and the global cap."""
        self._database = database
        self._operator = operator
        self._cap = None if settings is None else global_cap(settings)
        self._owners = owners
        self._registry = registry

    async def list(self, wanted: EntryFilter) -> Listed[EntrySummary]:
        """List the newest entries first, each with what it waits for."""

        def operation() -> Operation[Listed[EntrySummary]]:
            found = yield from search_listing(ENTRIES, wanted, self._owners, registry=self._registry)
            now = yield from read_now()
            ids = [row.id for row in found.rows if row.status not in _SETTLED]
            waits = yield from load_waits(ids, self._owners, max_active_jobs=self._cap)
            return Listed.of(found, lambda row: entry_summary(row, waits.get(row.id), now))

        return await self._database.read(operation())

    async def show(self, entry_id: int) -> EntryDetail:
        """Show one entry with its input, and what it waits for."""

        def operation() -> Operation[EntryDetail]:
            picture = yield from picture_entry(entry_id, self._owners, cap=self._cap)
            return (yield from entry_detail(picture, self._registry, (yield from read_now())))

        return await self._database.read(operation())

    async def explain(self, entry_id: int) -> EntryExplanation:
        """Return every condition of an entry's start, with whether it holds and what to do."""

        def operation() -> Operation[EntryExplanation]:
            return entry_explanation((yield from picture_entry(entry_id, self._owners, cap=self._cap)))

        return await self._database.read(operation())

    async def enqueue(
        self,
        train: str,
        input_json: str | None,
        options: EnqueueOptions,
        *,
        registry: Registry,
    ) -> QueuedJob:
        """Queue one job of a registered train; without an input, with the train's default."""
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
            detail = {"entry": job_id}
            audited = AuditRecord(owner=owner, action="enqueue", subject=train, detail=detail, about=[job_id])
            yield from record_audit(self._operator, audited)
            return QueuedJob(id=job_id, train=train, is_new=job_id not in enqueued.existing)

        return await self._database.run(operation())

    async def rerun(
        self, run_id: int, *, input_json: str | None = None, registry: Registry | None = None
    ) -> Rerun:
        """Queue a finished run again; the copy has no manifest, so that no schedule is affected."""

        def operation() -> Operation[Rerun]:
            run = yield from load_run(run_id, self._owners)
            text = input_json
            if run is not None and text is not None:
                text = yield from edited_input(registry, run.owner, run.train, given=text, stored=run.input)
            again = yield from queue_rerun(run_id, owners=self._owners, input_json=text)
            detail = {"entry": again.id, "is_edited": input_json is not None}
            audited = AuditRecord(
                owner=again.owner, action="rerun", subject=str(run_id), detail=detail, about=[again.id]
            )
            yield from record_audit(self._operator, audited)
            return again

        return await self._database.run(operation())
