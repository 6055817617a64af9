"""Run services concurrently; restart a failed service after a back-off."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from gandy.events import LoopEnded, LoopRestarted

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from datetime import timedelta

    from gandy.events import EventBus


T = TypeVar("T")
_log = logging.getLogger("gandy.services")

FIRST_PAUSE: Final = 1.0
LONGEST_PAUSE: Final = 60.0
#: The time that a service may need beyond the grace period to clean up.
LEAVE_SECONDS: Final = 5.0


class Service(Protocol):
    """A loop that can be stopped."""

    async def run(self, stop: asyncio.Event) -> None:
        """Work until the event is set."""
        ...


class Supervisor:
    """Starts services; a failed service is created again after a back-off, while the others continue."""

    def __init__(
        self, makers: Mapping[str, Callable[[], Service]], *, grace: timedelta, events: EventBus
    ) -> None:
        self._makers = makers
        self._grace = grace.total_seconds()
        self._events = events
        self._is_leaving = False
        self.restarts = 0

    async def run(self, stop: asyncio.Event) -> None:
        """Keep all services running until the event is set; cancel those that exceed the grace period.

        Only the event ends them: a job can cancel any task of its event loop, this one too.
        """
        tasks = [
            asyncio.create_task(self._keep(name, make, stop), name=f"gandy-{name}")
            for name, make in self._makers.items()
        ]
        try:
            while not stop.is_set() and not all(task.done() for task in tasks):
                await outlasting(_first(stop, tasks), stop)
            if tasks:
                _, late = await asyncio.wait(tasks, timeout=self._grace + LEAVE_SECONDS)
                for task in late:
                    _log.error("%s did not end in time and was cancelled", task.get_name())
        finally:
            self._is_leaving = True
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _keep(self, name: str, make: Callable[[], Service], stop: asyncio.Event) -> None:
        clock, pause = asyncio.get_running_loop(), FIRST_PAUSE
        while not stop.is_set():
            begun = clock.time()
            cause = await self._run(make, stop)
            if cause is None:
                return
            pause = FIRST_PAUSE if clock.time() - begun > LONGEST_PAUSE else pause
            _log.error("service %s failed; restarting in %g s", name, pause, exc_info=cause)
            self.restarts += 1
            self._events.emit(LoopEnded(service=name, loop=name, cause=type(cause).__name__))
            await outlasting(_wait(stop, pause), stop)
            self._events.emit(LoopRestarted(service=name, loop=name))
            pause = min(2 * pause, LONGEST_PAUSE)

    async def _run(self, make: Callable[[], Service], stop: asyncio.Event) -> BaseException | None:
        """Run a service to its end; return the exception of an unexpected end."""
        try:
            await make().run(stop)
        except asyncio.CancelledError as error:
            if self._is_leaving:
                raise
            take_back_cancellation()
            return error
        except BaseException as error:  # noqa: BLE001 - the service is restarted after any exception
            return error
        return None if stop.is_set() else RuntimeError("it returned")


def take_back_cancellation() -> None:
    """Undo a cancellation of the current task by a job, which can cancel any task of its event loop."""
    task = asyncio.current_task()
    while task is not None and task.cancelling():
        task.uncancel()


async def outlasting(work: Awaitable[T], stop: asyncio.Event) -> T | None:
    """Await something; a cancellation before the event is set only ends this wait, with None."""
    try:
        return await work
    except asyncio.CancelledError as error:
        if stop.is_set():
            raise
        take_back_cancellation()
        _log.error("a job cancelled %s; it goes on", _name_of_task(), exc_info=error)
        return None


def _name_of_task() -> str:
    task = asyncio.current_task()
    return "a task" if task is None else f"the task {task.get_name()}"


async def _first(stop: asyncio.Event, tasks: list[asyncio.Task[None]]) -> None:
    """Wait for the stop event, or until every service has ended by itself."""
    stopping = asyncio.create_task(_told(stop))
    waiting = {stopping, *tasks}
    try:
        while waiting != {stopping} and not stopping.done():
            _, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopping.cancel()


async def _told(stop: asyncio.Event) -> None:
    await stop.wait()


async def _wait(stop: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await stop.wait()
    except TimeoutError:
        return
