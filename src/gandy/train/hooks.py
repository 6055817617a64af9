"""Hooks: what an application hears of its runs, and how it is delivered."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, TypeVar, get_args

from gandy.errors import UnknownHookError

if TYPE_CHECKING:
    from datetime import timedelta

    from gandy.model.run import Outcome


HookName: TypeAlias = Literal["started", "completed", "failed", "cancelled", "dead_lettered"]
HOOK_NAMES: Final[tuple[str, ...]] = get_args(HookName)
logger = logging.getLogger("gandy.hooks")


@dataclass(frozen=True, slots=True, kw_only=True)
class HookEvent:
    """What a hook is told."""

    name: HookName
    train: str
    run_id: int
    attempt: int
    manifest: str | None = None
    outcome: Outcome[object] | None = None  # None when the run has only started
    reason: str | None = None  # why it was parked as a dead letter
    masks: object = field(default=None, repr=False, compare=False)  # keeps the run's secrets out of all logs


Hook: TypeAlias = Callable[[HookEvent], Awaitable[None] | None]
AnyHook = TypeVar("AnyHook", bound=Hook)


class Hooks:
    """The hooks of one application, called in the order in which they were added."""

    def __init__(self) -> None:
        self._hooks: dict[str, list[Hook]] = {name: [] for name in HOOK_NAMES}

    def on(self, name: HookName) -> Callable[[AnyHook], AnyHook]:
        """Return a decorator that adds a hook; a sync one is called in a thread."""
        if name not in self._hooks:
            raise UnknownHookError(name=name, known=HOOK_NAMES)

        def add(hook: AnyHook) -> AnyHook:
            self._hooks[name].append(hook)
            return hook

        return add

    def wants(self, name: HookName) -> bool:
        """Whether any hook listens, so that no event is made in vain."""
        return bool(self._hooks[name])

    def of(self, name: HookName) -> tuple[Hook, ...]:
        """Give the hooks of one name, in the order in which they were added."""
        return tuple(self._hooks[name])

    async def fire(self, event: HookEvent) -> None:
        """Call every hook of that name once, here; what one raises is logged and goes no further."""
        task = asyncio.current_task()
        cancelling = 0 if task is None else task.cancelling()
        for hook in self._hooks[event.name]:
            try:
                told = hook(event)
                if inspect.isawaitable(told):
                    await told
            except BaseException as error:  # whatever a hook raises is its own affair
                if task is not None and task.cancelling() > cancelling:
                    raise
                report_raised(hook, event, error)


def is_async(hook: Hook) -> bool:
    """Whether the call only makes a coroutine, which takes no time."""
    return inspect.iscoroutinefunction(hook) or inspect.iscoroutinefunction(type(hook).__call__)


def name_of(hook: Hook) -> str:
    """Name a hook for people, whatever its own text would do."""
    name = getattr(hook, "__qualname__", None)
    return name if isinstance(name, str) else type(hook).__qualname__


def report_raised(hook: Hook, event: HookEvent, error: BaseException) -> None:
    """Log what a hook raised, also where that cannot be printed."""
    text = "hook %s on %r failed for run %s of %s"
    told = (name_of(hook), event.name, event.run_id, event.train)
    try:
        logger.error(text, *told, exc_info=error)
    except BaseException:  # noqa: BLE001 the exception's own methods run here
        logger.error(f"{text}: a %s that cannot be printed", *told, type(error).__qualname__)  # noqa: G004, TRY400


_log = logging.getLogger("gandy.hooks")

AT_ONCE: Final = 16
MOST_WAITING: Final = 10_000
WARN_EVERY_SECONDS: Final = 10.0
LEAVE_SECONDS: Final = 0.1


class _Lane:
    """The events of one name: those that wait, and how many of them are told at once."""

    def __init__(self, name: str, at_once: int) -> None:
        self.ready: deque[HookEvent] = deque()
        self.pending = 0
        self.tellers = 0
        self.threads = ThreadPoolExecutor(at_once, thread_name_prefix=f"gandy-hook-{name}")


class HookDelivery:
    """Calls the hooks of an application without ever making its caller wait.

    Events of different names never wait for each other, those of one run keep their order, and several runs
    are told at once. Belongs to one event loop.
    """

    def __init__(
        self, hooks: Hooks, *, timeout: timedelta, at_once: int = AT_ONCE, most_waiting: int = MOST_WAITING
    ) -> None:
        """Take the longest a hook may take, how many go on at once, and how many events of a name wait."""
        self._hooks = hooks
        self._seconds = timeout.total_seconds()
        self._at_once = at_once
        self._most_waiting = most_waiting
        self._lanes = {name: _Lane(name, at_once) for name in HOOK_NAMES}
        self._behind: dict[int, deque[HookEvent]] = {}  # by run: what waits for an event of the same run
        self._tasks: set[asyncio.Task[None]] = set()
        self._calls: set[asyncio.Task[BaseException | None]] = set()
        self._quiet = asyncio.Event()
        self._quiet.set()
        self._is_closed = False
        self._warned_at = -WARN_EVERY_SECONDS
        self.dropped = 0

    @property
    def pending(self) -> int:
        """How many events have not been told to all of their hooks."""
        return sum(lane.pending for lane in self._lanes.values())

    def wants(self, name: HookName) -> bool:
        """Whether any hook listens, so that no event is made in vain."""
        return self._hooks.wants(name)

    def deliver(self, event: HookEvent) -> None:
        """Have the hooks of an event called soon; with too many waiting it is dropped and counted."""
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
        """Wait so long for what is pending, and say how much is left."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._quiet.wait()
        return self.pending

    async def close(self, seconds: float) -> int:
        """Wait so long for what is pending, give up the rest, and say how much that was."""
        left = await self.settle(seconds)
        self._is_closed = True
        if left:
            _log.warning("%d hook events were not told to all of their hooks before the end", left)
        leaving = [*self._tasks, *self._calls]
        for task in leaving:
            task.cancel()
        for lane in self._lanes.values():
            lane.threads.shutdown(wait=False, cancel_futures=True)
        if leaving:
            await asyncio.wait(leaving, timeout=LEAVE_SECONDS)
        return left

    def _drop(self, event: HookEvent) -> None:
        self.dropped += 1
        if monotonic() - self._warned_at >= WARN_EVERY_SECONDS:
            self._warned_at = monotonic()
            _log.warning(
                "hooks on %r do not keep up: %d events dropped so far, now that of run %s of %s; "
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
        """Let the next event of the same run go."""
        behind = self._behind[event.run_id]
        if behind:
            self._make_ready(behind.popleft())
        else:
            del self._behind[event.run_id]
        lane.pending -= 1
        if not self._behind:
            self._quiet.set()

    async def _call(self, hook: Hook, event: HookEvent) -> None:
        """Call one hook in a task of its own, which it may end or cancel as it likes."""
        if len(self._calls) >= 2 * self._at_once * len(HOOK_NAMES):  # they were cancelled and go on
            await asyncio.wait(self._calls, return_when=asyncio.FIRST_COMPLETED)
        call = asyncio.get_running_loop().create_task(self._called(hook, event), name="gandy-hook")
        self._calls.add(call)
        call.add_done_callback(self._calls.discard)
        done, _ = await asyncio.wait({call}, timeout=self._seconds)
        if not done:
            call.cancel()
            _log.warning(
                "hook %s on %r took longer than %g s ([hooks] timeout) for run %s of %s and was given up",
                name_of(hook),
                event.name,
                self._seconds,
                event.run_id,
                event.train,
            )
        elif not call.cancelled() and (error := call.result()) is not None:
            report_raised(hook, event, error)

    async def _called(self, hook: Hook, event: HookEvent) -> BaseException | None:
        """Give what the hook raised, whatever it is: raised, some kinds would end the event loop."""
        try:
            told = hook(event) if is_async(hook) else await self._call_in_thread(hook, event)
            if inspect.isawaitable(told):
                await told
        except BaseException as error:  # noqa: BLE001 whatever a hook raises is its own affair
            return error
        return None

    async def _call_in_thread(self, hook: Hook, event: HookEvent) -> object:
        loop, threads = asyncio.get_running_loop(), self._lanes[event.name].threads
        told, error = await loop.run_in_executor(threads, _caught, hook, event)
        if error is not None:
            raise error
        return told


def _caught(hook: Hook, event: HookEvent) -> tuple[object, BaseException | None]:
    """Give what the hook raised: a future cannot carry every kind."""
    try:
        return hook(event), None
    except BaseException as error:  # noqa: BLE001 it is reported on the event loop
        return None, error
