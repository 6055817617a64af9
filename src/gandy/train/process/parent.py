"""The parent's side of a child process: start it, and exchange messages with it."""

from __future__ import annotations

import asyncio
import atexit
import itertools
import json
import logging
import os
import subprocess
import sys
import threading
from contextlib import suppress
from datetime import timedelta
from multiprocessing import Pipe
from multiprocessing.spawn import get_executable
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Final, TypeAlias, assert_never

from gandy.model.run import Activation
from gandy.train.process.messages import (
    PIPE_LOST,
    Activated,
    Began,
    Ended,
    EndedBadly,
    EndedStopped,
    EndedWell,
    Entered,
    Leave,
    Logged,
    Progressed,
    Report,
    Stop,
    ToChild,
    ToParent,
    decode_to_parent,
    encode_to_child,
)

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from gandy.train.process.messages import StartMessage
    from gandy.train.run import Cancellation, Run


_PATH: Final = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
_BOOT: Final = "from gandy.train.process.child import main; main(int(sys.argv[2]), sys.argv[3])"
_FLAGS: Final = (("dev_mode", "-Xdev"), ("utf8_mode", "-Xutf8"))


def start_process(place: str) -> tuple[subprocess.Popen[bytes], Connection[Any, Any]]:
    """Start an interpreter that serves the trains of a place; its pipe closes when it ends."""
    return start_interpreter(_BOOT, place)


def start_interpreter(
    boot: str, *arguments: str, stderr: int | None = None
) -> tuple[subprocess.Popen[bytes], Connection[Any, Any]]:
    """Start an interpreter with this one's module path, which runs `boot` and no script of the application.

    `boot` finds the descriptor of its pipe in sys.argv[2], and the arguments from sys.argv[3].
    """
    ours, theirs = Pipe()
    try:
        process = subprocess.Popen(  # noqa: S603 - the command is sys.executable
            [*_command(), "-c", _PATH + boot, json.dumps(sys.path), str(theirs.fileno()), *arguments],
            pass_fds=(theirs.fileno(),),
            stdin=subprocess.DEVNULL,
            stderr=stderr,
        )
    except BaseException:
        ours.close()
        raise
    finally:
        theirs.close()  # else the pipe would stay open after the child's end
    return process, ours


def _command() -> list[str]:
    flags = [flag for attribute, flag in _FLAGS if getattr(sys.flags, attribute)]
    return [os.fsdecode(get_executable()), *flags, *(f"-W{option}" for option in sys.warnoptions)]


EndFuture: TypeAlias = "asyncio.Future[Ended | None]"  # None: the child died before it reported

LEAVE_GRACE: Final = timedelta(seconds=5)
CLOSING_SECONDS: Final = 2.0
logger = logging.getLogger("gandy.process")


class ChildProcess:
    """A process that runs trains. A thread reads its messages, even if the event loop is blocked."""

    def __init__(self, place: str) -> None:
        """Start the process; this takes some milliseconds, so do it off the event loop."""
        self._process, self._pipe = start_process(place)
        atexit.register(self.kill)  # else it would live on until it detects the closed pipe
        self._changing = threading.Lock()
        self._tickets = itertools.count(1)
        self._current: dict[int, tuple[Run, EndFuture]] = {}
        self._has_ended = False
        self._outlived_its_pipe = False
        self._leaving: threading.Timer | None = None
        self._listener = threading.Thread(target=self._listen, name=f"gandy-process-{self.pid}", daemon=True)
        self._listener.start()

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""
        return self._process.returncode

    @property
    def is_alive(self) -> bool:
        """Whether it can take another run."""
        return not self._has_ended

    @property
    def has_lost_its_pipe(self) -> bool:
        """Whether it closed its pipe to this process before its end."""
        return self._outlived_its_pipe or self.exit_code == PIPE_LOST

    def next_ticket(self) -> int:
        """Return a new number for a run of this child."""
        return next(self._tickets)

    def begin(self, start: StartMessage, run: Run) -> EndFuture:
        """Send a train to the child; the future receives the end message."""
        future: EndFuture = asyncio.get_running_loop().create_future()
        with self._changing:
            self._current[start.ticket] = (run, future)
            if self._has_ended:  # ended while idle: the listener has already settled the other futures
                _settle(future, None)
        self._tell(start)
        return future

    def stop(self, ticket: int, asked: Cancellation) -> None:
        """Pass on a request to cancel a run."""
        self._tell(Stop(ticket=ticket, by=asked.by, reason=asked.reason))

    def all_are_stopping(self) -> bool:
        """Return whether every unfinished run was asked to stop, so that the process may be killed."""
        with self._changing:
            return all(run.cancellation is not None for run, _ in self._current.values())

    def kill(self) -> None:
        """End the child at once."""
        self._process.kill()

    def leave(self) -> None:
        """Ask an idle child to end; kill it after a grace period, since a thread of a job may block it."""
        self._leaving = threading.Timer(LEAVE_GRACE.total_seconds(), self.kill)
        self._leaving.daemon = True
        self._leaving.start()
        self._tell(Leave())

    def join(self) -> None:
        """Wait for the end of a child that was asked to leave."""
        self._listener.join()

    def _tell(self, message: ToChild) -> None:
        with suppress(OSError):  # the child is dead
            self._pipe.send_bytes(encode_to_child(message))

    def _listen(self) -> None:
        try:
            while True:
                self._take(decode_to_parent(self._pipe.recv_bytes()))
        except (EOFError, OSError):  # the child has ended, or closed its end of the pipe
            pass
        except Exception:
            logger.exception("child process %s sent an invalid message", self.pid)
        try:
            self._process.wait(CLOSING_SECONDS)
        except subprocess.TimeoutExpired:  # it runs on without its pipe: useless
            self._outlived_its_pipe = True
            self.kill()
            self._process.wait()
        self._end()

    def _end(self) -> None:
        atexit.unregister(self.kill)
        if self._leaving is not None:
            self._leaving.cancel()
        self._pipe.close()
        with self._changing:
            self._has_ended = True
            for _, future in self._current.values():
                _settle(future, None)

    def _take(self, message: ToParent) -> None:
        with self._changing:
            found = self._current.get(message.ticket)
            if isinstance(message, EndedWell | EndedBadly | EndedStopped):
                self._current.pop(message.ticket, None)
        if found is None:
            return
        run, future = found
        if isinstance(message, EndedWell | EndedBadly | EndedStopped):
            _settle(future, message)
            return
        try:
            _report(message, run)
        except Exception:
            logger.exception("lost a report of run %s of %s", run.id, run.train)


def _report(message: Report, run: Run) -> None:
    match message:
        case Began():
            run.begun_ns, run.is_waiting = perf_counter_ns(), False
        case Entered():
            run.junction = message.junction
        case Logged():
            run.keep_line(message.level, message.logger, message.message)
        case Progressed():
            run.progress(message.done, message.total)
        case Activated():
            run.sink.activate(run, Activation(message.external_id, message.input_json, message.checked_by))
        case _:
            assert_never(message)


def _settle(future: EndFuture, ended: Ended | None) -> None:
    def settle() -> None:
        if not future.done():
            future.set_result(ended)

    with suppress(RuntimeError):  # the caller's loop is closed: no task waits
        future.get_loop().call_soon_threadsafe(settle)
