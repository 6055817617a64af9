from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

from gandy.work.buffer import AHEAD_SECONDS, MOST_SLOTS_A_TURN, RUNS_A_TURN, ClaimPace, RunBuffer

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    import pytest

    from gandy.model.run import ClaimedRun


def _runs(count: int) -> list[ClaimedRun]:
    return cast("list[ClaimedRun]", list(range(count)))


async def _consume(
    count: int, *, slots: int, job: Callable[[], Awaitable[None]]
) -> tuple[list[object], list[int]]:
    """Let slots take runs, and count how far they have come at each turn of the loop."""
    buffer, taken, turns = RunBuffer(), list[object](), list[int]()

    async def slot() -> None:
        while True:
            taken.append(await buffer.get())
            await job()

    tasks = [asyncio.create_task(slot()) for _ in range(slots)]
    await asyncio.sleep(0)
    buffer.put(_runs(count))
    while len(taken) < count:
        await asyncio.sleep(0)
        turns.append(len(taken))
    for task in tasks:
        task.cancel()
    return taken, turns


async def _at_once() -> None:
    """A job that waits for nothing."""


async def _in_a_moment() -> None:
    await asyncio.sleep(0)


async def test_jobs_that_never_wait_leave_the_loop_to_others_after_each_turn() -> None:
    taken, turns = await _consume(10 * RUNS_A_TURN, slots=100, job=_at_once)

    assert taken == _runs(10 * RUNS_A_TURN)
    steps = [after - before for before, after in zip([0, *turns], turns, strict=False)]
    assert max(steps) <= RUNS_A_TURN
    assert len(turns) >= 10


async def test_jobs_that_wait_soon_fill_every_slot() -> None:
    taken, turns = await _consume(500, slots=100, job=_in_a_moment)

    assert taken == _runs(500)
    assert max(turns) == 500
    assert len(turns) < 100, "ever more slots are woken, not one a turn"
    assert MOST_SLOTS_A_TURN <= 100


async def test_a_slot_that_comes_late_finds_what_is_there() -> None:
    buffer = RunBuffer()
    buffer.put(_runs(2))

    assert [await buffer.get(), await buffer.get()] == _runs(2)
    assert not buffer.runs


def test_a_worker_holds_what_it_begins_in_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("gandy.work.buffer.time.monotonic", lambda: now)
    pace = ClaimPace(slots=100, most=2_000)
    assert pace.ahead == 100

    for _ in range(6):  # 20,000 jobs a second
        pace.begun += pace.ahead
        now += pace.ahead / 20_000
        pace.measure()
    assert pace.ahead == 2_000

    for _ in range(12):  # ten jobs a second
        pace.begun += 1
        now += 1.01 * AHEAD_SECONDS
        pace.measure()
    assert pace.ahead == 0, "less than one begins in a moment: another worker may be free for it"

    pace.stall()
    assert (pace.ahead, pace.unit) == (0, 1), "what takes long is left to others"
