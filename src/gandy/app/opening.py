"""One opening of an application: its database, its provided values, its engine."""

from __future__ import annotations

import logging
import sys
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING

from gandy.context import ClockTrust, Context
from gandy.desk.declarations import with_defaults
from gandy.desk.queue import EnqueueOptions, enqueue_request
from gandy.errors import ManifestNotFoundError, TriggerInputConflictError
from gandy.store.drivers.opening import open_database
from gandy.store.queueing import enqueue, lock_manifest, trigger
from gandy.train.base import Engine
from gandy.train.log import MaskingFactory, RunLogHandler
from gandy.train.registry import OfThisProcess
from gandy.train.run import leave_reports, mask_reports, running_now
from gandy.work.layouts import LayoutRecord
from gandy.work.local_runs import LocalRuns

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from gandy.app.declaring import Declaring
    from gandy.clock import ManualClock
    from gandy.lifecycle import Contract
    from gandy.settings import Settings
    from gandy.store.drivers.database import Database
    from gandy.store.statements import Operation
    from gandy.train.registry import AnyTrain, Registry
    from gandy.train.run import Run


@dataclass(frozen=True, slots=True, kw_only=True)
class HostApp(OfThisProcess):
    """The application, as provided to its trains."""

    owner: str
    registry: Registry
    database: Database
    url: str
    clock: ManualClock | None = None
    trust: ClockTrust | None = None  #: returns the current instant of a trusted clock

    async def queue_again(self, run: Run, value: object) -> int | None:
        """Queue the train of a run again with this input, and return the id of the queued entry.

        A run of a manifest triggers its manifest; return None if that is disabled or orphaned.
        """
        train = self.registry.get(run.train)
        if run.manifest is None:
            return await self.database.run(self._enqueue(train, value))
        try:
            return await self.database.run(self._trigger(run.manifest, train.input.encode(value)))
        except ManifestNotFoundError:
            return None
        except TriggerInputConflictError:  # an entry with another input is queued and cannot be reused
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


def find_place(app: Declaring) -> str | None:
    """Return MODULE:NAME, found in the modules of the trains; None if no other process can import it."""
    modules = {definition.source.__module__: None for definition in app.registry}
    for module in modules:
        if module == "__main__":
            continue
        for name, value in vars(sys.modules.get(module, app)).items():
            if value is app:
                return f"{module}:{name}"
    return None


_handler = RunLogHandler(running_now)
_lock = Lock()
_holders = 0


@contextmanager
def logs_kept_with_runs() -> Iterator[None]:
    """Add a handler to the root logger; it is shared by all open applications, so each line is kept once."""
    _hold(1)
    try:
        yield
    finally:
        _hold(-1)


def _hold(change: int) -> None:
    global _holders  # noqa: PLW0603 - like the root logger, one for the process
    with _lock:
        _holders += change
        if _holders:
            logging.getLogger().addHandler(_handler)
            _mask_records()
            mask_reports()
        else:
            logging.getLogger().removeHandler(_handler)
            _leave_records()
            leave_reports()


def _mask_records() -> None:
    """Mask secrets when a log record is made, for the other handlers of the process."""
    make = logging.getLogRecordFactory()
    if not isinstance(make, MaskingFactory):
        logging.setLogRecordFactory(MaskingFactory(running_now, make))


def _leave_records() -> None:
    make = logging.getLogRecordFactory()
    if isinstance(make, MaskingFactory):  # else the application has installed its own factory
        logging.setLogRecordFactory(make.make)


class OpenApp:
    """An open application: its context, and the runs that it executes itself."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.layouts = LayoutRecord(context.database, context.owner)
        self.runs = LocalRuns(context, self.layouts)


@asynccontextmanager
async def opened(
    app: Declaring,
    settings: Settings,
    *,
    contracts: tuple[Contract, ...] = (),
    clock: ManualClock | None = None,
) -> AsyncIterator[OpenApp]:
    """Connect, verify, make the provided values; write nothing (but migrate an embedded database)."""
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
        context = Context(
            owner=app.name,
            database=database,
            settings=settings,
            registry=app.registry,
            provided=values,
            hooks=app.hooks,
            events=app.events,
            engine=engine,
            declarations=with_defaults(app.declarations, settings),
            contracts=contracts,
            submitter=app.submitter,
            place=place,
            clock=clock,
            trust=trust,
        )
        open_app = OpenApp(context)
        stack.push_async_callback(open_app.runs.close)
        yield open_app
