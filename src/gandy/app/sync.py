"""The sync interface of an application, and the event loop behind it."""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
import weakref
from contextlib import AsyncExitStack, contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias, TypeVar, Unpack, overload

from gandy.app.opening import OpenApp, opened
from gandy.app.requests import PreparedEnqueue, Requests
from gandy.app.verbs.face import Blocking, FaceAccess, Operating
from gandy.desk.declarations import NOT_GIVEN, input_value
from gandy.store.drivers.database import dialect_of
from gandy.train.base import AsyncFunction, AsyncWithoutInput, In, Out, Train

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Iterator
    from datetime import timedelta

    from gandy.app.configuration import Configuration
    from gandy.app.declaring import Declaring
    from gandy.app.keywords import EnqueueKeywords, Parents, PlacedKeywords, ScheduleKeywords
    from gandy.app.requests import Job
    from gandy.clock import ManualClock
    from gandy.model.schedule import TimeSchedule
    from gandy.settings import Settings
    from gandy.store.runs import JobView
    from gandy.store.statements import Operation
    from gandy.train.base import (
        AsyncRunFirst,
        FunctionOf,
        RunFirstTrainOf,
        SyncFunction,
        SyncRunFirst,
        SyncWithoutInput,
        TrainWithInput,
        TrainWithoutInput,
    )


T = TypeVar("T")


class Portal:
    """Opens an application in its own thread and runs coroutines there."""

    def __init__(self, app: Declaring, settings: Settings, *, clock: ManualClock | None = None) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="gandy-sync", daemon=True)
        self._stack = AsyncExitStack()
        self._thread.start()
        try:
            self.open_app: OpenApp = self.call(
                self._stack.enter_async_context(opened(app, settings, clock=clock))
            )
        except BaseException:
            self._stop()
            raise

    def call(self, work: Coroutine[object, object, T]) -> T:
        """Run a coroutine in the thread and wait for it; interrupting the caller cancels the coroutine."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        """Close the application, then the loop and the thread."""
        try:
            self.call(self._stack.aclose())
        finally:
            self._stop()

    def _stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


Result = TypeVar("Result")
AsyncTrainWithoutInput: TypeAlias = type[Train[None, Out]] | AsyncWithoutInput[Out]


class SyncJob(Generic[Result]):
    """A queued job; `result` blocks this thread."""

    __slots__ = ("_face", "_job")

    def __init__(self, face: SyncGandy, job: Job[Result]) -> None:
        self._face = face
        self._job = job

    def __repr__(self) -> str:
        return repr(self._job)

    @property
    def id(self) -> int:
        """The id for `gandy runs show`."""
        return self._job.id

    @property
    def is_new(self) -> bool:
        """False if a job with the same unique key already existed."""
        return self._job.is_new

    def result(self, timeout: float | timedelta | None = None) -> Result:
        """Wait for the job's end, through its retries, and return its output; raise if it failed."""
        return self._face.open().call(self._job.result(timeout))


class SyncGandy(Operating[Blocking]):
    """An application for sync code: opens at first use, safe in threads and after a fork."""

    def __init__(self, app: Declaring, configuration: Configuration) -> None:
        self._app = app
        self._configuration = configuration
        self._requests = Requests(app.name, app.registry, self._read_job, configuration=configuration)
        self._opening = Lock()
        self._portal: Portal | None = None
        self._pid = os.getpid()
        _faces.add(self)

    def open(self) -> Portal:
        """Open the application in a background thread, unless it is already open in this process."""
        self.forget_parent()
        with self._opening:
            if self._portal is None:
                settings = self._configuration.loaded.settings
                self._portal = Portal(self._app, settings, clock=self._configuration.clock)
                atexit.register(self.close)
            return self._portal

    def close(self) -> None:
        """Close the application in this process; the next use opens it again."""
        self.forget_parent()
        with self._opening:
            portal, self._portal = self._portal, None
        if portal is not None:
            atexit.unregister(self.close)
            portal.close()

    @contextmanager
    def set_aside(self) -> Iterator[None]:
        """Keep the present opening unused during the block; close what the block opens instead."""
        with self._opening:
            portal, self._portal = self._portal, None
        try:
            yield
        finally:
            self.close()
            with self._opening:
                self._portal = portal
            if portal is not None:
                atexit.register(self.close)

    def forget_parent(self) -> None:
        """After a fork, forget the parent's connections without closing them."""
        if self._pid != os.getpid():
            _left_behind.append(self._portal)
            self._portal = None
            self._opening = Lock()
            self._pid = os.getpid()

    @overload
    def enqueue(
        self, train: AsyncTrainWithoutInput[Out], **options: Unpack[EnqueueKeywords]
    ) -> SyncJob[Out]: ...

    @overload
    def enqueue(self, train: SyncWithoutInput[Out], **options: Unpack[EnqueueKeywords]) -> SyncJob[Out]: ...

    @overload
    def enqueue(
        self, train: type[Train[In, Out]], input: In, **options: Unpack[EnqueueKeywords]
    ) -> SyncJob[Out]: ...

    @overload
    def enqueue(
        self, train: AsyncFunction[In, Out], input: In, **options: Unpack[EnqueueKeywords]
    ) -> SyncJob[Out]: ...

    @overload
    def enqueue(
        self, train: SyncFunction[In, Out], input: In, **options: Unpack[EnqueueKeywords]
    ) -> SyncJob[Out]: ...

    @overload
    def enqueue(
        self, train: AsyncRunFirst[In, Out], input: In, **options: Unpack[EnqueueKeywords]
    ) -> SyncJob[Out]: ...

    @overload
    def enqueue(
        self, train: SyncRunFirst[In, Out], input: In, **options: Unpack[EnqueueKeywords]
    ) -> SyncJob[Out]: ...

    def enqueue(
        self, train: Any, input: object = NOT_GIVEN, **options: Unpack[EnqueueKeywords]
    ) -> SyncJob[Any]:
        """Queue one job; with `connection=` it is queued when the caller's own transaction commits."""
        asked = self._requests.enqueue(train, input, options)
        return self._write(asked, options.get("connection"))[0]

    @overload
    def enqueue_many(
        self, train: type[Train[In, Out]], inputs: Iterable[In], **options: Unpack[EnqueueKeywords]
    ) -> list[SyncJob[Out]]: ...

    @overload
    def enqueue_many(
        self, train: AsyncFunction[In, Out], inputs: Iterable[In], **options: Unpack[EnqueueKeywords]
    ) -> list[SyncJob[Out]]: ...

    @overload
    def enqueue_many(
        self, train: SyncFunction[In, Out], inputs: Iterable[In], **options: Unpack[EnqueueKeywords]
    ) -> list[SyncJob[Out]]: ...

    @overload
    def enqueue_many(
        self, train: AsyncRunFirst[In, Out], inputs: Iterable[In], **options: Unpack[EnqueueKeywords]
    ) -> list[SyncJob[Out]]: ...

    @overload
    def enqueue_many(
        self, train: SyncRunFirst[In, Out], inputs: Iterable[In], **options: Unpack[EnqueueKeywords]
    ) -> list[SyncJob[Out]]: ...

    def enqueue_many(
        self, train: Any, inputs: Iterable[Any], **options: Unpack[EnqueueKeywords]
    ) -> list[SyncJob[Any]]:
        """Queue a job for every input, all or none."""
        asked = self._requests.enqueue_many(train, list(inputs), options)
        return self._write(asked, options.get("connection"))

    @overload
    def run(self, train: AsyncTrainWithoutInput[Out]) -> Out: ...

    @overload
    def run(self, train: SyncWithoutInput[Out]) -> Out: ...

    @overload
    def run(self, train: type[Train[In, Out]], input: In) -> Out: ...

    @overload
    def run(self, train: AsyncFunction[In, Out], input: In) -> Out: ...

    @overload
    def run(self, train: SyncFunction[In, Out], input: In) -> Out: ...

    @overload
    def run(self, train: AsyncRunFirst[In, Out], input: In) -> Out: ...

    @overload
    def run(self, train: SyncRunFirst[In, Out], input: In) -> Out: ...

    def run(self, train: Any, input: object = NOT_GIVEN) -> Any:
        """Run a train in this process, with a record; return its output or raise the junction's exception."""
        definition = self._app.registry.resolve(train)
        portal = self.open()
        return portal.call(portal.open_app.runs.run(definition, input_value(definition, input)))

    @overload
    def add_schedule(
        self,
        external_id: str,
        train: TrainWithoutInput,
        schedule: TimeSchedule,
        /,
        **options: Unpack[PlacedKeywords],
    ) -> None: ...

    @overload
    def add_schedule(
        self,
        external_id: str,
        train: TrainWithoutInput,
        *,
        schedule: TimeSchedule | None = ...,
        **options: Unpack[PlacedKeywords],
    ) -> None: ...

    @overload
    def add_schedule(
        self,
        external_id: str,
        train: type[Train[In, Any]],
        input: In,
        schedule: TimeSchedule | None = ...,
        **options: Unpack[PlacedKeywords],
    ) -> None: ...

    @overload
    def add_schedule(
        self,
        external_id: str,
        train: FunctionOf[In],
        input: In,
        schedule: TimeSchedule | None = ...,
        **options: Unpack[PlacedKeywords],
    ) -> None: ...

    @overload
    def add_schedule(
        self,
        external_id: str,
        train: RunFirstTrainOf[In],
        input: In,
        schedule: TimeSchedule | None = ...,
        **options: Unpack[PlacedKeywords],
    ) -> None: ...

    @overload
    def add_schedule(
        self,
        external_id: str,
        train: TrainWithInput,
        *,
        after: Parents,
        pass_output: Literal[True],
        **options: Unpack[ScheduleKeywords],
    ) -> None: ...

    def add_schedule(  # noqa: PLR0917 - readable in this order
        self,
        external_id: str,
        train: Any,
        input: object = NOT_GIVEN,
        schedule: TimeSchedule | None = None,
        **options: Any,
    ) -> None:
        """Make a manifest at run time, on a schedule or `after=` others; no deploy prunes it."""
        operation = self._requests.add_schedule(
            external_id, train, arguments=(input, schedule), keywords=options
        )
        portal = self.open()
        portal.call(portal.open_app.context.database.run(operation))

    def trigger(
        self, external_id: str, *, delay: timedelta | None = None, input: object = NOT_GIVEN
    ) -> SyncJob[Any]:
        """Queue a manifest now or after a delay; if an entry is already queued, that entry is reused."""
        portal = self.open()
        operation = self._requests.trigger(external_id, delay=delay, value=input)
        return SyncJob(self, portal.call(portal.open_app.context.database.run(operation)))

    def remove_schedule(self, external_id: str) -> None:
        """Remove a manifest that was made at run time; a current run ends first."""
        portal = self.open()
        portal.call(portal.open_app.context.database.run(self._requests.remove_schedule(external_id)))

    def _write(self, asked: PreparedEnqueue, connection: object) -> list[SyncJob[Any]]:
        if connection is None:
            portal = self.open()
            portal.call(portal.open_app.layouts.record([asked.definition]))
            jobs = portal.call(portal.open_app.context.database.run(asked.operation()))
        else:
            from gandy.store.drivers.borrowed import BorrowedConnection  # noqa: PLC0415 - loads a driver

            dialect = dialect_of(self._configuration.loaded.settings.database.url)
            is_recorded = self._portal is not None and self._portal.open_app.layouts.has(asked.definition)
            borrowed = BorrowedConnection(connection, dialect, clock=self._configuration.clock)
            jobs = borrowed.run(asked.operation(is_recorded=is_recorded))
        return [SyncJob(self, job) for job in jobs]

    def _access(self) -> FaceAccess:
        def wait(begin: Callable[[], Coroutine[object, object, T]]) -> T:
            portal = self.open()
            return portal.call(begin())

        return FaceAccess(lambda _: self.open().open_app.context, wait)

    async def _read_job(self, operation: Operation[JobView | None]) -> JobView | None:
        return await self.open().open_app.context.database.read(operation)


_faces: weakref.WeakSet[SyncGandy] = weakref.WeakSet()
#: Referenced for ever, because finalising them would close the parent's connections.
_left_behind: list[Portal | None] = []


def _renew_faces() -> None:
    # At the fork, because another thread of the parent may have held the lock that the child inherits.
    for face in list(_faces):
        face.forget_parent()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_faces)
