"""One opening of an application: its database, its provided values, its engine."""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gandy.app.defaults import with_defaults
from gandy.app.host import HostApp
from gandy.app.local_runs import LocalRuns
from gandy.app.log_capture import logs_kept_with_runs
from gandy.app.place import find_place
from gandy.store.drivers.opening import open_database
from gandy.train.base import Engine
from gandy.upkeep.clock_trust import ClockTrust
from gandy.work.layouts import LayoutRecord

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from gandy.app.declaring import Declaring
    from gandy.clock import ManualClock
    from gandy.events import EventBus
    from gandy.lifecycle import Contract
    from gandy.model.manifest import Declarations
    from gandy.settings import Settings
    from gandy.store.drivers.database import Database
    from gandy.submit import Submitter
    from gandy.train.execution import ProvidedValues
    from gandy.train.hooks import Hooks
    from gandy.train.registry import Registry


@dataclass(slots=True, eq=False, kw_only=True)
class OpenApp:
    """What is there while an application is open; each event loop that opens it has one of its own."""

    name: str
    settings: Settings
    database: Database
    values: ProvidedValues
    engine: Engine
    registry: Registry
    hooks: Hooks
    events: EventBus
    declarations: Declarations
    place: str | None  #: where another process can import the application, "module:name"
    contracts: tuple[Contract, ...] = ()
    clock: ManualClock | None = None
    submitter: Submitter | None = None  #: None: workers take runs from the database
    trust: ClockTrust
    layouts: LayoutRecord = field(init=False)
    runs: LocalRuns = field(init=False)

    def __post_init__(self) -> None:
        self.layouts = LayoutRecord(self.database, self.name)
        self.runs = LocalRuns(self)


@asynccontextmanager
async def opened(
    app: Declaring,
    settings: Settings,
    *,
    contracts: tuple[Contract, ...] = (),
    clock: ManualClock | None = None,
) -> AsyncIterator[OpenApp]:
    """Connect, verify, make the provided values; write nothing (an embedded database migrates itself)."""
    app.registry.check_provided({**app.provided.declared, HostApp: None})
    async with AsyncExitStack() as stack:
        database = open_database(settings.database, clock=clock)
        stack.push_async_callback(database.close)
        await database.open()
        trust = ClockTrust(database, clock)
        host = HostApp(
            owner=app.name,
            registry=app.registry,
            database=database,
            url=settings.database.url,
            clock=clock,
            trust=trust,
        )
        values = {**await stack.enter_async_context(app.provided.opened()), HostApp: host}
        worker = settings.worker
        place = find_place(app)
        engine = Engine(host=place, max_threads=worker.threads, max_processes=worker.processes)
        stack.push_async_callback(engine.close)
        stack.enter_context(logs_kept_with_runs())
        open_app = OpenApp(
            name=app.name,
            settings=settings,
            database=database,
            values=values,
            engine=engine,
            registry=app.registry,
            hooks=app.hooks,
            events=app.events,
            declarations=with_defaults(app.declarations, settings),
            place=place,
            contracts=contracts,
            clock=clock,
            submitter=app.submitter,
            trust=trust,
        )
        stack.push_async_callback(open_app.runs.close)
        yield open_app
