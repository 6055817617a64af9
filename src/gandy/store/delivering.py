"""Handing pending runs to an engine outside the database, and taking them up there."""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING

from gandy.store.dispatching import started_run
from gandy.store.statements import batch, statement

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gandy.model.run import ClaimedRun
    from gandy.store.statements import Operation


@dataclass(frozen=True, slots=True)
class Delivery:
    """A run that is to be started elsewhere: `run_id` is all that the other side needs."""

    run_id: int
    external_id: str
    train: str
    input_json: str | None
    attempt: int
    failed_deliveries: int


@dataclass(frozen=True, slots=True)
class DeliveryNote:
    """How a delivery went; an error says when to try again."""

    run_id: int
    error: str | None = None
    delay_seconds: float = 0.0


def exchange_deliveries(
    notes: Sequence[DeliveryNote], *, owner: str, limit: int, reserve_seconds: float
) -> Operation[tuple[Delivery, ...]]:
    """Keep how deliveries went, and take the runs that the submitter shall be given now.

    What is taken is reserved: no other process delivers it before the reservation is over.
    """
    yield batch(
        "note_deliveries",
        [
            {"id": note.run_id, "error": note.error, "delay_seconds": note.delay_seconds}
            for note in sorted(notes, key=attrgetter("run_id"))
        ],
    )
    if not limit:
        return ()
    taken = yield statement("take_undelivered", owner=owner, limit=limit, reserve_seconds=reserve_seconds)
    return tuple(
        Delivery(row.id, row.external_id, row.train, row.input, row.attempt, row.delivery_attempts)
        for row in sorted(taken, key=lambda row: (-row.rank, row.id))
    )


def count_pending(owner: str, limit: int) -> Operation[int]:
    """Count the runs that have not begun, up to a limit."""
    rows = yield statement("count_pending", owner=owner, limit=limit)
    return int(rows[0].pending)


def claim_delivered(
    run_id: int, *, worker_id: str, default_timeout_seconds: float
) -> Operation[ClaimedRun | None]:
    """Start a delivered run; None where it was started already."""
    rows = yield statement(
        "claim_delivered", id=run_id, worker_id=worker_id, default_timeout_seconds=default_timeout_seconds
    )
    return started_run(rows[0]) if rows else None
