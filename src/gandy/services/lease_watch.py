"""Whether expired leases can be believed: only while the database answers; a frozen one kills nobody."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from time import monotonic
from typing import TYPE_CHECKING, Final

from gandy.errors import GandyError
from gandy.store.reaping import ask_database

if TYPE_CHECKING:
    from collections.abc import Callable

    from gandy.store.drivers.database import Database

#: The database is asked so often within one heartbeat interval, and each answer has to come in that time.
_LOOKS: Final = 4


class LeaseWatch:
    """Asks the database for one heartbeat interval, during which every live worker renews its lease."""

    def __init__(self, database: Database, heartbeat_every: timedelta) -> None:
        self._database = database
        self._interval = heartbeat_every.total_seconds()
        self._confirmed_at: float | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def is_trusted(self) -> bool:
        """Whether the database has just answered for a full interval."""
        return self._confirmed_at is not None and monotonic() - self._confirmed_at < self._interval

    def follow(
        self, on_confirmed: Callable[[], None], *, silent_workers: int, next_lease_end: timedelta | None
    ) -> None:
        """Begin to watch before the first lease runs out, so that the death is noticed when it does."""
        is_near = next_lease_end is not None and next_lease_end.total_seconds() <= self._interval
        if (silent_workers or is_near) and not self.is_trusted:
            self.begin(on_confirmed)

    def pause(self, next_lease_end: timedelta | None) -> timedelta | None:
        """How long to wait before the leases are looked at again; None: there is none."""
        if next_lease_end is None:
            return None
        heartbeat = timedelta(seconds=self._interval)
        return max(next_lease_end - heartbeat, heartbeat / 2)

    def begin(self, on_confirmed: Callable[[], None]) -> None:
        """Start to watch in the background, unless that is going on."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._watch(on_confirmed), name="gandy-lease-watch")

    async def confirm(self) -> bool:
        """Watch for one interval; False: the database did not answer all the time."""
        step = self._interval / _LOOKS
        for _ in range(_LOOKS):
            begun = monotonic()
            try:
                await asyncio.wait_for(self._database.read(ask_database()), step)
            except (GandyError, TimeoutError):
                return False
            await asyncio.sleep(max(step - (monotonic() - begun), 0.0))
        self._confirmed_at = monotonic()
        return True

    async def close(self) -> None:
        """End the watch."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _watch(self, on_confirmed: Callable[[], None]) -> None:
        if await self.confirm():
            on_confirmed()
