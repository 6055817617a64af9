"""Run trains in child processes: kept for later runs if the app is importable, or shared by a set."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import signal
import sys
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from gandy.errors import GandyError, TrainProcessError
from gandy.model.run import Cancelled, Outcome
from gandy.train.failure import failure
from gandy.train.process.child import host_of
from gandy.train.process.messages import Ended, StartMessage, from_message
from gandy.train.process.parent import ChildProcess, EndFuture

if TYPE_CHECKING:
    from gandy.model.run import Timings
    from gandy.train.definition import TrainDefinition
    from gandy.train.run import Run

CANCEL_GRACE: Final = timedelta(seconds=2)
PREPARE_GRACE: Final = timedelta(minutes=2)
FIRST_PAUSE: Final = 0.1
LONGEST_PAUSE: Final = 2.0
#: Descriptors, memory, processes: not the fault of a job.
_SCARCE: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN})
_log = logging.getLogger("gandy.process")

CLOSED: Final = "closed its connection to the worker"
NO_TICKET: Final = 0  # no child is assigned yet
Supervised: TypeAlias = "tuple[ChildProcess | None, Ended | None]"


class ProcessLimits:
    """Limits the number of busy processes; a run that waits for a process can be cancelled."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.free = total
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def take(self, run: Run) -> None:
        """Take a place, or wait for one; a request to cancel the run ends the wait by CancelledError."""
        if self.free:
            self.free -= 1
            return
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        run.interruptible(waiting)
        try:
            await waiting
        except asyncio.CancelledError:
            if waiting.done() and not waiting.cancelled():  # the place was granted at the same moment
                self.give_back()
            raise
        finally:
            run.interruptible(None)

    def give_back(self) -> None:
        """Release a place to the run that has waited longest."""
        while self._waiting:
            waiting = self._waiting.popleft()
            if not waiting.done():
                waiting.set_result(None)
                return
        self.free += 1


class RunSet:
    """Runs that are isolated together: they share a process, which is used for nothing else.

    `size` is the number of runs in it. `is_here` marks a set of one run that cannot leave this process.
    """

    def __init__(self, size: int, *, is_here: bool = False) -> None:
        self.size = size
        self.is_here = is_here
        self.child: asyncio.Future[ChildProcess] | None = None


class ProcessRunner:
    """Runs trains in processes. Belongs to one event loop, unless it has no host and so keeps no process."""

    def __init__(
        self,
        *,
        host: str | None = None,
        max_processes: int | None = None,
        cancel_grace: timedelta = CANCEL_GRACE,
    ) -> None:
        """Take the app's place as "module:name"; without one, each run gets a new process."""
        self.host = host
        self._cancel_grace = cancel_grace
        self._idle: list[ChildProcess] = []
        self._leaving: set[ChildProcess] = set()
        self._starters = ThreadPoolExecutor(4, thread_name_prefix="gandy-process-start")
        self.places = ProcessLimits(sys.maxsize if host is None else max_processes or os.cpu_count() or 1)

    async def execute(
        self,
        definition: TrainDefinition[Any, Any],
        value: object,
        *,
        run: Run,
        together: RunSet | None = None,
    ) -> Outcome[Any]:
        """Run a train in a process and return its outcome; the death of the child is a failure.

        Its timeout starts when its code begins. A request to cancel is forwarded to the child, which is
        killed if it does not end within the grace period; after the request the outcome is always cancelled.
        """
        run.started_ns = perf_counter_ns()
        run.is_waiting = True
        try:
            start = _start_of(definition, value, run)
            place = self.host or host_of(definition)
            if run.cancellation is not None:
                return _cancelled(run)
            child, ended = await (
                self._in_place(place, start, run)
                if together is None
                else self._in_set(place, start, run, together=together)
            )
            if run.cancellation is not None:
                return _cancelled(run, ended.timings if ended else ())
            return from_message(ended, definition, run) if ended else _died(child, run)
        except GandyError as error:
            if run.cancellation is not None:
                return _cancelled(run)
            return failure(error, run, junction=run.junction, timings=())
        finally:
            run.is_waiting = False

    def release(self, together: RunSet) -> None:
        """End the process of a finished set."""
        if together.child is not None:
            together.child.add_done_callback(self._let_go_started)

    async def close(self) -> None:
        """End the idle processes."""
        idle, self._idle = self._idle, []
        for child in idle:
            self._let_go(child)
        loop = asyncio.get_running_loop()
        await asyncio.gather(*(loop.run_in_executor(self._starters, child.join) for child in self._leaving))
        self._starters.shutdown(wait=False, cancel_futures=True)

    async def _in_place(self, place: str, start: StartMessage, run: Run) -> Supervised:
        """Run alone in a process that is kept for the next run."""
        try:
            await self.places.take(run)
        except asyncio.CancelledError:
            if run.take_back_interrupts(None) and run.cancellation is not None:
                return None, None
            raise
        try:
            child = await self._idle_or_new(place, run)
            ended = await self._supervised(child, start, run)
            self._let_go(child, keep=self.host is not None)
        finally:
            self.places.give_back()
        return child, ended

    async def _in_set(self, place: str, start: StartMessage, run: Run, *, together: RunSet) -> Supervised:
        """Run in the process of a set; the first run of the set starts it."""
        if together.child is None:
            together.child = asyncio.ensure_future(self._started(place))
        child = await asyncio.shield(together.child)
        return child, await self._supervised(child, start, run)

    async def _idle_or_new(self, place: str, run: Run) -> ChildProcess:
        while self._idle:
            child = self._idle.pop()
            if child.is_alive:
                return child
        return await self._started(place, run)

    async def _started(self, place: str, run: Run | None = None) -> ChildProcess:
        """Start a process; while the host lacks resources for one, try again, until the run is cancelled."""
        pause = FIRST_PAUSE
        while True:
            try:
                return await self._start(place)
            except OSError as error:
                if error.errno not in _SCARCE or (run is not None and run.cancellation is not None):
                    problem = f"no process could be started: {error}"
                    raise TrainProcessError(train=place, problem=problem) from error
                _log.warning("no process could be started: %s; trying again in %g s", error, pause)
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    async def _start(self, place: str) -> ChildProcess:
        starting = asyncio.get_running_loop().run_in_executor(self._starters, ChildProcess, place)
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            starting.add_done_callback(_kill_started)
            raise

    async def _supervised(self, child: ChildProcess, start: StartMessage, run: Run) -> Ended | None:
        """Wait for the end message and forward a request to cancel; if the caller is cancelled, kill it."""
        start = replace(start, ticket=child.next_ticket())
        stop: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        run.interruptible(stop)
        try:
            if run.cancellation is not None:
                return None
            end = child.begin(start, run)
            await self._prepared(child, run, end=end, stop=stop)
            if run.cancellation is None:
                await asyncio.wait((end, stop), return_when=asyncio.FIRST_COMPLETED)
            if not end.done():
                await self._stopped(child, end, run, ticket=start.ticket)
            return await end
        except BaseException:
            child.kill()
            raise
        finally:
            run.interruptible(None)
            run.take_back_interrupts(None)

    async def _prepared(
        self, child: ChildProcess, run: Run, *, end: EndFuture, stop: asyncio.Future[None]
    ) -> None:
        """Limit the time of the child to import the application, which the run's timeout does not include."""
        seconds = PREPARE_GRACE.total_seconds()
        await asyncio.wait((end, stop), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if run.is_waiting and not end.done() and run.cancellation is None:
            child.kill()
            problem = f"its process had not imported the application after {seconds:g} s, and was killed"
            raise TrainProcessError(train=run.train, problem=problem)

    async def _stopped(self, child: ChildProcess, end: EndFuture, run: Run, *, ticket: int) -> None:
        """Ask the child to stop the run; kill it once no other run needs it."""
        if run.cancellation is not None:
            child.stop(ticket, run.cancellation)
        while not end.done():
            await asyncio.wait((end,), timeout=self._cancel_grace.total_seconds())
            if not end.done() and child.all_are_stopping():
                child.kill()
                return

    def _let_go(self, child: ChildProcess, *, keep: bool = False) -> None:
        self._leaving = {each for each in self._leaving if each.is_alive}
        if child.is_alive and keep:
            self._idle.append(child)
        elif child.is_alive:
            self._leaving.add(child)
            child.leave()

    def _let_go_started(self, started: asyncio.Future[ChildProcess]) -> None:
        if not started.cancelled() and started.exception() is None:
            self._let_go(started.result())


def _start_of(definition: TrainDefinition[Any, Any], value: object, run: Run) -> StartMessage:
    return StartMessage(
        ticket=NO_TICKET,
        train=definition.name,
        input_json=definition.input.encode(value),
        id=run.id,
        manifest=run.manifest,
        due_at=run.due_at,
        attempt=run.attempt,
        fence=run.fence,
    )


def _cancelled(run: Run, timings: Timings = ()) -> Cancelled:
    asked = run.cancellation
    if asked is None:
        raise AssertionError  # the callers have checked
    return Cancelled(asked.by, run.without_secrets(asked.reason), run.junction, timings)


def _died(child: ChildProcess | None, run: Run) -> Outcome[Any]:
    code, pid = (None, None) if child is None else (child.exit_code, child.pid)
    how = CLOSED if child is not None and child.has_lost_its_pipe else _how_it_ended(code)
    problem = f"its process {pid} {how} before the train ended"
    error = TrainProcessError(train=run.train, problem=problem, exit_code=code)
    return failure(error, run, junction=run.junction, timings=())


def _how_it_ended(code: int | None) -> str:
    if code is None or code >= 0:
        return f"ended with code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:  # a real-time signal has no name
        return f"was killed by signal {-code}"


def _kill_started(starting: asyncio.Future[ChildProcess]) -> None:
    if not starting.cancelled() and starting.exception() is None:
        starting.result().kill()
