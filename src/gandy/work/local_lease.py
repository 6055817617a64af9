"""The lease of a process that runs jobs without a worker: if it dies, its runs are recovered."""

from __future__ import annotations

import asyncio
import logging
import os
import platform
from contextlib import closing, contextmanager
from importlib.metadata import version
from typing import TYPE_CHECKING
from uuid import uuid4

from gandy.errors import GandyError
from gandy.events import LeaseLost, RunsRecovered
from gandy.model.run import CancelledBy
from gandy.settings.values import presentable
from gandy.store.drivers.opening import open_link
from gandy.store.reaping import put_back
from gandy.store.workers import WorkerRegistration, register_worker, stop_worker
from gandy.work.lease import LeaseKeeper

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from gandy.context import Context
    from gandy.store.drivers.opening import ThreadLink
    from gandy.train.run import Run
    from gandy.work.tally import RunTally

_log = logging.getLogger("gandy.runs")


class LocalLease:
    """A row in the worker table without slots and trains: it owns runs, but claims none."""

    def __init__(
        self,
        context: Context,
        running: Mapping[int, Run],
        *,
        held: Callable[[], Iterable[int]],
        tally: RunTally,
    ) -> None:
        """Take the running runs, and in `held` the ids of runs whose ends are not recorded yet."""
        self._context = context
        self._running = running
        self._held = held
        self._tally = tally
        self._claims: set[object] = set()
        self._unknown: dict[int, frozenset[object]] = {}  # by run: claims in flight that may return it
        self._gone: frozenset[int] = frozenset()
        self._tasks: set[asyncio.Task[None]] = set()
        self._registering = asyncio.Lock()
        self._id: str | None = None
        self._keeper: LeaseKeeper | None = None

    async def hold(self) -> str:
        """Return the worker id that owns the runs; the first run registers it."""
        async with self._registering:
            if self._id is None:
                self._id = await self._register()
            return self._id

    def lose(self, worker_id: str) -> None:
        """Cancel the runs, which others may have recovered; the next run registers a new worker id."""
        if worker_id != self._id:
            return
        self._id = None
        if self._keeper is not None:
            self._keeper.stop()
        _log.error("the lease of this process, %s, was lost; its runs are cancelled", worker_id)
        self._context.events.emit(LeaseLost(worker_id=worker_id, runs=len(self._running)))
        for run in list(self._running.values()):
            run.request_cancel(CancelledBy.LEASE_LOST, "the process that ran it lost its lease")

    @contextmanager
    def claiming(self) -> Iterator[None]:
        """Mark a claim in flight: an unknown run is not put back before such claims have returned."""
        claim = object()
        self._claims.add(claim)
        try:
            yield
        finally:
            self._claims.discard(claim)

    async def close(self, seconds: float) -> None:
        """Release the lease; with open runs it stays and expires, so that they are recovered."""
        worker_id, self._id = self._id, None
        if self._keeper is not None:
            self._keeper.stop()
        for task in self._tasks:
            task.cancel()
        if worker_id is None:
            return
        try:
            await asyncio.wait_for(self._stop(worker_id), seconds)
        except (GandyError, TimeoutError) as error:
            _log.warning("the end of %s was not recorded: %s", worker_id, str(error) or "no answer in time")

    def _compare(self, worker_id: str, owned: Sequence[int]) -> None:
        """Put back assigned runs that are unknown here, and cancel running runs that it no longer owns.

        Require two renewals: a run may begin or end between the query and its answer.
        """
        if worker_id != self._id:
            return
        before, claims = self._unknown, frozenset(self._claims)
        unknown = frozenset(owned).difference(self._held())
        self._unknown = {run_id: before.get(run_id, claims) for run_id in unknown}
        stray = [run_id for run_id in unknown if run_id in before and not before[run_id] & claims]
        gone = frozenset(self._running).difference(owned)
        stopped, self._gone = gone & self._gone, gone
        if stray:
            task = asyncio.create_task(self._put_back(sorted(stray), worker_id))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        for run_id in stopped:
            self._running[run_id].request_cancel(CancelledBy.LEASE_LOST, "the run was ended or reassigned")

    async def _put_back(self, run_ids: Sequence[int], worker_id: str) -> None:
        try:
            await self._context.database.run(put_back(run_ids, worker_id))
        except GandyError as error:
            _log.warning("%d runs not put back yet: %s", len(run_ids), error)
            return
        _log.warning("%d runs were put back: the answer of their claim was lost", len(run_ids))
        self._context.events.emit(RunsRecovered(cause="answer_lost", count=len(run_ids)))

    async def _stop(self, worker_id: str) -> None:
        try:
            await self._tally.write_last(self._context.database, worker_id)
            await self._context.database.run(stop_worker(worker_id))
        except RuntimeError:  # the interpreter is exiting, and thread pools accept no work
            with closing(self._make_link()) as link:
                link.run(self._tally.written(worker_id, self._tally.take()))
                link.run(stop_worker(worker_id))

    def _make_link(self) -> ThreadLink:
        return open_link(self._context.settings.database, clock=self._context.clock)

    async def _register(self) -> str:
        context, settings, worker_id = self._context, self._context.settings.worker, uuid4().hex
        registration = WorkerRegistration(
            id=worker_id,
            owner=context.owner,
            host=presentable(platform.node()),
            pid=os.getpid(),
            version=version("gandy"),
            slots=0,
            trains=(),
        )
        await context.database.run(register_worker(registration, settings.lease_for.total_seconds()))
        self._keeper = LeaseKeeper(
            self._make_link(),
            settings,
            loop=asyncio.get_running_loop(),
            busy=self._busy,
            on_lost=self.lose,
            on_drain=_go_on,
            on_owned=self._compare,
            tally=self._tally,
        )
        self._keeper.start(worker_id)
        return worker_id

    def _busy(self) -> tuple[int, str | None]:
        running = list(self._running.values())
        return len(running), next((run.junction for run in running), None)


def _go_on() -> None:
    """Ignore a request to drain: this process does not claim work by itself."""
