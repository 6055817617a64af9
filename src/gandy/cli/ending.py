"""How a process that serves comes to its end: a first signal asks, a second one does not."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from datetime import timedelta

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
LEAVE_SECONDS: Final = 5.0
CUT_OFF: Final = 3
SECOND_SIGNAL: Final = 130


def stop_on_signals(*, grace: timedelta) -> asyncio.Event:
    """Make the event that the first signal sets; the process ends within the grace period whatever hangs."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def ask() -> None:
        if stop.is_set():
            os._exit(SECOND_SIGNAL)
        stop.set()
        end_for_sure(grace.total_seconds() + LEAVE_SECONDS)

    for each in SIGNALS:
        loop.add_signal_handler(each, ask)
    return stop


def end_for_sure(seconds: float) -> None:
    """End the process after so many seconds: a thread that hangs would keep the interpreter for ever."""
    timer = threading.Timer(seconds, os._exit, (CUT_OFF,))
    timer.daemon = True
    timer.start()
