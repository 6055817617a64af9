"""Waiting for something to become true: the one place in the tests where time is let pass."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

T = TypeVar("T")

PAUSE_SECONDS = 0.01


class NeverHappenedError(AssertionError):
    """What a test waited for did not come about in time."""

    def __init__(self, what: str, seconds: float) -> None:
        super().__init__(f"{what}: still not so after {seconds:g} s")
        self.what = what
        self.seconds = seconds


def wait_until(condition: Callable[[], T], what: str, *, within: float = 30.0) -> T:
    """Return the condition's first truthy answer; `within` is a bound for failure, not a guess."""
    deadline = time.monotonic() + within
    pause = threading.Event()
    while not (answer := condition()):
        if time.monotonic() > deadline:
            raise NeverHappenedError(what, within)
        pause.wait(PAUSE_SECONDS)
    return answer


async def eventually(condition: Callable[[], Awaitable[T]], what: str, *, within: float = 30.0) -> T:
    """Do as `wait_until` does, without holding up the event loop."""
    deadline = time.monotonic() + within
    while not (answer := await condition()):
        if time.monotonic() > deadline:
            raise NeverHappenedError(what, within)
        await asyncio.sleep(PAUSE_SECONDS)
    return answer
