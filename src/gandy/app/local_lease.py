"""The lease of a process that runs jobs without a worker: when it dies, its runs are given to others."""

from __future__ import annotations

import asyncio
import logging
import os
import platform
from contextlib import closing
from importlib.metadata import version
from typing import TYPE_CHECKING
from uuid import uuid4

from gandy.errors import GandyError
from gandy.events import LeaseLost
from gandy.model.outcome import CancelledBy
from gandy.services.worker.lease import LeaseKeeper
from gandy.store.drivers.link import open_link
from gandy.store.workers import WorkerRegistration, register_worker, stop_worker

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gandy.app.opening import OpenApp
    from gandy.store.drivers.link import ThreadLink
    from gandy.train.inside.run import Run

_log = logging.getLogger("gandy.runs")


class LocalLease:
    """A row in the worker table without slots and trains: it holds runs and is asked for none."""

    def __init__(self, app: OpenApp, running: Mapping[int, Run]) -> None:
        """Take the runs that go on here; they are stopped when the lease is lost."""
        self._app = app
        self._running = running
        self._registering = asyncio.Lock()
        self._id: str | None = None
        self._keeper: LeaseKeeper | None = None

    async def hold(self) -> str:
        """Give the identity that runs are held under; the first run makes it."""
        async with self._registering:
            if self._id is None:
                self._id = await self._register()
            return self._id

    def lose(self, worker_id: str) -> None:
        """Stop the runs, which others may have by now; the next run is held under a new identity."""
        if worker_id != self._id:
            return
        self._id = None
        if self._keeper is not None:
            self._keeper.stop()
        _log.error(
            "the lease of this process, %s, was lost; the runs that it had begun are stopped", worker_id
        )
        self._app.events.emit(LeaseLost(worker_id=worker_id, runs=len(self._running)))
        for run in list(self._running.values()):
            run.request_cancel(CancelledBy.LEASE_LOST, "the process that ran it lost its lease")

    async def close(self, *, is_clean: bool, seconds: float) -> None:
        """Give the lease up; one that still has open runs is left to run out, so that they are given back."""
        worker_id, self._id = self._id, None
        if self._keeper is not None:
            self._keeper.stop()
        if worker_id is None or not is_clean:
            return
        try:
            await asyncio.wait_for(self._stop(worker_id), seconds)
        except (GandyError, TimeoutError) as error:
            _log.warning("the end of %s was not recorded: %s", worker_id, str(error) or "no answer in time")

    async def _stop(self, worker_id: str) -> None:
        try:
            await self._app.database.run(stop_worker(worker_id))
        except RuntimeError:  # the interpreter ends, and no thread takes work any more
            with closing(self._make_link()) as link:
                link.run(stop_worker(worker_id))

    def _make_link(self) -> ThreadLink:
        return open_link(self._app.settings.database, clock=self._app.clock)

    async def _register(self) -> str:
        app, settings, worker_id = self._app, self._app.settings.worker, uuid4().hex
        registration = WorkerRegistration(
            id=worker_id,
            owner=app.name,
            host=platform.node(),
            pid=os.getpid(),
            version=version("gandy"),
            slots=0,
            trains=(),
        )
        await app.database.run(register_worker(registration, settings.lease_for.total_seconds()))
        self._keeper = LeaseKeeper(
            self._make_link(),
            settings,
            loop=asyncio.get_running_loop(),
            busy=self._busy,
            on_lost=self.lose,
            on_drain=_go_on,
        )
        self._keeper.start(worker_id)
        return worker_id

    def _busy(self) -> tuple[int, str | None]:
        running = list(self._running.values())
        return len(running), next((run.junction for run in running), None)


def _go_on() -> None:
    """Drain nothing: this process claims no work of its own accord."""
