"""A polling loop, a guard that restarts loops, and waits with a time limit for the shutdown."""

from __future__ import annotations

import asyncio
import logging
import random
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from gandy.errors import GandyError
from gandy.events import LoopEnded, LoopRestarted
from gandy.loops.supervisor import take_back_cancellation
from gandy.loops.wakeups import wait_for_wake

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from gandy.events import EventBus


_log = logging.getLogger("gandy.services")

FIRST_BACKOFF: Final = timedelta(seconds=1)
LONGEST_BACKOFF: Final = timedelta(seconds=30)
#: The minimum pause between two cycles, however often a loop is woken.
SHORTEST_REST: Final = timedelta(milliseconds=10)


class Poller:
    """Runs a cycle repeatedly: at the instant that the cycle returns, at a wake-up, or at the poll."""

    def __init__(
        self,
        name: str,
        cycle: Callable[[], Awaitable[timedelta | None]],
        *,
        poll_every: timedelta,
        wake: asyncio.Event,
    ) -> None:
        """Take a cycle that returns the pause until its next run; None: `poll_every`."""
        self._name = name
        self._cycle = cycle
        self._poll_every = poll_every
        self._wake = wake
        self._failures = 0

    async def run(self, stop: asyncio.Event) -> None:
        """Run cycles until the event is set; log the exception of a cycle and continue after a back-off."""
        while not stop.is_set():
            await self._rest(stop, await self._attempt())

    async def _attempt(self) -> timedelta:
        try:
            wanted = await self._cycle()
        except GandyError as error:
            _log.warning("%s: %s", self._name, error)
        except Exception:  # noqa: BLE001 - a failed cycle must not end the service
            _log.exception("%s: a cycle failed", self._name)
        else:
            self._failures = 0
            return self._poll_every if wanted is None else min(wanted, self._poll_every)
        self._failures += 1
        return _backoff(self._failures)

    async def _rest(self, stop: asyncio.Event, span: timedelta) -> None:
        stopping = asyncio.ensure_future(stop.wait())
        resting = asyncio.ensure_future(self._sleep(span))
        try:
            await asyncio.wait((stopping, resting), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (stopping, resting):
                task.cancel()
            await asyncio.gather(stopping, resting, return_exceptions=True)

    async def _sleep(self, span: timedelta) -> None:
        await asyncio.sleep(SHORTEST_REST.total_seconds())
        # Wake-ups do not shorten the back-off: they would only load a failing database.
        if self._failures:
            await asyncio.sleep(span.total_seconds())
        else:
            await wait_for_wake(self._wake, (span - SHORTEST_REST).total_seconds())


def _backoff(failures: int) -> timedelta:
    """Double the pause, with jitter to spread servers that failed at the same time."""
    longest = min(FIRST_BACKOFF * (1 << min(failures - 1, 10)), LONGEST_BACKOFF)
    return longest * random.uniform(0.5, 1.0)  # noqa: S311 - not a secret


FIRST_RESTART_PAUSE: Final = 0.1
LONGEST_RESTART_PAUSE: Final = 5.0
STEADY_SECONDS: Final = 60.0  #: after this time the restart back-off is reset


class RenewTask(Exception):  # noqa: N818 - a signal, not an error
    """Raised by a loop to continue in a new task, because other code holds a reference to this one."""


class LoopGuard:
    """Restarts the loops of one service until the service is shut down.

    Code of a job runs in the same event loop and can cancel any task or raise a BaseException. So only a
    cancellation after `leave()` ends a loop.
    """

    def __init__(self, service: str, events: EventBus) -> None:
        self._service = service
        self._events = events
        self._is_leaving = False
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def is_leaving(self) -> bool:
        """Whether the service is shutting down."""
        return self._is_leaving

    def leave(self) -> None:
        """Accept cancellations of the loops from now on."""
        self._is_leaving = True

    def cancel(self) -> None:
        """Cancel the loops."""
        self._is_leaving = True
        for task in self._tasks:
            task.cancel()

    @property
    def tasks(self) -> list[asyncio.Task[None]]:
        """The tasks that the loops run in."""
        return list(self._tasks)

    def keep(self, name: str, loop: Callable[[], Awaitable[None]]) -> asyncio.Task[None]:
        """Start a loop in a task that restarts it whenever it ends."""
        task = asyncio.create_task(self._keep(name, loop), name=f"gandy-{self._service}-{name}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _keep(self, name: str, loop: Callable[[], Awaitable[None]]) -> None:
        clock, pause = asyncio.get_running_loop(), FIRST_RESTART_PAUSE
        while True:
            begun = clock.time()
            cause = await self._run(loop)
            if isinstance(cause, RenewTask):
                self.keep(name, loop)
                return
            pause = FIRST_RESTART_PAUSE if clock.time() - begun > STEADY_SECONDS else pause
            with suppress(BaseException):  # a handler of the application may raise
                _log.error(
                    "%s: the loop %r ended unexpectedly; restarting in %g s",
                    self._service,
                    name,
                    pause,
                    exc_info=cause,
                )
            self._events.emit(LoopEnded(service=self._service, loop=name, cause=type(cause).__name__))
            await self._rest(pause)
            self._events.emit(LoopRestarted(service=self._service, loop=name))
            pause = min(2 * pause, LONGEST_RESTART_PAUSE)

    async def _run(self, loop: Callable[[], Awaitable[None]]) -> BaseException:
        try:
            await loop()
        except asyncio.CancelledError as error:
            self._take_back_cancellation()
            return error
        except BaseException as error:  # noqa: BLE001 - the loop is restarted after any exception
            return error
        return RuntimeError("it returned")

    async def _rest(self, seconds: float) -> None:
        """Pause; another unexpected cancellation only shortens the pause."""
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            self._take_back_cancellation()

    def _take_back_cancellation(self) -> None:
        """Undo an unexpected cancellation; raise it again during a shutdown."""
        if self._is_leaving:
            raise asyncio.CancelledError
        take_back_cancellation()


SHORTEST_PAUSE: Final = 0.001
LONGEST_LEAVING_PAUSE: Final = 0.02


async def until_quiet(seconds: float, is_quiet: Callable[[], bool]) -> None:
    """Wait until `is_quiet` returns True, at most `seconds`."""
    pause = SHORTEST_PAUSE
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while not is_quiet():  # polled, for the shutdown only: many events could change it
                await asyncio.sleep(pause)
                pause = min(2 * pause, LONGEST_LEAVING_PAUSE)


async def within(seconds: float, work: Coroutine[object, object, object]) -> bool:
    """Await the work with a time limit; return whether it succeeded."""
    try:
        await asyncio.wait_for(work, seconds)
    except (TimeoutError, GandyError) as error:
        _log.warning("shutdown incomplete: %s", str(error) or "the database did not answer in time")
        return False
    return True
