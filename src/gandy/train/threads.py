"""Threads for the code of applications, which survive an exception that is raised in them from outside."""

from __future__ import annotations

import asyncio
import logging
import threading
import weakref
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from operator import attrgetter
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

_log = logging.getLogger("gandy.threads")
_NOTHING: Final = object()


class ThreadPool:
    """At most `size` threads, which are started when they are needed.

    A library that limits the time of a call may raise an exception in its thread, after the call has ended.
    A thread of ThreadPoolExecutor dies of it, and its next call is lost. Here the state of a call is kept
    outside the thread's frames, and the thread continues from that state.
    """

    def __init__(self, size: int, name: str) -> None:
        self._size = size
        self._name = name
        self._shared = _Shared()
        forgotten = weakref.finalize(self, self._shared.close)
        forgotten.atexit = False  # then the threads make the calls that wait
        _pools.add(self._shared)

    def call(self, function: Callable[..., T], *arguments: object) -> asyncio.Future[T]:
        """Call a function in a thread; it returns its exceptions, since a future cannot carry all of them."""
        loop = asyncio.get_running_loop()
        call = _Call(function, arguments, loop, loop.create_future())
        with self._shared.lock:
            if self._shared.is_closed:
                raise RuntimeError("the threads are closed")
            self._shared.waiting.append(call)
            if self._shared.idle:
                self._shared.wake.put(None)
            if len(self._shared.idle) < len(self._shared.waiting) and len(self._shared.threads) < self._size:
                self._start_a_thread()
        return call.future

    def close(self) -> None:
        """Cancel the calls that wait for a thread, and end the threads without waiting for them."""
        for call in self._shared.close():
            with suppress(RuntimeError):  # its loop is closed
                call.loop.call_soon_threadsafe(call.future.cancel)

    def _start_a_thread(self) -> None:
        shared = self._shared
        thread = _Thread(shared, f"{self._name}_{len(shared.threads)}")
        try:
            thread.start()
        except RuntimeError:  # the system has none left
            if not shared.threads:  # else one of them takes the call
                shared.waiting.clear()
                raise
        else:
            shared.threads.append(thread)


@dataclass(slots=True, eq=False)
class _Call:
    """A call, and how far it has come."""

    function: Callable[..., Any]
    arguments: tuple[object, ...]
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]
    has_begun: bool = False
    result: object = _NOTHING
    error: BaseException | None = None
    is_told: bool = False

    def perform(self) -> None:
        """Call the function; after an exception from outside, continue from the point that was reached."""
        if not self.has_begun and not self.future.cancelled():
            self.has_begun = True
            try:
                self.result = self.function(*self.arguments)
            except BaseException as error:  # noqa: BLE001 - such as one from outside
                self.error = error
        if self.result is _NOTHING and self.error is None:
            self.error = RuntimeError("an exception from outside ended the call")
        with suppress(RuntimeError):  # the loop is closed
            self.loop.call_soon_threadsafe(self._tell)
        self.is_told = True

    def _tell(self) -> None:
        if self.future.done():
            return
        if self.error is None:
            self.future.set_result(self.result)
        else:
            self.future.set_exception(self.error)


@dataclass(slots=True, eq=False, weakref_slot=True)
class _Shared:
    """What a pool and its threads share; a thread keeps no reference to its pool."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    threads: list[_Thread] = field(default_factory=list)
    idle: dict[_Thread, bool] = field(default_factory=dict)
    waiting: deque[_Call] = field(default_factory=deque)
    wake: SimpleQueue[None] = field(default_factory=SimpleQueue)  #: hints only: an exception may lose one
    is_closed: bool = False

    def close(self) -> list[_Call]:
        """End the threads after their calls; return the calls that no thread will take."""
        with self.lock:
            left = [*self.waiting]
            self.waiting.clear()
            self.end()
        return left

    def end(self) -> None:
        """End the threads when no call is waiting."""
        self.is_closed = True
        for _ in self.threads:
            self.wake.put(None)


class _Thread(threading.Thread):
    """A thread that runs one call after the other."""

    def __init__(self, shared: _Shared, name: str) -> None:
        super().__init__(name=name, daemon=False)
        self._shared = shared
        self._call: _Call | None = None

    def run(self) -> None:
        """Serve until the pool is closed, whatever is raised here."""
        raised: BaseException | None = None
        while True:
            try:
                return self._serve(raised)
            except BaseException as error:  # noqa: BLE001 - raised from outside, between two calls
                raised = error

    def _serve(self, raised: BaseException | None) -> None:
        if raised is not None:
            with suppress(BaseException):  # a handler of the application may raise
                _log.warning("ignored a %s, raised in a thread between two calls", type(raised).__qualname__)
        while True:
            if self._call is not None and not self._call.is_told:
                self._call.perform()
            self._take_next()
            if self._call is None:
                if self._shared.is_closed:
                    return
                self._shared.wake.get()

    def _take_next(self) -> None:
        shared = self._shared
        with shared.lock:  # without a call inside: an exception from outside is raised at calls
            if not shared.waiting:
                self._call = None
                shared.idle[self] = True
                return
            self._call = shared.waiting[0]
            del shared.waiting[0]
            if self in shared.idle:
                del shared.idle[self]


_pools: Final[weakref.WeakSet[_Shared]] = weakref.WeakSet()


def _end_all() -> None:
    for shared in list(_pools):
        with shared.lock:
            shared.end()


# The interpreter joins the threads before it runs functions of atexit; ThreadPoolExecutor uses the same hook.
attrgetter("_register_atexit")(threading)(_end_all)
