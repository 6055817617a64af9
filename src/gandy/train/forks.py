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
from inspect import CO_COROUTINE
from time import perf_counter_ns
from types import FrameType, SimpleNamespace
from typing import TYPE_CHECKING, Final

from gandy.train.inside.run import running_now

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gandy.train.inside.run import Run

RETURNED: Final = 0
_NEVER_RETURNS: Final = "multiprocessing.popen_fork"  # its children end in the function that forked them
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
    run, forking = running_now(), sys._getframe(1)  # noqa: SLF001 - inspect.currentframe is the same
    if run is None or forking.f_globals.get("__name__") == _NEVER_RETURNS:
        return
    forked.at_ns = perf_counter_ns()
    with suppress(Exception):
        _stop_loop(run, forking)
    with suppress(Exception):
        _stop_thread(forking)


def _stop_loop(run: Run, forking: FrameType) -> None:
    """Let the event loop end the process instead of its next callback: those are the parent's."""
    waiting = run.interruptible(None)
    if waiting is None:
        return
    loop = waiting.get_loop()
    ready = getattr(loop, "_ready", None)
    if ready is not None:
        ready.clear()
    else:  # a loop in C, whose callbacks cannot be reached: it must not get control at all
        _stop_task(forking)
    loop.call_soon(_stray)


def _stop_task(forking: FrameType) -> None:
    """End the process where the task that forked it gives control back, by a profiler of its own."""
    outermost = reversed(list(_frames(forking)))
    root = next((frame for frame in outermost if frame.f_code.co_flags & CO_COROUTINE), None)

    def watch(frame: FrameType, event: str, _: object) -> None:
        if frame is root and event == "return":  # it awaits, or it has ended
            _stray()

    if root is not None:
        sys.setprofile(watch)


def _frames(frame: FrameType | None) -> Iterator[FrameType]:
    """The frames of a stack, the innermost first."""
    while frame is not None:
        yield frame
        frame = frame.f_back


def _stop_thread(forking: FrameType) -> None:
    """Let the pool that this thread belongs to end the process instead of taking its next item."""
    for frame in _frames(forking):
        waiting = frame.f_locals.get("work_queue") if frame.f_code.co_name == "_worker" else None
        if isinstance(waiting, queue.SimpleQueue):
            with suppress(queue.Empty):
                while True:
                    waiting.get_nowait()
            waiting.put(SimpleNamespace(run=_stray))


def _stray(*_: object) -> None:
    with suppress(OSError):
        os.write(2, _NOTICE)
    os._exit(STRAYED)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
