"""The parent's side of one child process."""

from __future__ import annotations

import asyncio
import atexit
import logging
import multiprocessing
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, TypeAlias, assert_never

from gandy.train.inside.sink import Activation
from gandy.train.process import child
from gandy.train.process.messages import (
    Activated,
    Ended,
    EndedBadly,
    EndedStopped,
    EndedWell,
    Entered,
    Leave,
    Logged,
    Progressed,
    ToChild,
    ToParent,
    decode_to_parent,
    encode_to_child,
)

if TYPE_CHECKING:
    from gandy.train.inside.run import Run
    from gandy.train.process.messages import Start

EndFuture: TypeAlias = "asyncio.Future[Ended | None]"  # None: the child died before it could say

_spawn = multiprocessing.get_context("spawn")
logger = logging.getLogger("gandy.process")


class ChildProcess:
    """A process that runs one train at a time. A thread reads what it says, whatever the event loop does."""

    def __init__(self, place: str) -> None:
        """Start the process; this takes some milliseconds, so do it off the event loop."""
        self._pipe, theirs = _spawn.Pipe()
        self._process = _spawn.Process(target=child.main, args=(theirs, place), name=f"gandy {place}")
        self._process.start()
        theirs.close()  # else the pipe would not end with the child
        atexit.register(self.kill)  # else the interpreter would wait for it at its own end
        self._changing = threading.Lock()
        self._current: tuple[Run, EndFuture] | None = None
        self._has_ended = False
        self._listener = threading.Thread(target=self._listen, name=f"gandy-process-{self.pid}", daemon=True)
        self._listener.start()

    @property
    def pid(self) -> int | None:
        """The process id."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """The exit code, negative for a signal; None while it lives."""
        return self._process.exitcode

    @property
    def is_alive(self) -> bool:
        """Whether it can take another run."""
        return not self._has_ended

    def begin(self, start: Start, run: Run) -> EndFuture:
        """Have the child run a train; the future gets its end."""
        future: EndFuture = asyncio.get_running_loop().create_future()
        with self._changing:
            self._current = (run, future)
            if self._has_ended:  # while it was idle: nobody else will say so
                _settle(future, None)
        self.tell(start)
        return future

    def tell(self, message: ToChild) -> None:
        """Send a message; a dead child hears nothing."""
        with suppress(OSError):
            self._pipe.send_bytes(encode_to_child(message))

    def kill(self) -> None:
        """End the child at once."""
        self._process.kill()

    def leave(self) -> None:
        """Let an idle child end by itself."""
        self.tell(Leave())

    def join(self, seconds: float) -> None:
        """Wait for its end, and force it when the time is over."""
        self._listener.join(seconds)
        if self._listener.is_alive():
            self.kill()
            self._listener.join()

    def _listen(self) -> None:
        with suppress(EOFError, OSError):
            while True:
                self._take(decode_to_parent(self._pipe.recv_bytes()))
        self._process.join()
        atexit.unregister(self.kill)
        self._pipe.close()
        with self._changing:
            self._has_ended = True
            if self._current is not None:
                _settle(self._current[1], None)

    def _take(self, message: ToParent) -> None:
        if self._current is None:
            return
        run, future = self._current
        if isinstance(message, EndedWell | EndedBadly | EndedStopped):
            self._current = None
            _settle(future, message)
            return
        try:
            _report(message, run)
        except Exception:
            logger.exception("a report of run %s of %s is lost", run.id, run.train)


def _report(message: Entered | Logged | Progressed | Activated, run: Run) -> None:
    match message:
        case Entered():
            run.junction = message.junction
        case Logged():
            run.keep_line(message.level, message.logger, message.message)
        case Progressed():
            run.progress(message.done, message.total)
        case Activated():
            run.sink.activate(run, Activation(message.external_id, message.input_json))
        case _:
            assert_never(message)


def _settle(future: EndFuture, ended: Ended | None) -> None:
    def settle() -> None:
        if not future.done():
            future.set_result(ended)

    with suppress(RuntimeError):  # the loop that asked is closed: nobody waits
        future.get_loop().call_soon_threadsafe(settle)
