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
LONGEST_PAUSE_SECONDS = 0.1
PART_OF_THE_WAIT = 0.1  # an answer may come late by so much; what asks may cost a connection


class NeverHappenedError(AssertionError):
    """What a test waited for did not come about in time."""

    def __init__(self, what: str, seconds: float) -> None:
        super().__init__(f"{what}: still not so after {seconds:g} s")
        self.what = what
        self.seconds = seconds


def wait_until(condition: Callable[[], T], what: str, *, within: float = 30.0) -> T:
    """Return the condition's first truthy answer; `within` is a bound for failure, not a guess."""
    begun = time.monotonic()
    pause = threading.Event()
    while not (answer := condition()):
        pause.wait(_pause_after(begun, what, within))
    return answer


async def eventually(condition: Callable[[], Awaitable[T]], what: str, *, within: float = 30.0) -> T:
    """Do as `wait_until` does, without holding up the event loop."""
    begun = time.monotonic()
    while True:
        if answer := await condition():
            return answer
        await asyncio.sleep(_pause_after(begun, what, within))


def _pause_after(begun: float, what: str, within: float) -> float:
    """Pause the longer, the longer it has taken so far; raise after that many seconds."""
    waited = time.monotonic() - begun
    if waited > within:
        raise NeverHappenedError(what, within)
    return min(max(PAUSE_SECONDS, waited * PART_OF_THE_WAIT), LONGEST_PAUSE_SECONDS)
