"""Two claims on their way at once: neither may leave the other's answer unheard."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from datetime import timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from gandy.errors import DatabaseUnreachableError
from gandy.services.worker import pace
from gandy.services.worker.buffer import RunBuffer
from gandy.services.worker.claiming import Claimer
from gandy.settings import load_settings
from gandy.store.dispatching import Dispatched

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable

SLOTS = 100


class Lane:
    """A session whose claims come back when the test says so."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def run(self, operation: Any) -> Dispatched:  # noqa: ANN401 an operation that nobody drives
        operation.close()
        self.asked.set()
        found, self.answer = await self.answer, asyncio.get_running_loop().create_future()
        self.asked.clear()
        return Dispatched(tuple(claimed(found)))  # type: ignore[arg-type]

    async def reply(self, found: int) -> None:
        await self.asked.wait()
        self.answer.set_result(found)


class Working:
    """A worker with all its slots taken, and nothing that could bring new work."""

    id = "w"
    is_quiet = True

    def __init__(self) -> None:
        self.running = SLOTS
        self.idle = asyncio.Event()

    def note_idle(self) -> None:
        self.idle.set()

    async def attempt(self, work: Awaitable[int]) -> int | None:
        return await work


def claimed(count: int) -> list[SimpleNamespace]:
    return [SimpleNamespace(id=number, losses=0) for number in range(count)]


class Rig:
    """A claimer that wants two hundred runs ahead, and a claim of it on its way in each lane."""

    def __init__(self, first: Lane | None = None) -> None:
        settings = load_settings(
            keywords={"worker": {"slots": SLOTS, "poll_every": timedelta(hours=1)}}, environ={}
        ).settings
        self.lanes = [first or Lane(), Lane()]
        opened = iter(self.lanes)
        parts = SimpleNamespace(
            owner="me",
            settings=settings,
            registry=SimpleNamespace(names=["no_op"]),
            database=SimpleNamespace(session=lambda: next(opened)),
            wakeups=SimpleNamespace(event=lambda _: asyncio.Event()),
        )
        self.worker, self.ready = Working(), RunBuffer()
        self.claimer = Claimer(parts, self.worker, ready=self.ready, suspects=RunBuffer())  # type: ignore[arg-type]

    async def gather_speed(self) -> None:
        """Go from a hundred ahead to two hundred."""
        await self.lanes[0].reply(100)
        await settled()
        assert len(self.ready) == 100
        for _ in range(200):
            self.claimer.begin()
        self.hold(60)
        self.claimer.begin()
        await self.lanes[0].reply(140)
        await settled()
        assert len(self.ready) == 200

    async def claim_in_both_lanes(self, *, running: int, held: int) -> None:
        self.hold(133)
        self.claimer.begin()
        await self.lanes[0].asked.wait()
        self.worker.running = running
        self.hold(held)
        self.claimer.begin()
        await self.lanes[1].asked.wait()

    def hold(self, count: int) -> None:
        self.ready.clear()
        self.ready.put(claimed(count))  # type: ignore[arg-type]


@asynccontextmanager
async def claiming() -> AsyncIterator[Rig]:
    rig = Rig()
    loops = [asyncio.create_task(rig.claimer.run()), asyncio.create_task(rig.claimer.run_beside())]
    try:
        async with asyncio.timeout(10):
            await rig.gather_speed()
            yield rig
    finally:
        for loop in loops:
            loop.cancel()
        await asyncio.gather(*loops, return_exceptions=True)


@pytest.fixture(autouse=True)
def _time_stands_still(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pace, "time", SimpleNamespace(monotonic=lambda: 0.0))


async def test_an_empty_answer_beside_another_claim_is_asked_again_when_that_is_back() -> None:
    async with claiming() as rig:
        await rig.claim_in_both_lanes(running=SLOTS, held=60)
        await rig.lanes[0].reply(0)
        await settled()
        assert not rig.worker.idle.is_set()
        assert not rig.lanes[0].asked.is_set()

        await rig.lanes[1].reply(0)
        await rig.lanes[0].reply(0)

        await rig.worker.idle.wait()


async def test_a_claim_that_brings_less_than_was_expected_of_it_has_the_other_lane_ask() -> None:
    async with claiming() as rig:
        await rig.claim_in_both_lanes(running=0, held=0)
        await rig.lanes[0].reply(67)
        await settled()
        assert len(rig.ready) == 67
        rig.hold(0)
        rig.claimer.begin()
        await settled()
        assert not rig.lanes[0].asked.is_set(), "enough is expected of the other lane"

        await rig.lanes[1].reply(0)

        await rig.lanes[0].asked.wait()


class FailingLane(Lane):
    """Its first answer is two runs; then the database is away."""

    async def run(self, operation: Any) -> Dispatched:  # noqa: ANN401 an operation that nobody drives
        operation.close()
        if self.asked.is_set():
            await self.answer
            raise DatabaseUnreachableError("postgresql://there", "away")
        self.asked.set()
        return Dispatched(tuple(claimed(2)))  # type: ignore[arg-type]


async def test_what_a_dispatcher_had_made_is_held_although_the_rest_of_the_claim_fails() -> None:
    rig = Rig(FailingLane())
    claim = asyncio.create_task(rig.claimer.run())
    await settled()

    assert rig.lanes[0].asked.is_set()
    rig.lanes[0].answer.set_result(0)
    with pytest.raises(DatabaseUnreachableError):
        await claim

    assert len(rig.ready) == 2


async def settled() -> None:
    """Let everything that can go on go on."""
    for _ in range(50):
        await asyncio.sleep(0)
