"""Leaving in time: what a service waits for at its end, and for how long."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from gandy.errors import GandyError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

_log = logging.getLogger("gandy.services")

SHORTEST_PAUSE: Final = 0.001
LONGEST_PAUSE: Final = 0.02


async def until_quiet(seconds: float, is_quiet: Callable[[], bool]) -> None:
    """Wait until something has come to rest, but no longer than this."""
    pause = SHORTEST_PAUSE
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while not is_quiet():  # runs and ends come and go by many ways; this is the end anyway
                await asyncio.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE)


async def within(seconds: float, work: Coroutine[object, object, object]) -> bool:
    """Do it if the database answers in time, and say whether it did."""
    try:
        await asyncio.wait_for(work, seconds)
    except (TimeoutError, GandyError) as error:
        _log.warning("not done before the end: %s", str(error) or "the database did not answer in time")
        return False
    return True
