"""A worker's lease, what tells that it is idle, and the runs that it finds again."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gandy.errors import GandyError
from gandy.store.workers import LeaseRenewal, has_unheard_runs, renew_and_list

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import timedelta

    from gandy.settings import WorkerSettings
    from gandy.store.drivers.database import Database
    from gandy.store.drivers.opening import ThreadLink
    from gandy.work.claiming import Claimer


_log = logging.getLogger("gandy.worker")


class LeaseKeeper:
    """Renews one worker's lease until it is stopped, and tells when it is lost or the worker shall drain."""

    def __init__(
        self,
        link: ThreadLink,
        settings: WorkerSettings,
        *,
        loop: asyncio.AbstractEventLoop,
        busy: Callable[[], tuple[int, str | None]],
        on_lost: Callable[[str], None],
        on_drain: Callable[[], None],
        on_owned: Callable[[str, Sequence[int]], None] | None = None,
    ) -> None:
        """Take the callbacks, called on the loop; `busy` says how many run, and one junction of them.

        With `on_owned`, each renewal also reads which runs the database gives to the worker.
        """
        self._link = link
        self._settings = settings
        self._loop = loop
        self._busy = busy
        self._on_lost = on_lost
        self._on_drain = on_drain
        self._on_owned = on_owned
        self._stop = threading.Event()
        self._asked_at = 0.0
        self._answered_at = 0.0
        self._worker_id = ""
        self._thread: threading.Thread | None = None

    def start(self, worker_id: str) -> None:
        """Begin to renew."""
        self._worker_id = worker_id
        self._stop.clear()
        self._thread = threading.Thread(target=self._renew_for_ever, name="gandy-lease", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End soon; nobody waits for a database that hangs."""
        self._stop.set()

    def _renew_for_ever(self) -> None:
        every = self._settings.heartbeat_every.total_seconds()
        worker_id = self._worker_id
        while not self._stop.wait(every):
            try:
                state, owned = self._link.run(renew_and_list(self._renewal(worker_id)))
            except Exception as error:  # noqa: BLE001 whatever the driver raises, the next beat tries again
                _log.warning("lease of %s not renewed: %s", worker_id, error)
                self._link.close()
                continue
            if state is None and not self._stop.is_set():
                self._loop.call_soon_threadsafe(self._on_lost, worker_id)
                break
            if state == "draining":
                self._loop.call_soon_threadsafe(self._on_drain)
            if self._on_owned is not None and state is not None:
                self._loop.call_soon_threadsafe(self._on_owned, worker_id, owned)
        self._link.close()

    def _renewal(self, worker_id: str) -> LeaseRenewal:
        busy, junction = self._busy()
        return LeaseRenewal(
            id=worker_id,
            lease_seconds=self._settings.lease_for.total_seconds(),
            busy=busy,
            stall_seconds=self._stall(),
            stalled_junction=junction,
        )

    def _stall(self) -> float:
        """Say how long the event loop took to answer, or has not answered yet; ask it again."""
        now = time.monotonic()
        if self._asked_at and not self._answered_at:
            return now - self._asked_at
        waited = self._answered_at - self._asked_at
        self._asked_at, self._answered_at = now, 0.0
        self._loop.call_soon_threadsafe(self._answer)
        return waited

    def _answer(self) -> None:
        self._answered_at = time.monotonic()


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


@dataclass(frozen=True, slots=True)
class Differences:
    """Runs that a worker has and does not know of, and runs that it executes and no longer has."""

    unknown: tuple[int, ...]
    gone: tuple[int, ...]


class LeaseComparison:
    """Tells a lost answer from one that is still on its way.

    A claim commits in the database before its answer is here, and the answer may be lost with its connection.
    A run that is in progress under this worker's name and not held here was brought by a claim that had set
    out before the run was first missed; once all of these are back, the run is known or its answer is lost.
    """

    def __init__(self, claimers: Sequence[Claimer]) -> None:
        self._claimers = claimers
        self._missed: dict[int, tuple[int, ...]] = {}
        self._absent: frozenset[int] = frozenset()

    def compare(self, owned: Sequence[int], *, held: set[int], running: Sequence[int]) -> Differences:
        """Take what the database says, what is held in any way, and which of that is being executed."""
        next_flights = tuple(claimer.next_flight for claimer in self._claimers)
        self._missed = {
            run_id: self._missed.get(run_id, next_flights) for run_id in owned if run_id not in held
        }
        oldest_flights = [claimer.oldest_flight for claimer in self._claimers]
        unknown = tuple(
            run_id
            for run_id, flights in self._missed.items()
            if all(oldest >= seen for oldest, seen in zip(oldest_flights, flights, strict=True))
        )
        # Seen twice: what was claimed after the database was read is not in its answer yet.
        absent = frozenset(running).difference(owned)
        gone, self._absent = tuple(absent & self._absent), absent
        return Differences(unknown, gone)
