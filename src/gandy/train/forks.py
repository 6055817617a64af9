"""What becomes of a process that a job forks: it never goes on as a second worker.

The child of os.fork() is a copy of the worker in the middle of a run. What the job does in it is the job's
own affair: exec, os._exit, the main function of a multiprocessing child. But the copy must not come back into
Gandy, where it would run other jobs and write ends on connections that it shares with its parent. So it ends
as soon as the junction returns, and as soon as its thread would take up anything else.
"""

from __future__ import annotations

import os
import queue
import sys
from contextlib import suppress
from time import perf_counter_ns
from types import FrameType, SimpleNamespace
from typing import TYPE_CHECKING, Final

from gandy.train.inside.run import running_now

if TYPE_CHECKING:
    from gandy.train.inside.run import Run

RETURNED: Final = 0
STRAYED: Final = 70  # EX_SOFTWARE of sysexits.h
_NOTICE: Final = (
    b"gandy: a process that a job forked came back into its worker and was ended; "
    b"let it exec or call os._exit, or declare the train with process=True\n"
)


class _Forked:
    """When this process was forked from inside a run; zero in any other process."""

    at_ns: int = 0


forked: Final = _Forked()


def end_if_forked(run: Run) -> None:
    """End this process if it is a copy that was forked inside this run, or inside one within it."""
    if run.started_ns < forked.at_ns:  # a run that a forked process starts itself has begun later
        os._exit(RETURNED)  # without flushing: what waits in the streams may be the parent's


def _after_fork() -> None:
    run = running_now()
    if run is None:
        return
    forked.at_ns = perf_counter_ns()
    with suppress(Exception):
        _stop_loop(run)
    with suppress(Exception):
        _stop_thread(sys._getframe())  # noqa: SLF001 - inspect.currentframe is the same


def _stop_loop(run: Run) -> None:
    """Let the event loop end the process instead of its next callback: those are the parent's."""
    waiting = run.interruptible(None)
    if waiting is not None:
        loop = waiting.get_loop()
        ready = getattr(loop, "_ready", None)
        if ready is not None:  # a loop in C has no such list: there the end comes after its waiting callbacks
            ready.clear()
        loop.call_soon(_stray)


def _stop_thread(frame: FrameType | None) -> None:
    """Let the pool that this thread belongs to end the process instead of taking its next item."""
    while frame is not None:
        waiting = frame.f_locals.get("work_queue") if frame.f_code.co_name == "_worker" else None
        if isinstance(waiting, queue.SimpleQueue):
            with suppress(queue.Empty):
                while True:
                    waiting.get_nowait()
            waiting.put(SimpleNamespace(run=_stray))
        frame = frame.f_back


def _stray(*_: object) -> None:
    with suppress(OSError):
        os.write(2, _NOTICE)
    os._exit(STRAYED)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
