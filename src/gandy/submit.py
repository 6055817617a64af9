"""Delivery of dispatched runs to another engine, instead of to workers that claim them."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from typing import TYPE_CHECKING, Final, Protocol

from gandy.errors import GandyError
from gandy.events import DeliveryFailed
from gandy.store.runs import Delivery, DeliveryNote, exchange_deliveries

if TYPE_CHECKING:
    from gandy.events import EventBus
    from gandy.store.drivers.database import Database

_log = logging.getLogger("gandy.submit")

FIRST_DELAY: Final = timedelta(seconds=5)
LONGEST_DELAY: Final = timedelta(minutes=5)
AT_ONCE: Final = 20
#: The timeout of one delivery.
DELIVERY_TIMEOUT: Final = timedelta(seconds=30)
#: How long a delivery stays reserved for its process beyond the timeout.
RESERVE: Final = timedelta(seconds=10)
LEAVE_SECONDS: Final = 2.0


class Submitter(Protocol):
    """Hands one run to another engine, which calls `await app.run_delivered(run_id)` where the trains are."""

    async def submit(self, delivery: Delivery) -> None:
        """Deliver, or raise: a failed delivery is retried with back-off, and is not a failure of the job.

        Up to twenty deliveries run at once; a delivery that takes longer than 30 s has failed.
        """
        ...


class Deliverer:
    """Delivers pending runs to the submitter, several at once: a hanging delivery blocks no other."""

    def __init__(
        self,
        database: Database,
        owner: str,
        submitter: Submitter,
        *,
        events: EventBus,
        timeout: timedelta = DELIVERY_TIMEOUT,
    ) -> None:
        self._database = database
        self._owner = owner
        self._submitter = submitter
        self._events = events
        self._seconds = timeout.total_seconds()
        self._going: set[asyncio.Task[None]] = set()
        self._notes: list[DeliveryNote] = []
        self._wake = asyncio.Event()

    def wake(self) -> None:
        """Check at once for runs to deliver."""
        self._wake.set()

    async def run(self, poll_every: timedelta) -> None:
        """Deliver until cancelled; try again after a database error."""
        while True:
            self._wake.clear()
            try:
                is_more = await self._step()
            except GandyError as error:
                _log.warning("deliveries are paused: %s", error)
                is_more = False
                await asyncio.sleep(1.0)
            if not is_more:
                await self._rest(poll_every.total_seconds())

    async def deliver_due(self) -> int:
        """Deliver all due runs and return the number of successful deliveries."""
        delivered, is_more = 0, True
        while is_more or self._going or self._notes:
            delivered += sum(note.error is None for note in self._notes)
            is_more = await self._step()
            if not is_more and self._going and not self._notes:
                await asyncio.wait(self._going, return_when=asyncio.FIRST_COMPLETED)
        return delivered

    async def close(self) -> None:
        """Wait briefly for running deliveries, cancel the others, and record the outcomes."""
        if self._going:
            await asyncio.wait(self._going, timeout=LEAVE_SECONDS)
        for task in self._going:
            task.cancel()
        if self._going:
            await asyncio.wait(self._going, timeout=LEAVE_SECONDS)
        try:
            await asyncio.wait_for(self._exchange(0), LEAVE_SECONDS)
        except (GandyError, TimeoutError) as error:
            _log.warning("delivery outcomes could not be recorded: %s", str(error) or "no answer in time")

    async def _step(self) -> bool:
        """Record ended deliveries, start new ones up to the limit, and return whether there may be more."""
        free = AT_ONCE - len(self._going)
        taken = await self._exchange(free)
        for delivery in taken:
            task = asyncio.create_task(self._deliver(delivery), name=f"gandy-delivery-{delivery.run_id}")
            self._going.add(task)
            task.add_done_callback(self._ended)
        return len(taken) == free > 0

    async def _exchange(self, free: int) -> tuple[Delivery, ...]:
        notes = tuple(self._notes)
        if not notes and not free:
            return ()
        reserve = self._seconds + RESERVE.total_seconds()
        taken = await self._database.run(
            exchange_deliveries(notes, owner=self._owner, limit=free, reserve_seconds=reserve)
        )
        del self._notes[: len(notes)]
        return taken

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._going.discard(task)
        self._wake.set()

    async def _rest(self, seconds: float) -> None:
        try:  # asyncio.wait_for loses a cancellation that comes together with the event
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        except TimeoutError:
            return

    async def _deliver(self, delivery: Delivery) -> None:
        attempt = asyncio.create_task(_caught(self._submitter, delivery))
        try:
            done, _ = await asyncio.wait({attempt}, timeout=self._seconds)
        except asyncio.CancelledError:
            attempt.cancel()
            self._notes.append(DeliveryNote(delivery.run_id, "the dispatcher stopped during the delivery"))
            raise
        if not done:
            attempt.cancel()  # it may ignore the cancellation: do not wait for it
            self._note(delivery, f"TimeoutError: not delivered within {self._seconds:g} s")
        elif (error := attempt.result()) is not None:
            self._note(delivery, error)
        else:
            self._notes.append(DeliveryNote(delivery.run_id))

    def _note(self, delivery: Delivery, error: str) -> None:
        _log.warning("run %d could not be delivered: %s", delivery.run_id, error)
        self._events.emit(DeliveryFailed(run_id=delivery.run_id, train=delivery.train, error=error))
        delay = backoff(delivery.failed_deliveries).total_seconds()
        self._notes.append(DeliveryNote(delivery.run_id, error, delay))


async def _caught(submitter: Submitter, delivery: Delivery) -> str | None:
    """Return any exception as text: raised in a task, some classes would stop the event loop."""
    try:
        await submitter.submit(delivery)
    except BaseException as error:  # noqa: BLE001 after any error of the engine the run stays pending
        return _words(error)
    return None


def _words(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {error}"
    except BaseException:  # noqa: BLE001 the exception's own methods run here
        return type(error).__name__


def backoff(failed_deliveries: int) -> timedelta:
    """Return the exponential back-off: five seconds, doubling up to five minutes."""
    return min(FIRST_DELAY * (1 << min(failed_deliveries, 16)), LONGEST_DELAY)
