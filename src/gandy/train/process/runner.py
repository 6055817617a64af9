"""Running trains in child processes: one run at a time each, kept for the next run where the app is known."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import AbstractAsyncContextManager, nullcontext
from datetime import timedelta
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Final

from gandy.errors import GandyError, TrainProcessError
from gandy.model.outcome import Cancelled, Outcome
from gandy.train.failure import failure
from gandy.train.process.host import host_of
from gandy.train.process.messages import Ended, Start, Stop
from gandy.train.process.outcomes import from_message
from gandy.train.process.parent import ChildProcess, EndFuture

if TYPE_CHECKING:
    from gandy.train.definition import TrainDefinition
    from gandy.train.inside.run import Run

CANCEL_GRACE: Final = timedelta(seconds=10)
LEAVE_GRACE: Final = timedelta(seconds=5)


class ProcessRunner:
    """Gives trains a process. Belongs to one event loop, unless it has no host and so keeps no process."""

    def __init__(
        self,
        *,
        host: str | None = None,
        max_processes: int | None = None,
        cancel_grace: timedelta = CANCEL_GRACE,
    ) -> None:
        """Take the app's place as "module:name"; without one, each run gets a new process."""
        self._host = host
        self._cancel_grace = cancel_grace
        self._idle: list[ChildProcess] = []
        self._slots: AbstractAsyncContextManager[object] = (
            nullcontext() if host is None else asyncio.Semaphore(max_processes or os.cpu_count() or 1)
        )

    async def execute(
        self, definition: TrainDefinition[Any, Any], value: object, *, run: Run, isolated: bool = False
    ) -> Outcome[Any]:
        """Run a train in a process and return how it ended; a child that dies is a failure.

        A request to cancel is passed on to the child, which is killed when it does not end within the grace.
        """
        run.started_ns = perf_counter_ns()
        try:
            start = _start_of(definition, value, run)
            place = self._host or host_of(definition)
            async with self._slots:
                child = await self._child(place, isolated=isolated)
                ended = await self._supervised(child, start, run)
                self._let_go(child, keep=bool(ended and self._host and not isolated))
            return from_message(ended, definition, run) if ended else _died(child, run)
        except GandyError as error:
            return failure(error, run, junction=run.junction, timings=())

    async def close(self) -> None:
        """End the idle processes."""
        idle, self._idle = self._idle, []
        for child in idle:
            child.leave()
        loop = asyncio.get_running_loop()
        seconds = LEAVE_GRACE.total_seconds()
        await asyncio.gather(*(loop.run_in_executor(None, child.join, seconds) for child in idle))

    async def _child(self, place: str, *, isolated: bool) -> ChildProcess:
        while self._idle and not isolated:
            child = self._idle.pop()
            if child.is_alive:
                return child
        starting = asyncio.get_running_loop().run_in_executor(None, ChildProcess, place)
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            starting.add_done_callback(_kill_started)
            raise
        except OSError as error:
            raise TrainProcessError(train=place, problem=f"no process could be started: {error}") from error

    async def _supervised(self, child: ChildProcess, start: Start, run: Run) -> Ended | None:
        """Wait for the child's end, passing on a request to cancel; kill it where nobody waits any more."""
        stop: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        run.interruptible(stop)
        try:
            end = child.begin(start, run)
            if run.cancellation is None:
                await asyncio.wait((end, stop), return_when=asyncio.FIRST_COMPLETED)
            if run.cancellation is not None:
                await self._stopped(child, end, run)
            return await end
        except BaseException:
            child.kill()
            raise
        finally:
            run.interruptible(None)

    async def _stopped(self, child: ChildProcess, end: EndFuture, run: Run) -> None:
        if run.cancellation is not None:
            child.tell(Stop(by=run.cancellation.by, reason=run.cancellation.reason))
        await asyncio.wait((end,), timeout=self._cancel_grace.total_seconds())
        if not end.done():
            child.kill()

    def _let_go(self, child: ChildProcess, *, keep: bool) -> None:
        if keep:
            self._idle.append(child)
        else:
            child.leave()


def _start_of(definition: TrainDefinition[Any, Any], value: object, run: Run) -> Start:
    return Start(
        train=definition.name,
        input_json=definition.input.encode(value),
        id=run.id,
        manifest=run.manifest,
        due_at=run.due_at,
        attempt=run.attempt,
        fence=run.fence,
    )


def _died(child: ChildProcess, run: Run) -> Outcome[Any]:
    if run.cancellation is not None:
        return Cancelled(run.cancellation.by, run.cancellation.reason, run.junction)
    code = child.exit_code
    how = (
        f"was killed by {signal.Signals(-code).name}"
        if code is not None and code < 0
        else f"ended with code {code}"
    )
    problem = f"its process {child.pid} {how} before the train ended"
    error = TrainProcessError(train=run.train, problem=problem, exit_code=code)
    return failure(error, run, junction=run.junction, timings=())


def _kill_started(starting: asyncio.Future[ChildProcess]) -> None:
    if not starting.cancelled() and starting.exception() is None:
        starting.result().kill()
