"""`Gandy`: an application, opened and run.

Modules that only an open or running application needs are imported at their use, so that a process that only
declares or requests work starts in half the time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Unpack

from gandy.app.async_face import AsyncFace
from gandy.app.configuration import Configuration
from gandy.desk.declarations import refuse_bad_id
from gandy.errors import AppAlreadyOpenError
from gandy.settings import refuse_bad_values

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator
    from types import TracebackType
    from typing import Self

    from gandy.app.keywords import AnyTrain, CleanupKeywords
    from gandy.app.running import Ticked
    from gandy.app.sync import SyncGandy
    from gandy.app.web import ASGIApplication
    from gandy.app.workers.messages import Launch
    from gandy.clock import ManualClock
    from gandy.lifecycle import Contract
    from gandy.settings import LoadedSettings
    from gandy.store.seeding import SeedResult


class Gandy(AsyncFace):
    """An application: its declarations, and the database where its work is stored.

        app = Gandy("billing", database="sqlite:///billing.db")

        async with app:
            job = await app.enqueue(send_invoice, SendInvoice(number=7))
            receipt = await job.result(timeout=30)

    The name owns all rows of the application in the database. Settings are given by section, as in
    `worker={"slots": 20}`; keywords override the environment, which overrides gandy.toml and the defaults.
    """

    def __init__(self, name: str, database: str | None = None, **settings: Mapping[str, object]) -> None:
        refuse_bad_id(name, what="application")
        super().__init__(name, Configuration(database, settings))
        self._opening = asyncio.Lock()
        self._depth = 0
        self._stack = AsyncExitStack()
        self._scripts: list[SyncGandy] = []

    def __repr__(self) -> str:
        return f"<Gandy {self.name!r}>"

    @property
    def loaded_settings(self) -> LoadedSettings:
        """The settings, with the source of each."""
        return self._configuration.loaded

    @property
    def contracts(self) -> tuple[Contract, ...]:
        """The lifecycle contracts that Python and the contract file declare, each with its database."""
        from gandy.app.contracts import contracts_of  # noqa: PLC0415 - see above

        return contracts_of(self._declared.contracts, self._configuration.loaded)

    def configure(self, settings: Mapping[str, Mapping[str, object]]) -> None:
        """Override settings for the next opening, as the command line does: `{"worker": {"slots": 5}}`."""
        self._configuration.override(settings)

    def use_clock(self, clock: ManualClock | None) -> None:
        """Use this clock instead of the database's at the next opening; for tests."""
        self._configuration.clock = clock

    @contextmanager
    def elsewhere(self, url: str, clock: ManualClock) -> Iterator[None]:
        """Use another database and clock in the block, and be unchanged afterwards; for tests."""
        if self._open is not None or self._scripts:
            raise AppAlreadyOpenError(self.name)
        with self._configuration.replaced(url, clock), self.sync.set_aside():
            yield

    def cleanup(self, **options: Unpack[CleanupKeywords]) -> None:
        """Configure the early deletion of the runs of noisy trains: Gandy's own, and those named here.

        `retention` is one duration for all of them, or a mapping by train, noisy or not:
        `{Poll: timedelta(minutes=5), "*": timedelta(minutes=30)}`.
        """
        given: dict[str, object] = dict(options)
        trains = options.get("trains", ())
        if trains:
            given["trains"] = tuple(self._name_of(train) for train in trains)
        retention = options.get("retention")
        if isinstance(retention, Mapping):
            given["retention"] = {self._name_of(train): span for train, span in retention.items()}
        refuse_bad_values({"cleanup": given})
        self._configuration.override({"cleanup": given})

    def _name_of(self, train: AnyTrain | str) -> str:
        return train if isinstance(train, str) else self.registry.resolve(train).name

    async def __aenter__(self) -> Self:
        from gandy.app.opening import opened  # noqa: PLC0415 - see above

        async with self._opening:
            if self._open is None:
                clock = self._configuration.clock
                opening = opened(self, self.settings, contracts=self.contracts, clock=clock)
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
        """The sync interface for Django, Flask and the like: it opens at first use and again after a fork."""
        return self._make_sync()

    @asynccontextmanager
    async def lifespan(self, asgi_app: object = None) -> AsyncIterator[None]:  # noqa: ARG002 - passed by ASGI
        """Keep the application open as long as a web application runs: `FastAPI(lifespan=app.lifespan)`."""
        async with self:
            yield

    def asgi(self) -> ASGIApplication:
        """Return the dashboard with its REST interface: `web.mount("/jobs", app.asgi())`, or to be served."""
        from gandy.app.web import make_asgi  # noqa: PLC0415 - see above

        return make_asgi(self, lambda: self._require("the dashboard").context)

    @asynccontextmanager
    async def running(
        self,
        services: Iterable[str] | None = None,
        *,
        has_port: bool = False,
        launch: Launch | None = None,
    ) -> AsyncIterator[Self]:
        """Open the application and run services here: `async with app.running(services=("worker",)): ...`.

        With a port, a process without the dashboard still answers probes and serves metrics. The command
        line says by `launch` how a worker process loads the application.
        """
        from gandy.app.running import services_running  # noqa: PLC0415 - see above

        async with (
            self,
            services_running(
                self._require("app.running()").context, services, has_port=has_port, launch=launch
            ),
        ):
            yield self

    async def work(
        self, stop: asyncio.Event, *, until_idle: bool = False, launch: Launch | None = None
    ) -> int:
        """Claim and execute runs until `stop` is set, or until nothing is left to do.

        Return the number of jobs that became dead letters.
        """
        from gandy.app.running import work  # noqa: PLC0415 - see above

        context = self._require("app.work()").context
        return await work(context, stop, until_idle=until_idle, launch=launch)

    async def seed(self) -> SeedResult:
        """Write the declarations, as the manifest-manager service does at its start."""
        from gandy.store.seeding import seed_bisecting  # noqa: PLC0415 - see above

        open_app = self._require("app.seed()")
        await open_app.layouts.record(self.registry)
        return await seed_bisecting(open_app.context.database, open_app.context.declarations)

    async def tick(self, service: str, *, is_clock_right: bool = False) -> Ticked:
        """Run exactly one cycle of a service, and return its result.

        Raise ClockDoubtedError if it would delete by age and the clock cannot be trusted; `is_clock_right`
        confirms the clock.
        """
        from gandy.app.running import tick  # noqa: PLC0415 - see above

        return await tick(self._require("app.tick()").context, service, is_clock_right=is_clock_right)

    async def run_delivered(self, run_id: int) -> bool:
        """Execute a run that a submitter delivered here; return False if it was already started."""
        return await self._require("app.run_delivered()").runs.run_delivered(run_id)

    def _make_sync(self) -> SyncGandy:
        from gandy.app.sync import SyncGandy  # noqa: PLC0415 - see above

        return SyncGandy(self, self._configuration)
