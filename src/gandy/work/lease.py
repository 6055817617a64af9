"""The lease of a worker, the detection of idleness, and of claims whose answer was lost."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gandy.errors import GandyError
from gandy.store.queueing import open_all_due
from gandy.store.workers import LeaseRenewal, has_unheard_runs, renew_and_list

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import timedelta

    from gandy.settings import WorkerSettings
    from gandy.store.drivers.database import Database
    from gandy.store.drivers.opening import ThreadLink
    from gandy.work.claiming import Claimer
    from gandy.work.tally import RunTally


_log = logging.getLogger("gandy.worker")


class LeaseKeeper:
    """Renews one worker's lease in a thread, and reports a lost lease or a request to drain."""

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
        tally: RunTally | None = None,
    ) -> None:
        """Take the callbacks, called on the loop; `busy` returns the number of runs and one junction.

        `on_owned` receives, after each renewal, the runs that the database assigns to the worker. The
        tally is written after it.
        """
        self._link = link
        self._settings = settings
        self._loop = loop
        self._busy = busy
        self._on_lost = on_lost
        self._on_drain = on_drain
        self._on_owned = on_owned
        self._tally = tally
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
        """Ask the thread to end, without waiting: the database may hang."""
        self._stop.set()

    def _renew_for_ever(self) -> None:
        every = self._settings.heartbeat_every.total_seconds()
        worker_id = self._worker_id
        while not self._stop.wait(every):
            try:
                state, owned = self._link.run(renew_and_list(self._renewal(worker_id)))
            except Exception as error:  # noqa: BLE001 - after any exception the next heartbeat tries again
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
            self._write_tally(worker_id)
        self._link.close()

    def _write_tally(self, worker_id: str) -> None:
        """Write statistics after a renewal, in a transaction of their own."""
        tallies = {} if self._tally is None else self._tally.take()
        if self._tally is None or not tallies:
            return
        try:
            self._link.run(self._tally.written(worker_id, tallies))
        except Exception as error:  # noqa: BLE001 - statistics must not end the renewal; the next heartbeat tries again
            _log.warning("statistics of %d minutes and trains not written yet: %s", len(tallies), error)
            self._tally.give_back(tallies)
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
        """Return the latency of the event loop in seconds, and start the next measurement."""
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
    """Detects that the queue is empty and every run in progress has a live worker.

    A live worker renews its lease within a heartbeat. The runs of a dead worker return to the queue when its
    lease has expired. So empty claims count only after the database has reported that no such run is left.
    What has come due is opened before, since claims see open entries only.
    """

    def __init__(
        self, database: Database, owner: str, *, heartbeat_every: timedelta, look: Callable[[], None]
    ) -> None:
        """Take `look`, which makes every claimer claim again."""
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
        """Detect idleness once every claimer found nothing after the last end was recorded."""
        if not is_idle:
            self._claimers.clear()
            self._are_all_heard = False
            return
        self._claimers.add(claimer)
        if not self.is_wanted or len(self._claimers) < claimers:
            return
        if self._are_all_heard:
            self.reached.set()
        elif self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._ask(worker_id), name="gandy-idleness")

    async def wait(self) -> None:
        """Wait until claims that begin after this call, and a new look at other workers, find nothing."""
        self.is_wanted, self._are_all_heard = True, False
        self.reached.clear()
        self.look_again()
        await self.reached.wait()

    def look_again(self) -> None:
        """Claim again when all ends are written: the worker may be idle now."""
        if self.is_wanted:
            self._claimers.clear()
            self._look()

    def close(self) -> None:
        """Stop asking the database."""
        if self._asking is not None:
            self._asking.cancel()

    async def _ask(self, worker_id: str) -> None:
        """Read whether runs without a live worker exist, then claim again: only later empty claims count."""
        try:
            self._are_all_heard = await self._database.run(
                open_all_due(self._owner)
            ) and not await self._database.read(has_unheard_runs(self._owner, worker_id))
        except GandyError as error:
            _log.warning("could not check for due entries and runs of other workers: %s", error)
        if not self._are_all_heard:  # such a run may end soon, or its worker's heartbeat may follow
            await asyncio.sleep(self._pause)
            self._pause = min(2 * self._pause, self._longest_pause)
        self.look_again()


@dataclass(frozen=True, slots=True)
class Differences:
    """Runs assigned to a worker that it does not hold, and runs that it executes but no longer owns."""

    unknown: tuple[int, ...]
    gone: tuple[int, ...]


class LeaseComparison:
    """Distinguishes a lost answer of a claim from an answer in flight.

    A claim commits in the database before its answer arrives, and the answer may be lost with its connection.
    A run that is assigned to this worker and not held here was claimed before it was first missed; once all
    claims of that time have returned, the run is either held or its answer was lost.
    """

    def __init__(self, claimers: Sequence[Claimer]) -> None:
        self._claimers = claimers
        self._missed: dict[int, tuple[int, ...]] = {}
        self._absent: frozenset[int] = frozenset()

    def compare(self, owned: Sequence[int], *, held: set[int], running: Sequence[int]) -> Differences:
        """Compare the assigned runs of the database with all held runs and the running ones."""
        next_claims = tuple(claimer.next_claim for claimer in self._claimers)
        self._missed = {
            run_id: self._missed.get(run_id, next_claims) for run_id in owned if run_id not in held
        }
        oldest_claims = [claimer.oldest_open_claim for claimer in self._claimers]
        unknown = tuple(
            run_id
            for run_id, claims in self._missed.items()
            if all(oldest >= seen for oldest, seen in zip(oldest_claims, claims, strict=True))
        )
        # Require two absences: a run claimed after the database was read is not in that answer.
        absent = frozenset(running).difference(owned)
        gone, self._absent = tuple(absent & self._absent), absent
        return Differences(unknown, gone)
