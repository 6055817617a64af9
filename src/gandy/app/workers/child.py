"""A worker process: it claims and executes runs, and ends with its parent."""

from __future__ import annotations

import asyncio
import ctypes
import logging
import os
import signal
import sys
import threading
import time
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Final, assert_never

from gandy.app.loading import find_app
from gandy.app.process import loop_factory, stop_on_signals, tune_garbage_collector
from gandy.app.workers.messages import (
    AskIdle,
    Begin,
    IsIdle,
    LeaveMessage,
    ToParent,
    ToWorker,
    WorkerReport,
    decode_to_worker,
    encode_to_parent,
)
from gandy.errors import GandyError
from gandy.events import Event, RunFinished
from gandy.loops.poller import LoopGuard
from gandy.loops.wakeups import Wakeups
from gandy.telemetry.log_lines import configure_logging
from gandy.telemetry.observing import observe
from gandy.train.failure import run_contained
from gandy.work.worker import SERVICE, Worker

if TYPE_CHECKING:
    from gandy.app import Gandy
    from gandy.context import Context


_log = logging.getLogger("gandy.worker")

#: A process reports this often while something happens, and this often while nothing does.
REPORT_SECONDS: Final = 1.0
BEAT_SECONDS: Final = 3.0
LEFT_ALONE: Final = 1  #: the exit code of a process whose parent is gone
_PR_SET_PDEATHSIG: Final = 1


def main(fileno: int) -> None:
    """Serve the parent until it says to leave, or is gone."""
    _die_with_parent()
    os.set_inheritable(fileno, False)  # a program that a job starts must not keep the pipe open
    os.register_at_fork(after_in_child=lambda: _close(fileno))  # nor must a forked process
    parent = _Parent(Connection(fileno))
    begin = parent.receive()
    if not isinstance(begin, Begin) or os.getppid() != begin.parent_pid:
        return
    app = find_app(begin.launch.reference, begin.launch.keywords)
    if app is None:
        return
    configure_logging(app.settings.logging)
    tune_garbage_collector()
    try:
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            run_contained(runner, _serve(app, parent, has_metrics=begin.has_metrics))
    except GandyError as error:  # such as a database that cannot be reached; the parent tries again
        _log.error("this worker process ends: %s", error)
        sys.exit(error.exit_code)


def _die_with_parent() -> None:
    """End with the parent even if code of a job holds the interpreter (on Linux)."""
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _close(fileno: int) -> None:
    with suppress(OSError):
        os.close(fileno)


class _Parent:
    """The pipe to the parent."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._sending = threading.Lock()

    def receive(self) -> ToWorker:
        """Wait for a message; end this process if the parent is gone."""
        try:
            return decode_to_worker(self._connection.recv_bytes())
        except (EOFError, OSError):
            os._exit(LEFT_ALONE)

    def send(self, message: ToParent) -> None:
        with self._sending, suppress(OSError):  # the thread that receives ends this process
            self._connection.send_bytes(encode_to_parent(message))


async def _serve(app: Gandy, parent: _Parent, *, has_metrics: bool) -> None:
    stop = stop_on_signals(grace=app.settings.worker.shutdown_grace, is_child=True)
    reports = _Reports(app, parent, has_metrics=has_metrics)
    async with app:
        context = app._require("its workers").context  # noqa: SLF001 - of the same package
        await _work(context, stop, reports)
    reports.send()


async def _work(context: Context, stop: asyncio.Event, reports: _Reports) -> None:
    wakeups = Wakeups(context.database, context.owner)
    worker = reports.worker = Worker(context, wakeups)
    guard = LoopGuard(SERVICE, context.events)
    guard.keep("listener", wakeups.listen)
    guard.keep("reports", reports.run)
    orders = _Orders(reports.parent, worker)
    threading.Thread(target=orders.listen, name="gandy-parent", daemon=True).start()
    try:
        await worker.run(stop)
    finally:
        guard.cancel()
        await asyncio.gather(*guard.tasks, return_exceptions=True)


class _Orders:
    """Reads messages in a thread, to notice the end of the parent even if the event loop is blocked."""

    def __init__(self, parent: _Parent, worker: Worker) -> None:
        self._parent = parent
        self._worker = worker
        self._loop = asyncio.get_running_loop()
        self._answering: asyncio.Task[None] | None = None

    def listen(self) -> None:
        """Pass on messages until the process ends."""
        while True:
            message = self._parent.receive()
            with suppress(RuntimeError):  # the loop is closed: this process is ending
                self._loop.call_soon_threadsafe(self._take, message)

    def _take(self, message: ToWorker) -> None:
        match message:
            case LeaveMessage():
                signal.raise_signal(signal.SIGTERM)
            case AskIdle():
                if self._answering is not None:
                    self._answering.cancel()
                self._answering = asyncio.create_task(self._answer(message.round))
            case Begin():
                pass
            case _:
                assert_never(message)

    async def _answer(self, number: int) -> None:
        await self._worker.wait_until_idle()
        self._parent.send(IsIdle(round=number, begun=self._worker.begun))


class _Reports:
    """Reports the state of this process: soon after an event, and at intervals."""

    def __init__(self, app: Gandy, parent: _Parent, *, has_metrics: bool) -> None:
        self.worker: Worker | None = None
        self.parent = parent
        self._telemetry = observe(app.events)
        is_counting = has_metrics and self._telemetry.has_metrics
        self._changes = self._telemetry.metrics.changes() if is_counting else None
        self._ended = 0
        self._has_news = True
        app.events.subscribe(Event, self._note)

    def _note(self, event: Event) -> None:
        self._has_news = True
        self._ended += isinstance(event, RunFinished)

    async def run(self) -> None:
        """Report until this is cancelled."""
        sent_at = 0.0
        while True:
            if self._has_news or time.monotonic() - sent_at >= BEAT_SECONDS:
                sent_at = time.monotonic()
                self.send()
            await asyncio.sleep(REPORT_SECONDS)

    def send(self) -> None:
        """Report now."""
        has_news, self._has_news = self._has_news, False
        self.parent.send(
            WorkerReport(
                problems=self._telemetry.loops.problems(),
                ended=self._ended,
                parked=0 if self.worker is None else self.worker.parked,
                counted=tuple(self._changes.take()) if self._changes and has_news else (),
            )
        )
