"""A loop that runs cycles: when to run, never what to do."""

from __future__ import annotations

import asyncio
import logging
import random
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from gandy.errors import GandyError
from gandy.services.wakeups import wait_for_wake

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

_log = logging.getLogger("gandy.services")

FIRST_BACKOFF: Final = timedelta(seconds=1)
LONGEST_BACKOFF: Final = timedelta(seconds=30)
#: However often it is woken, a loop takes this breath between two cycles.
SHORTEST_REST: Final = timedelta(milliseconds=10)


class Poller:
    """Runs a cycle, rests until its own next instant, a wake-up or the poll, and runs it again."""

    def __init__(
        self,
        name: str,
        cycle: Callable[[], Awaitable[timedelta | None]],
        *,
        poll_every: timedelta,
        wake: asyncio.Event,
    ) -> None:
        """Take a cycle that answers when it wants to run again; None: after `poll_every`."""
        self._name = name
        self._cycle = cycle
        self._poll_every = poll_every
        self._wake = wake
        self._failures = 0

    async def run(self, stop: asyncio.Event) -> None:
        """Run cycles until the event is set; what one raises is logged, and the next comes after a pause."""
        while not stop.is_set():
            await self._rest(stop, await self._attempt())

    async def _attempt(self) -> timedelta:
        try:
            wanted = await self._cycle()
        except GandyError as error:
            _log.warning("%s: %s", self._name, error)
        except Exception:  # noqa: BLE001 - one bad cycle is not the end of the service
            _log.exception("%s: a cycle failed", self._name)
        else:
            self._failures = 0
            return self._poll_every if wanted is None else min(wanted, self._poll_every)
        self._failures += 1
        return _backoff(self._failures)

    async def _rest(self, stop: asyncio.Event, span: timedelta) -> None:
        stopping = asyncio.ensure_future(stop.wait())
        resting = asyncio.ensure_future(self._sleep(span))
        try:
            await asyncio.wait((stopping, resting), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (stopping, resting):
                task.cancel()
            await asyncio.gather(stopping, resting, return_exceptions=True)

    async def _sleep(self, span: timedelta) -> None:
        await asyncio.sleep(SHORTEST_REST.total_seconds())
        # A failing cycle is not woken: the database would only be asked more often.
        if self._failures:
            await asyncio.sleep(span.total_seconds())
        else:
            await wait_for_wake(self._wake, (span - SHORTEST_REST).total_seconds())


def _backoff(failures: int) -> timedelta:
    """Double the pause, and spread servers that failed together."""
    longest = min(FIRST_BACKOFF * (1 << min(failures - 1, 10)), LONGEST_BACKOFF)
    return longest * random.uniform(0.5, 1.0)  # noqa: S311 no secret
