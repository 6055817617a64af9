"""The worker's loops: claim ahead of the free slots, run, finish, and leave nothing behind."""

from __future__ import annotations

import asyncio
import logging
import os
import platform
import uuid
from contextlib import suppress
from importlib.metadata import version
from typing import TYPE_CHECKING, Final, TypeVar

from gandy.admin.job_runner.reports import RunReports
from gandy.admin.job_runner.runner import JobRunner
from gandy.errors import GandyError
from gandy.events import LeaseLost
from gandy.model.outcome import CancelledBy
from gandy.services.wakeups import wait_for_wake
from gandy.services.worker.attendant import Attendant
from gandy.services.worker.buffer import RunBuffer
from gandy.services.worker.claiming import Claimer
from gandy.services.worker.finisher import Finisher
from gandy.services.worker.lease import LeaseKeeper
from gandy.services.worker.parts import finish_rules, runner_parts
from gandy.store.dispatching import next_due, open_due, put_back
from gandy.store.drivers.link import open_link
from gandy.store.workers import WorkerRegistration, register_worker, stop_worker

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Sequence

    from gandy.services.worker.parts import WorkerParts

T = TypeVar("T")
_log = logging.getLogger("gandy.worker")

INTERRUPT_SECONDS: Final = 2.0
FLUSH_SECONDS: Final = 2.0
RETRY_AFTER_SECONDS: Final = 1.0
FIRST_RETRY_SECONDS: Final = 0.05  # a connection that was cut is mostly back at once
MOST_DOUBLINGS: Final = 5
CLAIMING_LOOPS: Final = 3  # the first ones: they bring new work


class Worker:
    """Runs the application's trains; any number of them may share the database."""

    def __init__(self, parts: WorkerParts) -> None:
        settings = parts.settings
        self._parts = parts
        self._settings = settings.worker
        self._reports = RunReports()
        self._runner = JobRunner(runner_parts(parts, parts.engine, self._reports))
        self._ends = parts.database.session()
        self._finisher = Finisher(
            self._ends,
            finish_rules(parts),
            batch=settings.worker.finish_batch,
            hooks=parts.hooks,
            events=parts.events,
            on_drained=self._look_for_idleness,
            is_busy=lambda: len(self._ready) > 0,
        )
        self._attendant = Attendant(
            parts.database,
            self._runner,
            reports=self._reports,
            finisher=self._finisher,
            held=lambda: [*self._ready.ids, *self._suspects.ids],
        )
        self._ready = RunBuffer()
        self._suspects = RunBuffer()
        self._claimer = Claimer(parts, self, ready=self._ready, suspects=self._suspects)
        self._later = parts.wakeups.event("later")
        self._id = ""
        self._is_until_idle = False
        self._faults = 0
        self._idle = asyncio.Event()
        self._lease: LeaseKeeper | None = None
        self._reborn: asyncio.Future[None] | None = None

    @property
    def id(self) -> str:
        """The worker's identity; a new one after its lease was lost."""
        return self._id

    @property
    def running(self) -> int:
        """How many runs go on."""
        return len(self._runner.running)

    @property
    def parked(self) -> int:
        """How many jobs were parked by ends that this worker wrote."""
        return self._finisher.parked

    async def run(self, stop: asyncio.Event, *, until_idle: bool = False) -> None:
        """Work until told to stop, or until nothing is left to do."""
        self._is_until_idle = until_idle
        await self._persistently(self._register)
        self._parts.wakeups.call("cancel", self._attendant.look)
        loops = [asyncio.create_task(loop) for loop in self._loops()]
        try:
            await self._until(stop, loops, until_idle=until_idle)
        finally:
            await self._shut_down(loops)

    def _loops(self) -> list[Coroutine[object, object, None]]:
        slots = [self._slot(self._ready) for _ in range(self._settings.slots)]
        return [
            self._claimer.run(),
            self._claimer.run_beside(),
            self._open_for_ever(),
            self._finisher.run(),
            self._attendant.run(),
            self._slot(self._suspects),
            *slots,
        ]

    async def _until(
        self, stop: asyncio.Event, loops: Sequence[asyncio.Task[None]], *, until_idle: bool
    ) -> None:
        """Wait for the stop, for idleness where asked, or for a loop that broke."""
        ways: list[asyncio.Task[object]] = [asyncio.create_task(stop.wait())]
        if until_idle:
            ways.append(asyncio.create_task(self._idle.wait()))
        try:
            await asyncio.wait([*ways, *loops], return_when=asyncio.FIRST_COMPLETED)
            for loop in loops:
                if loop.done():
                    loop.result()
        finally:
            for way in ways:
                way.cancel()

    # The loops

    async def _slot(self, buffer: RunBuffer) -> None:
        while True:
            claimed = await buffer.get()
            self._claimer.begin()
            cancelled_by = self._attendant.begin(claimed)
            finished = await self._runner.run(claimed, self._id, cancelled_by=cancelled_by)
            self._attendant.end(claimed.id)
            self._finisher.add(finished)
            if not self._finisher.has_room:
                await self._finisher.wait_for_room()

    @property
    def is_quiet(self) -> bool:
        """Whether nothing is held or runs, and every end is on record."""
        return not (self._runner.running or self._ready or self._suspects or self._finisher.unwritten)

    def note_idle(self) -> None:
        """Take it that nothing is left: the queue was empty after the last end was on record."""
        self._idle.set()

    def _look_for_idleness(self) -> None:
        """Ask the queue once more when all ends are written: it may be the last question."""
        if self._is_until_idle:
            self._claimer.look()

    async def _open_for_ever(self) -> None:
        """Let in what comes due, at its instant."""
        while True:
            poll = self._settings.poll_every.total_seconds()
            if await self.attempt(self._parts.database.run(open_due())):
                self._claimer.look()
            seconds = await self.attempt(self._parts.database.read(next_due()))
            self._claimer.look_for_pending()
            await wait_for_wake(self._later, poll if seconds is None else min(seconds, poll))

    # Beginning and end

    async def _register(self) -> None:
        settings, parts = self._settings, self._parts
        self._id = uuid.uuid4().hex
        worker = WorkerRegistration(
            id=self._id,
            owner=parts.owner,
            host=platform.node(),
            pid=os.getpid(),
            version=version("gandy"),
            slots=settings.slots,
            trains=parts.registry.names,
        )
        await parts.database.run(register_worker(worker, settings.lease_for.total_seconds()))
        self._lease = LeaseKeeper(
            open_link(parts.settings.database, clock=parts.clock),
            settings,
            loop=asyncio.get_running_loop(),
            busy=self._busy,
            on_lost=self._lose_lease,
            on_drain=self._drain,
        )
        self._lease.start(self._id)

    def _busy(self) -> tuple[int, str | None]:
        running = list(self._runner.running.values())
        return len(running), next((run.junction for run in running), None)

    def _lose_lease(self, worker_id: str) -> None:
        """Others may have the runs by now: stop them, and come back as somebody new."""
        if worker_id != self._id:
            return
        _log.error("worker %s lost its lease; its runs are stopped", worker_id)
        self._parts.events.emit(LeaseLost(worker_id=worker_id, runs=len(self._runner.running)))
        self._take_unbegun()
        self._attendant.cancel_all(CancelledBy.LEASE_LOST, "the worker lost its lease")
        self._reborn = asyncio.ensure_future(self._persistently(self._register))

    def _drain(self) -> None:
        self._claimer.is_open = False

    def _take_unbegun(self) -> list[int]:
        """Empty the buffers."""
        return [*self._ready.clear(), *self._suspects.clear()]

    async def _shut_down(self, loops: Sequence[asyncio.Task[None]]) -> None:
        """Stop claiming, let runs end, interrupt the rest, write what is left; wait for no dead database."""
        await self._claimer.settle(FLUSH_SECONDS)
        for loop in loops[:CLAIMING_LOOPS]:
            loop.cancel()
        unbegun = self._take_unbegun()
        is_clean = not unbegun or await self._within(
            FLUSH_SECONDS, self._claimer.session.run(put_back(unbegun, self._id))
        )
        await self._until_quiet(self._settings.shutdown_grace.total_seconds())
        self._attendant.cancel_all(CancelledBy.SHUTDOWN, "the worker shut down before the run had ended")
        await self._until_quiet(INTERRUPT_SECONDS)
        await self._until_quiet(FLUSH_SECONDS, is_quiet=lambda: not self._finisher.unwritten)
        if self._lease is not None:
            self._lease.stop()
        if is_clean and not self._runner.running and not self._finisher.unwritten:
            # else the lease runs out, and whoever finds that gives the rest to others
            await self._within(FLUSH_SECONDS, self._parts.database.run(stop_worker(self._id)))
        for loop in loops:
            loop.cancel()
        await asyncio.wait(loops, timeout=FLUSH_SECONDS)
        await self._within(FLUSH_SECONDS, self._close())

    async def _close(self) -> None:
        await self._parts.hook_delivery.close(FLUSH_SECONDS)
        await self._claimer.close()
        await self._ends.close()

    async def _until_quiet(self, seconds: float, is_quiet: Callable[[], bool] | None = None) -> None:
        quiet = is_quiet or (lambda: not self._runner.running)
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not quiet():  # noqa: ASYNC110 runs and ends come and go by many ways; this is the end anyway
                    await asyncio.sleep(0.01)

    async def _within(self, seconds: float, work: Coroutine[object, object, object]) -> bool:
        """Do it if the database answers in time, and say whether it did."""
        try:
            await asyncio.wait_for(work, seconds)
        except (TimeoutError, GandyError) as error:
            _log.warning("not done before the end: %s", str(error) or "the database did not answer in time")
            return False
        return True

    async def attempt(self, work: Awaitable[T]) -> T | None:
        """Do it, or say why not and let the loop go on."""
        try:
            answer = await work
        except GandyError as error:
            _log.warning("%s", error)
            await asyncio.sleep(min(FIRST_RETRY_SECONDS * 2**self._faults, RETRY_AFTER_SECONDS))
            self._faults = min(self._faults + 1, MOST_DOUBLINGS)
            return None
        self._faults = 0
        return answer

    async def _persistently(self, work: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                return await work()
            except GandyError as error:
                _log.warning("%s", error)
                await asyncio.sleep(RETRY_AFTER_SECONDS)
