"""A server whose own clock is wrong: a day ahead at first, then it jumps back and forth by two days."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta

import time_machine

DAY = timedelta(days=1)
STEP_EVERY_SECONDS = 0.5

_traveller = time_machine.travel(datetime.now(UTC) + DAY, tick=True).start()


def _jump() -> None:
    pause, sign = threading.Event(), -1
    while not pause.wait(STEP_EVERY_SECONDS):
        _traveller.shift(2 * sign * DAY)
        sign = -sign


threading.Thread(target=_jump, daemon=True).start()
