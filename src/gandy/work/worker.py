"""A worker: its slots, its lease, its start and its shutdown."""

from __future__ import annotations

import asyncio
import logging
import os
import platform
import sys
import uuid
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Final

from gandy.errors import GandyError
from gandy.events import LeaseLost, RunsRecovered
from gandy.loops.poller import LoopGuard, RenewTask, until_quiet, within
from gandy.model.run import CancelledBy
from gandy.settings.values import presentable
from gandy.store.drivers.opening import open_link
from gandy.store.reaping import put_back
from gandy.store.statements import write_bisecting
from gandy.store.workers import WorkerRegistration, owned_runs, register_worker, stop_worker
from gandy.train.hooks import HookDelivery
from gandy.work.attendant import Attendant, Suspects
from gandy.work.buffer import RunBuffer
from gandy.work.finisher import Finisher, finish_rules
from gandy.work.layouts import LayoutRecord
from gandy.work.lease import Idleness, LeaseComparison, LeaseKeeper
from gandy.work.pool import FreedPlaces, Lookout, Pool
from gandy.work.reports import RunReports
from gandy.work.runner import JobRunner
from gandy.work.tally import RunTally

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence

    from gandy.context import Context
    from gandy.loops.wakeups import Wakeups
    from gandy.model.run import ClaimedRun
    from gandy.train.process.runner import RunSet
    from gandy.work.claiming import Claimer
    from gandy.work.runner import FinishedRun


_log = logging.getLogger("gandy.worker")

SERVICE: Final = "worker"
FLUSH_SECONDS: Final = 2.0
LEAVE_SECONDS: Final = 4.5  # after the grace period, for the remaining steps
SHORTEST_SECONDS: Final = 0.1
RETRY_AFTER_SECONDS: Final = 1.0
RETURN_EVERY_SECONDS: Final = 0.5


class Worker:
    """Runs the application's trains; any number of workers may share the database."""

    def __init__(self, context: Context, wakeups: Wakeups) -> None:
        settings = context.settings
        self._context = context
        self._wakeups = wakeups
        self._settings = settings.worker
        self._layouts = LayoutRecord(context.database, context.owner)
        self._guard = LoopGuard(SERVICE, context.events)
        self._claiming = LoopGuard(SERVICE, context.events)
        self._reports = RunReports()
        self._hooks = HookDelivery(context.hooks, timeout=settings.hooks.timeout)
        self._runner = JobRunner(context, self._reports, self._hooks)
        self._ends = context.database.session(), context.database.session()
        self._tally = RunTally(context.owner)
        self._suspects = RunBuffer()
        self._isolated = Suspects(
            self._suspects,
            context.engine,
            context.registry,
            run_one=self._run_suspect,
            slots=settings.worker.slots,
            processes=settings.worker.processes,
        )
        self._pools = list(self._make_pools())
        self._idleness = Idleness(
            context.database, context.owner, heartbeat_every=settings.worker.heartbeat_every, look=self._look
        )
        self._comparison = LeaseComparison([pool.claimer for pool in self._pools])
        self._finisher = Finisher(
            self._ends,
            finish_rules(context),
            batch=settings.worker.finish_batch,
            hooks=self._hooks,
            events=context.events,
            on_drained=self._idleness.look_again,
            on_room=self._look,
            join=FreedPlaces(self._pools).join,
            is_busy=lambda: any(pool.ready.runs for pool in self._pools),
            tally=self._tally,
        )
        self._attendant = Attendant(
            context.database,
            self._runner,
            reports=self._reports,
            finisher=self._finisher,
            held=lambda: [*self._held()],
        )
        self._lookout = Lookout(context, wakeups, self._pools)
        self._id = ""
        self._lease: LeaseKeeper | None = None
        self._tasks: set[asyncio.Future[None]] = set()
        self.begun = 0  #: runs since the start

    def _make_pools(self) -> Iterator[Pool]:
        """Make the slots of the event loop and its threads, and, if trains need them, of processes."""
        settings, trains = self._settings, list(self._context.registry)
        here = [train.name for train in trains if not train.options.process]
        apart = [train.name for train in trains if train.options.process]
        processes = min(settings.processes, settings.slots)
        make = partial(Pool, self._context, self, wakeups=self._wakeups, suspects=self._suspects)
        for names, slots, prefetch in ((here, settings.slots, settings.prefetch), (apart, processes, 0)):
            if names or not trains:
                yield make(trains=names, slots=slots, prefetch=prefetch)

    @property
    def id(self) -> str:
        """The worker's id; it changes after a lost lease."""
        return self._id

    @property
    def parked(self) -> int:
        """The number of dead letters, including entries that could not become runs."""
        return self._finisher.parked + sum(pool.claimer.refused for pool in self._pools)

    async def wait_until_idle(self) -> None:
        """Wait until nothing runs here, and new claims find nothing to do."""
        await self._idleness.wait()

    async def run(self, stop: asyncio.Event, *, until_idle: bool = False) -> None:
        """Work until `stop` is set, or, with `until_idle`, until nothing is left to do."""
        self._idleness.is_wanted = self._idleness.is_wanted or until_idle
        await self._persistently(self._register)
        self._wakeups.call("cancel", self._attendant.look)
        for name, loop in self._claiming_loops():
            self._claiming.keep(name, loop)
        for name, loop in self._working_loops():
            self._guard.keep(name, loop)
        try:
            await self._until(stop, until_idle=until_idle)
        finally:
            await self._shut_down()

    def _claiming_loops(self) -> Iterator[tuple[str, Callable[[], Awaitable[None]]]]:
        """The loops that claim runs and put back those that cannot begin."""
        for pool in self._pools:
            yield "claimer", pool.claimer.run
        yield "lookout", self._lookout.run
        yield "returner", self._return_stalled

    def _working_loops(self) -> Iterator[tuple[str, Callable[[], Awaitable[None]]]]:
        yield "finisher", self._finisher.run
        yield "finisher", self._finisher.run_beside
        yield "attendant", self._attendant.run
        yield "suspects", self._isolated.run
        for pool in self._pools:
            for _ in range(pool.slots):
                yield "slot", partial(self._slot, pool)

    async def _until(self, stop: asyncio.Event, *, until_idle: bool) -> None:
        """Wait for the stop event, or, if requested, for idleness."""
        events = (stop, self._idleness.reached) if until_idle else (stop,)
        while not any(event.is_set() for event in events):
            ways = [asyncio.create_task(event.wait()) for event in events]
            try:
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for way in ways:
                    way.cancel()

    # The loops

    async def _slot(self, pool: Pool) -> None:
        task = asyncio.current_task()
        references = sys.getrefcount(task)
        ready, claimer = pool.ready, pool.claimer
        while True:
            claimed = await ready.get()
            claimer.begin()
            try:
                finished = await self._run(claimed, task=task)
            finally:
                claimer.end(is_capped=claimed.is_capped)  # first: the next claim is sent before this end
            self._finisher.add(finished)
            if not self._finisher.has_room:
                await self._finisher.wait_for_room()
            if sys.getrefcount(task) > references:
                # The job kept a reference to its task and may cancel it later: continue in a new task.
                raise RenewTask

    async def _run_suspect(self, claimed: ClaimedRun, together: RunSet) -> None:
        self._finisher.add(await self._run(claimed, together))

    def _run(
        self,
        claimed: ClaimedRun,
        together: RunSet | None = None,
        *,
        task: asyncio.Task[object] | None = None,
    ) -> Coroutine[object, object, FinishedRun]:
        self.begun += 1
        return self._runner.run(
            claimed,
            self._id,
            cancelled_by=self._attendant.asked_early(claimed.id),
            together=together,
            is_leaving=self._is_leaving,
            task=task,
        )

    def _is_leaving(self) -> bool:
        """Return whether a cancellation of a slot's task is a shutdown; a job can cancel its own task."""
        return self._guard.is_leaving

    @property
    def is_quiet(self) -> bool:
        """Whether nothing is held or running, and every end is recorded."""
        return not (self._runner.running or self._finisher.unwritten or any(self._held()))

    @property
    def ends_when_idle(self) -> bool:
        """Whether someone waits until this worker is idle."""
        return self._idleness.is_wanted

    def _held(self) -> Iterator[int]:
        """Yield the ids of claimed runs that have not begun."""
        for buffer in (*(pool.ready for pool in self._pools), self._suspects):
            yield from buffer.ids

    def note_idle(self, claimer: Claimer, *, is_idle: bool) -> None:
        """Note whether a claim made while the worker was quiet found nothing."""
        self._idleness.note(claimer, is_idle=is_idle, claimers=len(self._pools), worker_id=self._id)

    def _look(self) -> None:
        for pool in self._pools:
            pool.claimer.look()

    async def _return_stalled(self) -> None:
        """Put back held runs while every slot is busy with long jobs."""
        while True:
            await asyncio.sleep(RETURN_EVERY_SECONDS)
            for pool in self._pools:
                await self._put_back(pool.take_stalled())

    # Start and shutdown

    async def _register(self) -> None:
        settings, context = self._settings, self._context
        self._id = uuid.uuid4().hex
        worker = WorkerRegistration(
            id=self._id,
            owner=context.owner,
            host=presentable(platform.node()),
            pid=os.getpid(),
            version=version("gandy"),
            slots=settings.slots,
            trains=context.registry.names,
        )
        await self._layouts.record(context.registry)
        await context.database.run(register_worker(worker, settings.lease_for.total_seconds()))
        self._lease = LeaseKeeper(
            open_link(context.settings.database, clock=context.clock),
            settings,
            loop=asyncio.get_running_loop(),
            busy=self._busy,
            on_lost=self._lose_lease,
            on_drain=self._drain,
            on_owned=self._compare,
            tally=self._tally,
        )
        self._lease.start(self._id)

    def _busy(self) -> tuple[int, str | None]:
        running = list(self._runner.running.values())
        return len(running), next((run.junction for run in running), None)

    def _lose_lease(self, worker_id: str) -> None:
        """Cancel all runs, which others may have recovered, and re-register with a new worker id."""
        if worker_id != self._id:
            return
        _log.error("worker %s lost its lease; cancelling its runs", worker_id)
        self._context.events.emit(LeaseLost(worker_id=worker_id, runs=len(self._runner.running)))
        self._take_unbegun()
        self._attendant.cancel_all(CancelledBy.LEASE_LOST, "the worker lost its lease")
        self._start(self._persistently(self._register))

    def _compare(self, worker_id: str, owned: Sequence[int]) -> None:
        """Put back assigned runs that this worker does not hold; cancel runs that it no longer owns."""
        if worker_id != self._id or self._guard.is_leaving:
            return
        running = [*self._runner.running]
        held = {*running, *self._held(), *self._finisher.ids}
        found = self._comparison.compare(owned, held=held, running=running)
        if found.unknown:
            self._start(self._recover(found.unknown))
        for run_id in found.gone:
            self._attendant.cancel(run_id, CancelledBy.LEASE_LOST, "the run was ended or reassigned")

    async def _recover(self, run_ids: Sequence[int]) -> None:
        count = await self._put_back(run_ids)
        if count:
            _log.warning("%d runs were put back: the answer of their claim was lost", count)
            self._context.events.emit(RunsRecovered(cause="answer_lost", count=count))

    async def _put_back(self, run_ids: Sequence[int]) -> int:
        """Put back runs that were not begun; after a fault the next renewal finds them again."""
        if not run_ids:
            return 0
        try:
            result = await write_bisecting(
                run_ids, lambda part: self._context.database.run(put_back(part, self._id))
            )
        except GandyError as error:
            _log.warning("%d runs not put back yet: %s", len(run_ids), error)
            return 0
        for refused in result.refused:
            _log.error("run %d cannot be put back: %s", refused.item, refused.error)
        return sum(result.written)

    def _drain(self) -> None:
        for pool in self._pools:
            pool.claimer.is_open = False

    def _take_unbegun(self) -> list[int]:
        """Empty the buffers, and return the ids of their runs."""
        return [run_id for pool in self._pools for run_id in pool.ready.clear()] + self._suspects.clear()

    def _start(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _shut_down(self) -> None:
        """Stop claiming, let runs end, cancel the rest, write every end; do not wait for a dead database.

        Ends have priority: they may use the whole grace period, regardless of the time the runs needed.
        """
        clock = asyncio.get_running_loop()
        ends_at = clock.time() + self._settings.shutdown_grace.total_seconds()

        def left(most: float = FLUSH_SECONDS) -> float:
            """Return the time limit of a step: all steps must end LEAVE_SECONDS after the grace period."""
            return max(min(most, ends_at + LEAVE_SECONDS - clock.time()), SHORTEST_SECONDS)

        await asyncio.gather(*(pool.claimer.settle(FLUSH_SECONDS) for pool in self._pools))
        self._guard.leave()
        self._idleness.close()
        self._claiming.cancel()
        unbegun = self._take_unbegun()
        if unbegun:
            self._start(self._give_back(unbegun))
        await until_quiet(ends_at - clock.time(), lambda: not self._runner.running)
        self._attendant.cancel_all(CancelledBy.SHUTDOWN, "the worker shut down before the run had ended")
        await until_quiet(left(), lambda: not self._runner.running)
        seconds = max(ends_at - clock.time(), left())
        await until_quiet(seconds, lambda: not self._finisher.unwritten and not self._tasks)
        if self._finisher.unwritten:
            _log.error(
                "%d ends were not written in time: their runs will be recovered and executed again",
                self._finisher.unwritten,
            )
        if self._lease is not None:
            self._lease.stop()
        await within(left(), self._stop())
        self._guard.cancel()
        leaving = [*self._claiming.tasks, *self._guard.tasks, *self._tasks]
        await asyncio.wait(leaving, timeout=left()) if leaving else None
        await self._hooks.close(max(ends_at - clock.time(), 0.0))
        await within(left(), self._close())

    async def _stop(self) -> None:
        """Put back runs of claims whose answer was lost, then record a clean shutdown."""
        if not self._runner.running and not self._finisher.unwritten:
            await self._put_back(await self._context.database.read(owned_runs(self._id)))
        await self._tally.write_last(self._context.database, self._id)
        await self._context.database.run(stop_worker(self._id))

    async def _give_back(self, run_ids: Sequence[int]) -> None:
        await self._put_back(run_ids)

    async def _close(self) -> None:
        for pool in self._pools:
            await pool.claimer.close()
        for session in self._ends:
            await session.close()

    async def _persistently(self, work: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                return await work()
            except GandyError as error:
                _log.warning("%s", error)
                await asyncio.sleep(RETRY_AFTER_SECONDS)
