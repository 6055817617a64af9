"""`Gandy`: an application, its async face."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias, Unpack, overload

from gandy.app.asking import Asking
from gandy.app.configuration import Configuration
from gandy.app.declaring import Declaring
from gandy.app.manifests import NOT_GIVEN, input_value, refuse_bad_id
from gandy.app.opening import opened
from gandy.app.running import services_running, work
from gandy.app.sync import SyncGandy
from gandy.app.ticking import tick
from gandy.app.web import make_asgi
from gandy.errors import AppNotOpenError, AppOpenElsewhereError
from gandy.store.drivers.borrowed import BorrowedConnection
from gandy.store.drivers.urls import dialect_of
from gandy.store.seeding import seed
from gandy.store.triggers import remove_manifest
from gandy.train.base import Train
from gandy.train.typed import AsyncFunction, AsyncWithoutInput, In, Out

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Mapping
    from datetime import timedelta
    from types import TracebackType
    from typing import Self

    from gandy.app.job import Job
    from gandy.app.keywords import CleanupKeywords, EnqueueKeywords, RuntimeScheduleKeywords, TimeSchedule
    from gandy.app.opening import OpenApp
    from gandy.app.ticking import Ticked
    from gandy.app.web import ASGIApplication
    from gandy.clock import ManualClock
    from gandy.settings import LoadedSettings, Settings
    from gandy.store.drivers.database import Database
    from gandy.store.runs import JobView
    from gandy.store.seeding import SeedResult
    from gandy.store.statements import Operation
    from gandy.train.typed import (
        AsyncRunFirst,
        FunctionOf,
        RunFirstTrainOf,
        SyncFunction,
        SyncRunFirst,
        SyncWithoutInput,
        TrainWithoutInput,
    )

AsyncTrainWithoutInput: TypeAlias = type[Train[None, Out]] | AsyncWithoutInput[Out]


class Gandy(Declaring):
    """An application: what it declares, and the database where its work is kept.

        app = Gandy("billing", database="sqlite:///billing.db")

        async with app:
            job = await app.enqueue(send_invoice, SendInvoice(number=7))
            receipt = await job.result(timeout=30)

    The name owns all that the application puts into the database. Settings are given by section, as in
    `worker={"slots": 20}`; a keyword stands over the environment, that over gandy.toml, that over defaults.
    """

    def __init__(self, name: str, database: str | None = None, **settings: Mapping[str, object]) -> None:
        refuse_bad_id(name, what="application")
        super().__init__(name)
        self._configuration = Configuration(database, settings)
        self._asking = Asking(name, self.registry, self._read_job)
        self._opening = asyncio.Lock()
        self._open: OpenApp | None = None
        self._depth = 0
        self._stack = AsyncExitStack()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._scripts: list[SyncGandy] = []

    def __repr__(self) -> str:
        return f"<Gandy {self.name!r}>"

    @property
    def settings(self) -> Settings:
        """The settings in force; they are loaded when they are first asked for, not at import."""
        return self._configuration.loaded.settings

    @property
    def loaded_settings(self) -> LoadedSettings:
        """The settings, and where each came from."""
        return self._configuration.loaded

    def configure(self, settings: Mapping[str, Mapping[str, object]]) -> None:
        """Override settings for the next opening, as the command line does: `{"worker": {"slots": 5}}`."""
        self._configuration.override(settings)

    def use_clock(self, clock: ManualClock | None) -> None:
        """Let the next opening go by this clock instead of the database's own; for tests."""
        self._configuration.clock = clock

    def cleanup(self, **options: Unpack[CleanupKeywords]) -> None:
        """Have the runs of noisy trains deleted soon: those of Gandy's own, and the ones named here."""
        given: dict[str, object] = dict(options)
        trains = options.get("trains", ())
        if trains:
            given["trains"] = tuple(
                train if isinstance(train, str) else self.registry.resolve(train).name for train in trains
            )
        self._configuration.override({"cleanup": given})

    # Opening

    async def __aenter__(self) -> Self:
        async with self._opening:
            if self._open is None:
                clock = self._configuration.clock
                opening = opened(self, self.settings, clock=clock)
                self._open = await self._stack.enter_async_context(opening)
                self._loop = asyncio.get_running_loop()
                self._declared.is_sealed = True
            self._require("opening it again")
            self._depth += 1
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._depth -= 1
        if self._depth == 0:
            self._open = None
            await self._stack.aclose()
            self._declared.is_sealed = False

    def __enter__(self) -> SyncGandy:
        script = self._make_sync()
        script.open()
        self._scripts.append(script)
        return script

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._scripts.pop().close()

    @cached_property
    def sync(self) -> SyncGandy:
        """The sync face for Django, Flask and the like: it opens on first use and again after a fork."""
        return self._make_sync()

    @asynccontextmanager
    async def lifespan(self, asgi_app: object = None) -> AsyncIterator[None]:  # noqa: ARG002 - what ASGI passes
        """Be open for as long as a web application is: `FastAPI(lifespan=app.lifespan)`."""
        async with self:
            yield

    def asgi(self) -> ASGIApplication:
        """Give the dashboard with its REST interface: `web.mount("/gandy", app.asgi())`, or serve it alone."""
        return make_asgi(self, lambda: self._require("the dashboard"))

    @asynccontextmanager
    async def running(self, services: Iterable[str] | None = None) -> AsyncIterator[Self]:
        """Be open and run services in this process: `async with app.running(services=("worker",)): ...`."""
        async with self, services_running(self._require("app.running()"), services):
            yield self

    async def work(self, stop: asyncio.Event, *, until_idle: bool = False) -> int:
        """Claim runs and execute them until told to stop, or until nothing is left to do.

        Returns how many jobs were parked meanwhile.
        """
        return await work(self._require("app.work()"), stop, until_idle=until_idle)

    async def seed(self) -> SeedResult:
        """Write what is declared, as the manifest-manager service does at its start."""
        return await self._require("app.seed()").database.run(seed(self.declarations))

    async def tick(self, service: str) -> Ticked:
        """Run exactly one cycle of a service, and say what it did."""
        return await tick(self._require("app.tick()"), service)

    async def run_delivered(self, run_id: int) -> bool:
        """Take up a run that a submitter brought here; False where it was taken up before."""
        return await self._require("app.run_delivered()").runs.run_delivered(run_id)

    @property
    def database(self) -> Database:
        """The open database."""
        return self._require("its database").database

    # Asking

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
        asked = self._asking.enqueue(train, input, options)
        return (await self._write(asked.operation(), options.get("connection")))[0]

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
        asked = self._asking.enqueue_many(train, list(inputs), options)
        return await self._write(asked.operation(), options.get("connection"))

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
        """Run a train here and now, with a record; return its output or raise what a junction raised."""
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
        **options: Unpack[RuntimeScheduleKeywords],
    ) -> None: ...

    @overload
    async def add_schedule(
        self,
        external_id: str,
        train: TrainWithoutInput,
        *,
        schedule: TimeSchedule | None = ...,
        **options: Unpack[RuntimeScheduleKeywords],
    ) -> None: ...

    @overload
    async def add_schedule(
        self,
        external_id: str,
        train: type[Train[In, Any]],
        input: In,
        schedule: TimeSchedule | None = ...,
        **options: Unpack[RuntimeScheduleKeywords],
    ) -> None: ...

    @overload
    async def add_schedule(
        self,
        external_id: str,
        train: FunctionOf[In],
        input: In,
        schedule: TimeSchedule | None = ...,
        **options: Unpack[RuntimeScheduleKeywords],
    ) -> None: ...

    @overload
    async def add_schedule(
        self,
        external_id: str,
        train: RunFirstTrainOf[In],
        input: In,
        schedule: TimeSchedule | None = ...,
        **options: Unpack[RuntimeScheduleKeywords],
    ) -> None: ...

    async def add_schedule(  # noqa: PLR0917 - it reads in this order
        self,
        external_id: str,
        train: Any,
        input: object = NOT_GIVEN,
        schedule: TimeSchedule | None = None,
        **options: Unpack[RuntimeScheduleKeywords],
    ) -> None:
        """Make a manifest at run time, on a schedule or `after=` another one; no deploy prunes it."""
        operation = self._asking.add_schedule(
            external_id, train, arguments=(input, schedule), keywords=options
        )
        await self._require("app.add_schedule()").database.run(operation)

    async def trigger(
        self, external_id: str, *, delay: timedelta | None = None, input: object = NOT_GIVEN
    ) -> Job[Any]:
        """Queue a manifest now or after a delay, with its own input or another; one that waits serves."""
        operation = self._asking.trigger(external_id, delay=delay, value=input)
        return await self._require("app.trigger()").database.run(operation)

    async def remove_schedule(self, external_id: str) -> None:
        """Remove a manifest that was made at run time; one that runs ends first."""
        operation = remove_manifest(external_id, owner=self.name)
        await self._require("app.remove_schedule()").database.run(operation)

    def _make_sync(self) -> SyncGandy:
        return SyncGandy(self, self._configuration)

    async def _write(self, operation: Operation[list[Job[Any]]], connection: object) -> list[Job[Any]]:
        if connection is None:
            return await self._require("app.enqueue()").database.run(operation)
        dialect = dialect_of(self.settings.database.url)
        borrowed = BorrowedConnection(connection, dialect, clock=self._configuration.clock)
        return await borrowed.run_async(operation)

    async def _read_job(self, operation: Operation[JobView | None]) -> JobView | None:
        return await self._require("job.result()").database.read(operation)

    def _require(self, asked: str) -> OpenApp:
        if self._open is None:
            raise AppNotOpenError(self.name, asked)
        if self._loop is not asyncio.get_running_loop():
            raise AppOpenElsewhereError(self.name)
        return self._open
