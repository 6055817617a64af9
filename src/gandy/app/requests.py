"""Requests for work as operations, and the jobs that they return."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, Generic, TypeAlias, TypeVar

from gandy.app.keywords import split_place
from gandy.desk.declarations import (
    NotGiven,
    check_passed,
    declare,
    filled_in,
    input_value,
    placed,
    schedule_options,
    split_arguments,
)
from gandy.desk.queue import EnqueueOptions, enqueue_request
from gandy.errors import (
    JobCancelledError,
    JobFailedError,
    JobNotFoundError,
    JobTimeoutError,
)
from gandy.model.owners import ALL_OWNERS
from gandy.model.run import TrainState
from gandy.settings.bounds import check
from gandy.store.owners import record_layouts
from gandy.store.queueing import enqueue, is_one_statement, lock_manifest, remove_manifest, trigger
from gandy.store.runs import JobView, find_job
from gandy.store.seeding import add_manifest
from gandy.store.statements import Operation
from gandy.work.layouts import layout_of_train

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from gandy.app.configuration import Configuration
    from gandy.app.keywords import AnyTrain, EnqueueKeywords
    from gandy.model.schedule import TimeSchedule
    from gandy.store.drivers.database import Transaction
    from gandy.store.queueing import Enqueued, EnqueueRequest, RemovedManifest
    from gandy.train.codec import PayloadCodec
    from gandy.train.registry import AnyTrain as Definition
    from gandy.train.registry import Registry


Out = TypeVar("Out")
ReadJob: TypeAlias = Callable[[Operation[JobView | None]], Awaitable[JobView | None]]

PART: Final = 2_000  #: inputs that are encoded while the database inserts as many before them
_FIRST_PAUSE: Final = 0.01
_LONGEST_PAUSE: Final = 0.5
_ENDED: Final = frozenset({TrainState.COMPLETED, TrainState.FAILED, TrainState.CANCELLED})


class Job(Generic[Out]):
    """Queued work; `gandy runs show` takes its id."""

    __slots__ = ("_output", "_read", "id", "is_new", "train")

    def __init__(
        self, id: int, *, train: str, read: ReadJob, output: PayloadCodec[Out], is_new: bool = True
    ) -> None:
        self._read = read
        self._output = output
        self.id = id
        self.train = train
        self.is_new = is_new  #: False if a job with the same unique key already existed

    def __repr__(self) -> str:
        return f"<Job {self.id} of {self.train}>"

    async def result(self, timeout: float | timedelta | None = None) -> Out:  # noqa: ASYNC109 - waits for other processes
        """Wait for the job's end, through its retries, and return its output; raise if it failed.

        `timeout` is in seconds or a timedelta; the job continues after it.
        """
        if timeout is not None:
            check("wait", timeout, called="timeout")
        limit = timeout if isinstance(timeout, timedelta) or timeout is None else timedelta(seconds=timeout)
        loop = asyncio.get_running_loop()
        deadline = None if limit is None else loop.time() + limit.total_seconds()
        pause = _FIRST_PAUSE
        attempt = self.id
        while (view := await self._find(attempt)).state not in _ENDED:
            attempt = view.id
            if limit is not None and deadline is not None:
                if loop.time() >= deadline:
                    raise JobTimeoutError(self.id, self.train, waited=limit, state=view.state)
                pause = min(pause, max(deadline - loop.time(), 0))
            await asyncio.sleep(pause)
            pause = min(max(pause, _FIRST_PAUSE) * 1.5, _LONGEST_PAUSE)
        return self._value(view)

    async def _find(self, attempt: int) -> JobView:
        view = await self._read(find_job(attempt, ALL_OWNERS))  # the id comes from its own enqueue
        if view is None:
            raise JobNotFoundError(self.id)
        return view

    def _value(self, view: JobView) -> Out:
        if view.state == TrainState.FAILED:
            raise JobFailedError(
                self.id, self.train, exception=view.failure_exception, reason=view.failure_reason
            )
        if view.state == TrainState.CANCELLED:
            raise JobCancelledError(self.id, self.train, by=view.cancellation_reason)
        return self._output.decode(view.output or "null")


ScheduleArguments: TypeAlias = "tuple[object, TimeSchedule | None]"


class Requests:
    """Turns requests into operations, and their results into jobs; it uses no connection."""

    def __init__(
        self, owner: str, registry: Registry, read: ReadJob, *, configuration: Configuration
    ) -> None:
        self._owner = owner
        self._configuration = configuration
        self._registry = registry
        self._read = read

    def enqueue(self, train: AnyTrain, value: object, keywords: EnqueueKeywords) -> PreparedEnqueue:
        """Request one job; the input may be omitted if the train needs none."""
        definition = self._registry.resolve(train)
        return self._asked(definition, [input_value(definition, value)], keywords)

    def enqueue_many(
        self, train: AnyTrain, values: Sequence[object], keywords: EnqueueKeywords
    ) -> PreparedEnqueue:
        """Request a job for every input."""
        return self._asked(self._registry.resolve(train), values, keywords)

    def enqueue_in_parts(
        self, train: AnyTrain, values: Sequence[object], keywords: EnqueueKeywords
    ) -> Iterator[PreparedEnqueue]:
        """Request a job for every input, encoding each part only when it is taken.

        Jobs that are unique are one part: their keys are compared with each other.
        """
        definition = self._registry.resolve(train)
        is_unique = definition.options.unique_until is not None or _options(keywords).is_unique
        size = len(values) if is_unique else PART
        for first in range(0, len(values), max(size, 1)):
            yield self._asked(definition, values[first : first + size], keywords, first=first)

    def add_schedule(
        self,
        external_id: str,
        train: AnyTrain,
        *,
        arguments: ScheduleArguments,
        keywords: Mapping[str, Any],
    ) -> Operation[None]:
        """Make a manifest at run time, on a schedule or after others."""
        options, place = split_place(keywords)
        value, given = split_arguments(*arguments)
        schedule = placed(external_id, given, place)
        definition = self._registry.resolve(train)
        declaration = declare(
            external_id, definition, schedule, input=value, options=schedule_options(options)
        )
        yield from check_passed(self._owner, self._registry, declaration)
        yield from record_layouts(self._owner, [layout_of_train(definition)])
        yield from add_manifest(self._owner, filled_in(declaration, self._configuration.loaded.settings))

    def trigger(self, external_id: str, *, delay: timedelta | None, value: object) -> Operation[Job[Any]]:
        """Queue a manifest; a given input is checked by its train's type."""
        delay = timedelta(0) if delay is None else delay
        check("external_id", external_id)
        check("delay", delay)
        manifest = yield from lock_manifest(external_id, owner=self._owner)
        definition = self._registry.get(manifest.train)
        text = None if isinstance(value, NotGiven) else definition.input.encode(value)
        if text is not None:
            yield from record_layouts(self._owner, [layout_of_train(definition)])
        triggered = yield from trigger(external_id, owner=self._owner, delay=delay, input_json=text)
        return Job(
            triggered.id,
            train=definition.name,
            read=self._read,
            output=definition.output,
            is_new=triggered.is_new,
        )

    def remove_schedule(self, external_id: str) -> Operation[RemovedManifest]:
        """Remove a manifest of this application that was made at run time."""
        check("external_id", external_id)
        return (yield from remove_manifest(external_id, owner=self._owner))

    def _asked(
        self, definition: Definition, values: Sequence[object], keywords: EnqueueKeywords, *, first: int = 0
    ) -> PreparedEnqueue:
        options = _options(keywords)
        request = enqueue_request(self._owner, definition, values, options=options, first=first)
        return PreparedEnqueue(definition, request, self._read)


class PreparedEnqueue:
    """One enqueue, ready to be written on any connection."""

    def __init__(self, definition: Definition, request: EnqueueRequest, read: ReadJob) -> None:
        self.definition = definition
        self._request = request
        self._read = read

    @property
    def is_one_statement(self) -> bool:
        """Whether it needs no transaction, since a single statement is atomic."""
        return is_one_statement(self._request)

    def operation(self, *, is_recorded: bool = True) -> Operation[list[Job[Any]]]:
        """Write the entries and return their jobs; before, record their layout unless `is_recorded`."""
        if not self._request.inputs:
            return []
        if not is_recorded:
            yield from record_layouts(self._request.owner, [layout_of_train(self.definition)])
        return self.jobs((yield from self.entries()))

    def entries(self) -> Operation[Enqueued]:
        """Write the entries."""
        return (yield from enqueue(self._request))

    def jobs(self, enqueued: Enqueued) -> list[Job[Any]]:
        """Return the jobs of the written entries."""
        train, output = self.definition.name, self.definition.output
        existing = enqueued.existing
        return [
            Job(job_id, train=train, read=self._read, output=output, is_new=job_id not in existing)
            for job_id in enqueued.ids
        ]


def _options(keywords: EnqueueKeywords) -> EnqueueOptions:
    given: dict[str, Any] = {name: value for name, value in keywords.items() if name != "connection"}
    return EnqueueOptions(**given)


async def write_in_parts(parts: Iterator[PreparedEnqueue], transaction: Transaction) -> list[Job[Any]]:
    """Write parts in one transaction; while the database inserts one, encode the next.

    The jobs of a part are made in that time, too, so that the database waits for as little as possible.
    """
    jobs: list[Job[Any]] = []
    written: list[tuple[PreparedEnqueue, Enqueued]] = []

    def make_jobs() -> None:
        while written:
            of, enqueued = written.pop()
            jobs.extend(of.jobs(enqueued))

    part = next(parts, None)
    while part is not None:
        writing = asyncio.ensure_future(transaction.run(part.entries()))
        await asyncio.sleep(0)  # until it is sent
        try:
            following = next(parts, None)
            make_jobs()
        finally:
            enqueued = await writing
        written.append((part, enqueued))
        part = following
    make_jobs()
    return jobs
