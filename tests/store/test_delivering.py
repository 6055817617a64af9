"""Runs that are handed to another engine: their order, and a claim that waits for nobody's key."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest

from gandy.store.dispatching import dispatch
from gandy.store.runs import claim_delivered, exchange_deliveries
from tests.store.work import WORKER, ask, queue, unique
from tests.support.world import OWNER

if TYPE_CHECKING:
    from tests.support.world import World


async def test_the_run_that_was_dispatched_first_is_delivered_first(world: World) -> None:
    """A put-back entry keeps its id, and comes after the runs that were dispatched meanwhile."""
    later, first = (await queue(world, *[None] * 2)).ids
    await world.database.run(dispatch(ask(worker_id=None)))
    world.advance(seconds=5)
    at = f"{world.clock.now:%Y-%m-%dT%H:%M:%S.000000Z}"
    world.rows("UPDATE work_queue SET dispatched_at = ? WHERE id = ? RETURNING id", at, later)

    taken = [
        await world.database.run(exchange_deliveries([], owner=OWNER, limit=1, reserve_seconds=60.0))
        for _ in range(2)
    ]

    assert [delivery.run_id for (delivery,) in taken] == [first, later]


@pytest.mark.timeout(60)
async def test_a_delivered_claim_does_not_wait_for_a_key_that_another_transaction_holds(
    postgres_world: World,
) -> None:
    (queued,) = (await queue(postgres_world, uniqueness=unique("k"))).ids
    await postgres_world.database.run(dispatch(ask(worker_id=None)))
    postgres_world.know_worker(WORKER)
    claim = claim_delivered(queued, worker_id=WORKER, default_timeout_seconds=60.0)
    with psycopg.connect(postgres_world.url) as other:
        locked = other.execute("SELECT 1 FROM gandy.unique_key FOR UPDATE").fetchall()
        run = await postgres_world.database.run(claim)
        other.rollback()

    assert locked
    assert run is not None
