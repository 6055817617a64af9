"""The async interface of an open application."""

from __future__ import annotations

import asyncio
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, Unpack, overload

from gandy.app.declaring import Declaring
from gandy.app.requests import PART, PreparedEnqueue, Requests, write_in_parts
from gandy.app.verbs.face import Awaited, FaceAccess, Operating
from gandy.desk.declarations import NOT_GIVEN, input_value
from gandy.errors import AppNotOpenError, AppOpenElsewhereError
from gandy.store.drivers.database import dialect_of
from gandy.store.owners import takes_writers
from gandy.train.base import AsyncFunction, AsyncWithoutInput, In, Out, Train

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import timedelta

    from gandy.app.configuration import Configuration
    from gandy.app.keywords import EnqueueKeywords, Parents, PlacedKeywords, ScheduleKeywords
    from gandy.app.opening import OpenApp
    from gandy.app.requests import Job
    from gandy.model.schedule import TimeSchedule
    from gandy.settings import Settings
    from gandy.store.drivers.database import Database
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

AsyncTrainWithoutInput: TypeAlias = type[Train[None, Out]] | AsyncWithoutInput[Out]


class AsyncFace(Declaring, Operating[Awaited]):
    """Jobs, runs and schedules of an application that is open in this event loop."""

    def __init__(self, name: str, configuration: Configuration) -> None:
        super().__init__(name)
        self._configuration = configuration
        self._requests = Requests(name, self.registry, self._read_job, configuration=configuration)
        self._open: OpenApp | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def settings(self) -> Settings:
        """The effective settings; they are loaded at the first use, not at import."""
        return self._configuration.loaded.settings

    @property
    def database(self) -> Database:
        """The open database."""
        return self._require("its database").context.database

    @overload
    async def enqueue(
        self, train: AsyncTrainWithoutInput[Out], **options: Unpack[EnqueueKeywords]
    ) -> Job[Out]: ...

    @overload
    async def enqueue(self, train: SyncWithoutInput[Out], **options: Unpack[EnqueueKeywords]) -> Job[Out]: ...

    @overload
    async def enqueue(
        self, train: type[Train[In, Out]], input: In, **options: Unpack[EnqueueKeywords]
    ) -> Job[Out]: ...

    @overload
    async def enqueue(
        self, train: AsyncFunction[In, Out], input: In, **options: Unpack[EnqueueKeywords]
    ) -> Job[Out]: ...

    @overload
    async def enqueue(
        self, train: SyncFunction[In, Out], input: In, **options: Unpack[EnqueueKeywords]
    ) -> Job[Out]: ...

    @overload
    async def enqueue(
        self, train: AsyncRunFirst[In, Out], input: In, **options: Unpack[EnqueueKeywords]
    ) -> Job[Out]: ...

    @overload
    async def enqueue(
        self, train: SyncRunFirst[In, Out], input: In, **options: Unpack[EnqueueKeywords]
    ) -> Job[Out]: ...

    async def enqueue(
        self, train: Any, input: object = NOT_GIVEN, **options: Unpack[EnqueueKeywords]
    ) -> Job[Any]:
        """Queue one job; with `connection=` it is queued when the caller's own transaction commits."""
        asked = self._requests.enqueue(train, input, options)
        return (await self._write(asked, options.get("connection")))[0]

    @overload
    async def enqueue_many(
        self, train: type[Train[In, Out]], inputs: Iterable[In], **options: Unpack[EnqueueKeywords]
    ) -> list[Job[Out]]: ...

    @overload
    async def enqueue_many(
        self, train: AsyncFunction[In, Out], inputs: Iterable[In], **options: Unpack[EnqueueKeywords]
    ) -> list[Job[Out]]: ...

    @overload
    async def enqueue_many(
        self, train: SyncFunction[In, Out], inputs: Iterable[In], **options: Unpack[EnqueueKeywords]
    ) -> list[Job[Out]]: ...

    @overload
    async def enqueue_many(
        self, train: AsyncRunFirst[In, Out], inputs: Iterable[In], **options: Unpack[EnqueueKeywords]
    ) -> list[Job[Out]]: ...

    @overload
    async def enqueue_many(
        self, train: SyncRunFirst[In, Out], inputs: Iterable[In], **options: Unpack[EnqueueKeywords]
    ) -> list[Job[Out]]: ...

    async def enqueue_many(
        self, train: Any, inputs: Iterable[Any], **options: Unpack[EnqueueKeywords]
    ) -> list[Job[Any]]:
        """Queue a job for every input, all or none."""
        values = list(inputs)
        is_long = len(values) > PART and options.get("connection") is None
        if is_long and takes_writers(
            self.database.dialect
        ):  # else encoding would prolong a lock of the database
            return await self._write_in_parts(self._requests.enqueue_in_parts(train, values, options))
        asked = self._requests.enqueue_many(train, values, options)
        return await self._write(asked, options.get("connection"))

    @overload
    async def run(self, train: AsyncTrainWithoutInput[Out]) -> Out: ...

    @overload
    async def run(self, train: SyncWithoutInput[Out]) -> Out: ...

    @overload
    async def run(self, train: type[Train[In, Out]], input: In) -> Out: ...

    @overload
    async def run(self, train: AsyncFunction[In, Out], input: In) -> Out: ...

    @overload
    async def run(self, train: SyncFunction[In, Out], input: In) -> Out: ...

    @overload
    async def run(self, train: AsyncRunFirst[In, Out], input: In) -> Out: ...

    @overload
    async def run(self, train: SyncRunFirst[In, Out], input: In) -> Out: ...

    async def run(self, train: Any, input: object = NOT_GIVEN) -> Any:
        """Run a train in this process, with a record; return its output or raise the junction's exception."""
        definition = self.registry.resolve(train)
        open_app = self._require("app.run()")
        return await open_app.runs.run(definition, input_value(definition, input))

    @overload
    async def add_schedule(
        self,
        external_id: str,
        train: TrainWithoutInput,
        schedule: TimeSchedule,
        /,
        **options: Unpack[PlacedKeywords],
    ) -> None: ...

    @overload
    async def add_schedule(
        self,
        external_id: str,
        train: TrainWithoutInput,
        *,
        schedule: TimeSchedule | None = ...,
        **options: Unpack[PlacedKeywords],
    ) -> None: ...

    @overload
    async def add_schedule(
        self,
        external_id: str,
        train: type[Train[In, Any]],
        input: In,
        schedule: TimeSchedule | None = ...,
        **options: Unpack[PlacedKeywords],
    ) -> None: ...

    @overload
    async def add_schedule(
        self,
        external_id: str,
        train: FunctionOf[In],
        input: In,
        schedule: TimeSchedule | None = ...,
        **options: Unpack[PlacedKeywords],
    ) -> None: ...

    @overload
    async def add_schedule(
        self,
        external_id: str,
        train: RunFirstTrainOf[In],
        input: In,
        schedule: TimeSchedule | None = ...,
        **options: Unpack[PlacedKeywords],
    ) -> None: ...

    @overload
    async def add_schedule(
        self,
        external_id: str,
        train: TrainWithInput,
        *,
        after: Parents,
        pass_output: Literal[True],
        **options: Unpack[ScheduleKeywords],
    ) -> None: ...

    async def add_schedule(  # noqa: PLR0917 - readable in this order
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
        await self._require("app.add_schedule()").context.database.run(operation)

    async def trigger(
        self, external_id: str, *, delay: timedelta | None = None, input: object = NOT_GIVEN
    ) -> Job[Any]:
        """Queue a manifest now or after a delay; if an entry is already queued, that entry is reused."""
        operation = self._requests.trigger(external_id, delay=delay, value=input)
        return await self._require("app.trigger()").context.database.run(operation)

    async def remove_schedule(self, external_id: str) -> None:
        """Remove a manifest that was made at run time; a current run ends first."""
        operation = self._requests.remove_schedule(external_id)
        await self._require("app.remove_schedule()").context.database.run(operation)

    async def _write(self, asked: PreparedEnqueue, connection: object) -> list[Job[Any]]:
        if connection is None:
            open_app = self._require("app.enqueue()")
            await open_app.layouts.record([asked.definition])
            database = open_app.context.database
            return await (database.run_apart if asked.is_one_statement else database.run)(asked.operation())
        from gandy.store.drivers.borrowed import BorrowedConnection  # noqa: PLC0415 - loads a driver

        dialect = dialect_of(self.settings.database.url)
        if self._open is not None and takes_writers(dialect):  # the caller's transaction may be rolled back
            await self._require("app.enqueue()").layouts.record([asked.definition])
        is_recorded = self._open is not None and self._open.layouts.has(asked.definition)
        borrowed = BorrowedConnection(connection, dialect, clock=self._configuration.clock)
        return await borrowed.run_async(asked.operation(is_recorded=is_recorded))

    async def _write_in_parts(self, parts: Iterator[PreparedEnqueue]) -> list[Job[Any]]:
        open_app = self._require("app.enqueue_many()")
        first = next(parts)
        await open_app.layouts.record([first.definition])
        async with open_app.context.database.transaction() as transaction:
            return await write_in_parts(chain([first], parts), transaction)

    async def _read_job(self, operation: Operation[JobView | None]) -> JobView | None:
        return await self._require("job.result()").context.database.read(operation)

    def _access(self) -> FaceAccess:
        return FaceAccess(lambda asked: self._require(asked).context)

    def _require(self, asked: str) -> OpenApp:
        if self._open is None:
            raise AppNotOpenError(self.name, asked)
        if self._loop is not asyncio.get_running_loop():
            raise AppOpenElsewhereError(self.name)
        return self._open
