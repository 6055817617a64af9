"""When a worker that was started for what there is has nothing left to do."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from gandy.errors import GandyError
from gandy.store.workers import has_unheard_runs

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

    from gandy.services.worker.claiming import Claimer
    from gandy.store.drivers.database import Database

_log = logging.getLogger("gandy.worker")

FIRST_PAUSE: Final = 0.02


class Idleness:
    """Ends the wait once the queue is empty and every run in progress has a worker that is heard of.

    A live worker renews its lease within a heartbeat. The runs of a dead one are recovered when its lease has
    run out, and are then in the queue. So the claims that find nothing count only after the database has said
    that no such run is left.
    """

    def __init__(
        self, database: Database, owner: str, *, heartbeat_every: timedelta, look: Callable[[], None]
    ) -> None:
        """Take `look`, which lets every claimer ask the queue again."""
        self._database = database
        self._owner = owner
        self._pause = FIRST_PAUSE
        self._longest_pause = heartbeat_every.total_seconds()
        self._look = look
        self._claimers: set[Claimer] = set()
        self._asking: asyncio.Task[None] | None = None
        self._are_all_heard = False
        self.is_wanted = False
        self.reached = asyncio.Event()

    def note(self, claimer: Claimer, *, is_idle: bool, claimers: int, worker_id: str) -> None:
        """Take it that nothing is left once every claimer found nothing after the last end was on record."""
        if not is_idle:
            self._claimers.clear()
            return
        self._claimers.add(claimer)
        if not self.is_wanted or len(self._claimers) < claimers:
            return
        if self._are_all_heard:
            self.reached.set()
        elif self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._ask(worker_id), name="gandy-idleness")

    def look_again(self) -> None:
        """Ask the queue once more when all ends are written: it may be the last question."""
        if self.is_wanted:
            self._claimers.clear()
            self._look()

    def close(self) -> None:
        """Ask no more."""
        if self._asking is not None:
            self._asking.cancel()

    async def _ask(self, worker_id: str) -> None:
        """Ask for runs without a sign of their worker, and let the queue be asked after the answer."""
        try:
            self._are_all_heard = not await self._database.read(has_unheard_runs(self._owner, worker_id))
        except GandyError as error:
            _log.warning("not known whether runs of other workers are left: %s", error)
        if not self._are_all_heard:  # such a run may end at once; the sign of life comes with a heartbeat
            await asyncio.sleep(self._pause)
            self._pause = min(2 * self._pause, self._longest_pause)
        self.look_again()
