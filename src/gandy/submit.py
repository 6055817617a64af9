"""Where dispatched work goes: to the database, from which workers take it, or to another engine."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import TYPE_CHECKING, Final, Protocol

from gandy.events import DeliveryFailed
from gandy.store.delivering import Delivery, DeliveryNote, load_undelivered, note_deliveries

if TYPE_CHECKING:
    from gandy.events import EventBus
    from gandy.store.drivers.database import Database

_log = logging.getLogger("gandy.submit")

FIRST_DELAY: Final = timedelta(seconds=5)
LONGEST_DELAY: Final = timedelta(minutes=5)
AT_ONCE: Final = 100


class Submitter(Protocol):
    """Hands one run to another engine, which calls `await app.run_delivered(run_id)` where the trains are."""

    async def submit(self, delivery: Delivery) -> None:
        """Deliver, or raise: a delivery that fails is made again, and is no failure of the job."""
        ...


async def deliver_pending(database: Database, owner: str, submitter: Submitter, *, events: EventBus) -> int:
    """Give the submitter what waits for it, and keep how each delivery went."""
    delivered = 0
    while True:
        deliveries = await database.run(load_undelivered(owner, AT_ONCE))
        notes = [await _deliver(submitter, delivery, events) for delivery in deliveries]
        await database.run(note_deliveries(notes))
        delivered += sum(note.error is None for note in notes)
        if len(deliveries) < AT_ONCE:
            return delivered


async def _deliver(submitter: Submitter, delivery: Delivery, events: EventBus) -> DeliveryNote:
    try:
        await submitter.submit(delivery)
    except Exception as error:  # noqa: BLE001 whatever the engine raises, the run stays pending
        text = f"{type(error).__name__}: {error}"
        _log.warning("run %d could not be delivered: %s", delivery.run_id, text)
        events.emit(DeliveryFailed(run_id=delivery.run_id, train=delivery.train, error=text))
        return DeliveryNote(delivery.run_id, text, backoff(delivery.failed_deliveries).total_seconds())
    return DeliveryNote(delivery.run_id)


def backoff(failed_deliveries: int) -> timedelta:
    """Wait five seconds, doubling to five minutes."""
    return min(FIRST_DELAY * (1 << min(failed_deliveries, 16)), LONGEST_DELAY)
