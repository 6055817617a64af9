"""Loops that must not end by themselves: one that does is logged, counted and started again."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from gandy.events import LoopEnded, LoopRestarted

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from gandy.events import EventBus

_log = logging.getLogger("gandy.services")

FIRST_PAUSE: Final = 0.1
LONGEST_PAUSE: Final = 5.0
STEADY_SECONDS: Final = 60.0  #: a loop that ran this long begins with the shortest pause again


class RenewTask(Exception):  # noqa: N818 - a signal, not an error
    """Raised by a loop that wants to go on in a new task: other code holds a reference to this one."""


class LoopGuard:
    """Keeps the loops of one service running until the service is told to leave.

    A loop may end in ways that are no `Exception`: code of a job that runs in the same event loop can cancel
    any task, and can raise what ends a task. Only a cancellation after `leave()` is taken as meant.
    """

    def __init__(self, service: str, events: EventBus) -> None:
        self._service = service
        self._events = events
        self._is_leaving = False
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def is_leaving(self) -> bool:
        """Whether the service was told to end."""
        return self._is_leaving

    def leave(self) -> None:
        """Let the loops end from now on."""
        self._is_leaving = True

    def cancel(self) -> None:
        """End the loops."""
        self._is_leaving = True
        for task in self._tasks:
            task.cancel()

    @property
    def tasks(self) -> list[asyncio.Task[None]]:
        """The tasks that the loops run in."""
        return list(self._tasks)

    def keep(self, name: str, loop: Callable[[], Awaitable[None]]) -> asyncio.Task[None]:
        """Start a loop in a task that starts it again whenever it ends."""
        task = asyncio.create_task(self._keep(name, loop), name=f"gandy-{self._service}-{name}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _keep(self, name: str, loop: Callable[[], Awaitable[None]]) -> None:
        clock, pause = asyncio.get_running_loop(), FIRST_PAUSE
        while True:
            begun = clock.time()
            cause = await self._run(loop)
            if isinstance(cause, RenewTask):
                self.keep(name, loop)
                return
            pause = FIRST_PAUSE if clock.time() - begun > STEADY_SECONDS else pause
            _log.error(
                "%s: the loop %r ended without being told to; it starts again in %g s",
                self._service,
                name,
                pause,
                exc_info=cause,
            )
            self._events.emit(LoopEnded(service=self._service, loop=name, cause=type(cause).__name__))
            await self._rest(pause)
            self._events.emit(LoopRestarted(service=self._service, loop=name))
            pause = min(2 * pause, LONGEST_PAUSE)

    async def _run(self, loop: Callable[[], Awaitable[None]]) -> BaseException:
        try:
            await loop()
        except asyncio.CancelledError as error:
            self._take_back_cancellation()
            return error
        except BaseException as error:  # noqa: BLE001 - whatever ends a loop, it starts again
            return error
        return RuntimeError("it returned")

    async def _rest(self, seconds: float) -> None:
        """Pause; another stray cancellation only cuts the pause short."""
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            self._take_back_cancellation()

    def _take_back_cancellation(self) -> None:
        """Go on after a cancellation that was not meant; pass on one that was."""
        if self._is_leaving:
            raise asyncio.CancelledError
        task = asyncio.current_task()
        while task is not None and task.cancelling():
            task.uncancel()
