"""A process that runs services: its event loop, its garbage collector, its signals."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import threading
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta


_log = logging.getLogger("gandy.process")

YOUNG_OBJECTS: Final = 50_000


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """Return the event loop factory: uvloop if the extra is installed, else asyncio."""
    if find_spec("uvloop") is None:
        return asyncio.new_event_loop
    import uvloop  # noqa: PLC0415 an extra

    return uvloop.new_event_loop


def tune_garbage_collector() -> None:
    """Exclude start-up objects from garbage collection and collect less often: jobs create few cycles."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS, 20, 20)


SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
LOOK_SECONDS: Final = 1.0
LEAVE_SECONDS: Final = 5.0
CUT_OFF: Final = 3
SECOND_SIGNAL: Final = 130


def stop_on_signals(
    *, grace: timedelta, is_child: bool = False, on_first: Callable[[], None] | None = None
) -> asyncio.Event:
    """Return an event that the first signal sets; the process exits after the grace period in any case.

    The second signal exits at once. A child leaves that to its parent: a signal to the process group reaches
    the child twice, the second time by its parent. `on_first` is called at the first signal.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def ask() -> None:
        if not stop.is_set():
            stop.set()
            if on_first is not None:
                on_first()
            exit_after(grace.total_seconds() + LEAVE_SECONDS)
        elif not is_child:
            os._exit(SECOND_SIGNAL)

    _keep_handlers(loop, ask)
    return stop


def _keep_handlers(loop: asyncio.AbstractEventLoop, ask: Callable[[], None]) -> None:
    """Install the handlers, and look at intervals whether a job in this thread has replaced them."""
    for each in SIGNALS:
        loop.add_signal_handler(each, ask)
    installed = {each: signal.getsignal(each) for each in SIGNALS}
    waking = signal.set_wakeup_fd(-1)
    signal.set_wakeup_fd(waking)

    def look() -> None:
        replaced = [each for each in SIGNALS if signal.getsignal(each) is not installed[each]]
        for each in replaced:
            _log.warning("a job replaced the handler of %s; it is put back", each.name)
            loop.add_signal_handler(each, ask)
            installed[each] = signal.getsignal(each)
        if signal.set_wakeup_fd(waking) != waking:
            _log.warning("a job replaced the descriptor by which signals wake the event loop; it is put back")
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        loop.call_later(LOOK_SECONDS, look)

    look()


def exit_after(seconds: float) -> None:
    """Exit the process after a timeout: a thread that hangs would block the interpreter's exit forever."""
    timer = threading.Timer(seconds, os._exit, (CUT_OFF,))
    timer.daemon = True
    timer.start()
