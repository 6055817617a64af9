"""A run that a person fails while its code goes on: the code is stopped, wherever it runs."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from gandy import Delivery, Gandy, Run
from gandy.desk.cancelling import CancelDesk
from gandy.errors import GandyError
from gandy.model.owners import ALL_OWNERS, Operator
from gandy.settings import Settings
from gandy.store.runs import load_run
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

DOORS = ("worker", "here and now", "delivered")


class Hanging:
    """A job that only its cancellation ends."""

    def __init__(self) -> None:
        self.begun: list[int] = []
        self.ended: list[int] = []

    async def __call__(self, run: Run) -> None:
        self.begun.append(run.id)
        try:
            await asyncio.Event().wait()
        finally:
            self.ended.append(run.id)


class Elsewhere:
    """Another engine, which keeps what it is given."""

    def __init__(self) -> None:
        self.delivered: list[Delivery] = []

    async def submit(self, delivery: Delivery) -> None:
        self.delivered.append(delivery)


@pytest.mark.parametrize("door", DOORS)
async def test_the_code_of_a_run_that_was_failed_by_hand_is_stopped(migrated_url: str, door: str) -> None:
    app, hanging, elsewhere = Gandy("shop", database=migrated_url), Hanging(), Elsewhere()

    @app.train(retry=False)
    async def hang(run: Run) -> None:
        await hanging(run)

    if door == "delivered":
        app.submit_to(elsewhere)

    async def here() -> None:
        with pytest.raises(GandyError):
            await app.run(hang)

    async def delivered() -> None:
        await app.enqueue(hang)
        await app.tick("dispatcher")
        await app.run_delivered(elsewhere.delivered[0].run_id)

    async def queued() -> None:
        async with app.running(services=("worker",)):
            await app.enqueue(hang)
            await eventually(_is(lambda: bool(hanging.ended)), "the code was stopped")

    ways: dict[str, Callable[[], Awaitable[None]]] = {
        "worker": queued,
        "here and now": here,
        "delivered": delivered,
    }
    async with app:
        running = asyncio.ensure_future(ways[door]())
        await eventually(_is(lambda: bool(hanging.begun)), "the code runs")
        database = app._require("a test").context.database
        (run_id,) = hanging.begun
        await CancelDesk(database, Operator("kim", "python"), Settings(), owners=ALL_OWNERS).fail(run_id)
        await eventually(_is(lambda: hanging.ended == [run_id]), "the code was stopped")
        await asyncio.wait_for(running, 30)
        run = await database.read(load_run(run_id, owners=ALL_OWNERS))

    assert run is not None
    assert (run.state, run.failure_exception) == ("failed", "FailedByOperator")


def _is(said: Callable[[], bool]) -> Callable[[], Awaitable[bool]]:
    async def answer() -> bool:
        return said()

    return answer
