"""A worker's lease, renewed in a thread of its own: a junction that hogs the interpreter does not lose it."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING

from gandy.store.workers import LeaseRenewal, renew_and_list

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Sequence

    from gandy.settings import WorkerSettings
    from gandy.store.drivers.opening import ThreadLink

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
