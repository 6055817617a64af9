"""Hooks: functions of the application that receive events of its runs, and the delivery of these events."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, TypeVar, get_args

from gandy.errors import UnknownHookError
from gandy.train.threads import ThreadPool

if TYPE_CHECKING:
    from datetime import timedelta

    from gandy.model.run import Outcome


HookName: TypeAlias = Literal["started", "completed", "failed", "cancelled", "dead_lettered"]
HOOK_NAMES: Final[tuple[str, ...]] = get_args(HookName)
logger = logging.getLogger("gandy.hooks")


@dataclass(frozen=True, slots=True, kw_only=True)
class HookEvent:
    """The argument of a hook."""

    name: HookName
    train: str
    run_id: int
    attempt: int
    manifest: str | None = None
    outcome: Outcome[object] | None = None  # None when the run has only started
    reason: str | None = None  # why it was parked as a dead letter
    masks: object = field(default=None, repr=False, compare=False)  # keeps the run's secrets masked in logs


Hook: TypeAlias = Callable[[HookEvent], Awaitable[None] | None]
AnyHook = TypeVar("AnyHook", bound=Hook)


class Hooks:
    """The hooks of one application, called in the order in which they were added."""

    def __init__(self) -> None:
        self._hooks: dict[str, list[Hook]] = {name: [] for name in HOOK_NAMES}

    def on(self, name: HookName) -> Callable[[AnyHook], AnyHook]:
        """Return a decorator that adds a hook; a sync hook is called in a thread."""
        if name not in self._hooks:
            raise UnknownHookError(name=name, known=HOOK_NAMES)

        def add(hook: AnyHook) -> AnyHook:
            self._hooks[name].append(hook)
            return hook

        return add

    def wants(self, name: HookName) -> bool:
        """Return whether any hook is registered, so that no unused event is made."""
        return bool(self._hooks[name])

    def of(self, name: HookName) -> tuple[Hook, ...]:
        """Return the hooks of one name, in the order in which they were added."""
        return tuple(self._hooks[name])

    async def fire(self, event: HookEvent) -> None:
        """Call every hook of that name once, here; log the exceptions of hooks and do not raise them."""
        task = asyncio.current_task()
        cancelling = 0 if task is None else task.cancelling()
        for hook in self._hooks[event.name]:
            try:
                told = hook(event)
                if inspect.isawaitable(told):
                    await told
            except BaseException as error:  # only a cancellation of this task propagates
                if task is not None and task.cancelling() > cancelling:
                    raise
                report_raised(hook, event, error)


def is_async(hook: Hook) -> bool:
    """Return whether the call only makes a coroutine, which does not block."""
    return inspect.iscoroutinefunction(hook) or inspect.iscoroutinefunction(type(hook).__call__)


def name_of(hook: Hook) -> str:
    """Return a readable name of a hook, without calling its `__repr__`."""
    name = getattr(hook, "__qualname__", None)
    return name if isinstance(name, str) else type(hook).__qualname__


def report_raised(hook: Hook, event: HookEvent, error: BaseException) -> None:
    """Log the exception of a hook, even one that cannot be printed."""
    text = "hook %s on %r failed for run %s of %s"
    told = (name_of(hook), event.name, event.run_id, event.train)
    try:
        logger.error(text, *told, exc_info=error)
    except BaseException:  # noqa: BLE001 - formatting calls methods of the exception
        logger.error(f"{text}: a %s that cannot be printed", *told, type(error).__qualname__)  # noqa: G004, TRY400


_log = logging.getLogger("gandy.hooks")

AT_ONCE: Final = 16
MOST_WAITING: Final = 10_000
WARN_EVERY_SECONDS: Final = 10.0
LEAVE_SECONDS: Final = 0.1


class _Lane:
    """The queue of the events of one name, and the number of tasks that deliver them."""

    def __init__(self, name: str, at_once: int) -> None:
        self.ready: deque[HookEvent] = deque()
        self.pending = 0
        self.tellers = 0
        self.threads = ThreadPool(at_once, f"gandy-hook-{name}")


class HookDelivery:
    """Calls the hooks of an application without blocking the caller.

    Events of different names never wait for each other, events of one run keep their order, and events of
    several runs are delivered concurrently. Belongs to one event loop.
    """

    def __init__(
        self, hooks: Hooks, *, timeout: timedelta, at_once: int = AT_ONCE, most_waiting: int = MOST_WAITING
    ) -> None:
        """Take the timeout of a hook, the concurrency, and the maximum number of pending events of a name."""
        self._hooks = hooks
        self._seconds = timeout.total_seconds()
        self._at_once = at_once
        self._most_waiting = most_waiting
        self._lanes = {name: _Lane(name, at_once) for name in HOOK_NAMES}
        self._behind: dict[int, deque[HookEvent]] = {}  # by run id: events behind an earlier event
        self._tasks: set[asyncio.Task[None]] = set()
        self._calls: set[asyncio.Task[BaseException | None]] = set()
        self._quiet = asyncio.Event()
        self._quiet.set()
        self._is_closed = False
        self._warned_at = -WARN_EVERY_SECONDS
        self.dropped = 0

    @property
    def pending(self) -> int:
        """The number of events that have not been delivered to all of their hooks."""
        return sum(lane.pending for lane in self._lanes.values())

    def wants(self, name: HookName) -> bool:
        """Return whether any hook is registered, so that no unused event is made."""
        return self._hooks.wants(name)

    def deliver(self, event: HookEvent) -> None:
        """Schedule the calls of an event's hooks; if too many events are pending, drop and count it."""
        if not self._hooks.wants(event.name):
            return
        lane = self._lanes[event.name]
        if self._is_closed or lane.pending >= self._most_waiting:
            self._drop(event)
            return
        lane.pending += 1
        self._quiet.clear()
        behind = self._behind.get(event.run_id)
        if behind is not None:
            behind.append(event)
        else:
            self._behind[event.run_id] = deque()
            self._make_ready(event)

    async def settle(self, seconds: float) -> int:
        """Wait at most `seconds` for pending events; return the number of those that remain."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._quiet.wait()
        return self.pending

    async def close(self, seconds: float) -> int:
        """Wait at most `seconds` for pending events, abandon the rest, and return the number abandoned."""
        left = await self.settle(seconds)
        self._is_closed = True
        if left:
            _log.warning("%d hook events were not delivered to all of their hooks before shutdown", left)
        leaving = [*self._tasks, *self._calls]
        for task in leaving:
            task.cancel()
        for lane in self._lanes.values():
            lane.threads.close()
        if leaving:
            await asyncio.wait(leaving, timeout=LEAVE_SECONDS)
        return left

    def _drop(self, event: HookEvent) -> None:
        self.dropped += 1
        if monotonic() - self._warned_at >= WARN_EVERY_SECONDS:
            self._warned_at = monotonic()
            _log.warning(
                "hooks on %r do not keep up: %d events dropped so far, most recently for run %s of %s; "
                "make the hooks faster, or let them enqueue a job",
                event.name,
                self.dropped,
                event.run_id,
                event.train,
            )

    def _make_ready(self, event: HookEvent) -> None:
        lane = self._lanes[event.name]
        lane.ready.append(event)
        if lane.tellers < self._at_once:
            lane.tellers += 1
            task = asyncio.get_running_loop().create_task(self._tell_ready(lane), name="gandy-hooks")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _tell_ready(self, lane: _Lane) -> None:
        try:
            while lane.ready:
                event = lane.ready.popleft()
                for hook in self._hooks.of(event.name):
                    await self._call(hook, event)
                self._settle(lane, event)
        finally:
            lane.tellers -= 1

    def _settle(self, lane: _Lane, event: HookEvent) -> None:
        """Finish an event and make the next event of the same run ready."""
        behind = self._behind[event.run_id]
        if behind:
            self._make_ready(behind.popleft())
        else:
            del self._behind[event.run_id]
        lane.pending -= 1
        if not self._behind:
            self._quiet.set()

    async def _call(self, hook: Hook, event: HookEvent) -> None:
        """Call one hook in its own task, so that it can cancel only that task."""
        if len(self._calls) >= 2 * self._at_once * len(HOOK_NAMES):  # cancelled hooks that do not end
            await asyncio.wait(self._calls, return_when=asyncio.FIRST_COMPLETED)
        call = asyncio.get_running_loop().create_task(self._called(hook, event), name="gandy-hook")
        self._calls.add(call)
        call.add_done_callback(self._calls.discard)
        done, _ = await asyncio.wait({call}, timeout=self._seconds)
        if not done:
            call.cancel()
            _log.warning(
                "hook %s on %r took longer than %g s ([hooks] timeout) for run %s of %s and was abandoned",
                name_of(hook),
                event.name,
                self._seconds,
                event.run_id,
                event.train,
            )
        elif not call.cancelled() and (error := call.result()) is not None:
            report_raised(hook, event, error)

    async def _called(self, hook: Hook, event: HookEvent) -> BaseException | None:
        """Return any exception of the hook: a raised SystemExit would stop the event loop."""
        try:
            told = hook(event) if is_async(hook) else await self._call_in_thread(hook, event)
            if inspect.isawaitable(told):
                await told
        except BaseException as error:  # noqa: BLE001 - a hook may raise anything
            return error
        return None

    async def _call_in_thread(self, hook: Hook, event: HookEvent) -> object:
        told, error = await self._lanes[event.name].threads.call(_caught, hook, event)
        if error is not None:
            raise error
        return told


def _caught(hook: Hook, event: HookEvent) -> tuple[object, BaseException | None]:
    """Return the result and the exception of a hook: a future cannot carry every exception."""
    try:
        return hook(event), None
    except BaseException as error:  # noqa: BLE001 - it is reported on the event loop
        return None, error
