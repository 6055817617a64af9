"""A loop that waits for a wake-up ends when it is cancelled, also at the same moment."""

from __future__ import annotations

import asyncio

import pytest

from gandy.loops.wakeups import wait_for_wake


@pytest.mark.parametrize("steps", range(5))
async def test_a_cancellation_that_comes_with_the_wake_up_is_not_lost(steps: int) -> None:
    event = asyncio.Event()
    begun = asyncio.Event()

    async def loop() -> None:
        while True:
            begun.set()
            await wait_for_wake(event, 60)

    task = asyncio.create_task(loop())
    await begun.wait()
    await asyncio.sleep(0)
    event.set()
    for _ in range(steps):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait({task}, timeout=10)

    assert task.cancelled()


async def test_a_wait_ends_with_the_event_or_with_its_time() -> None:
    event = asyncio.Event()

    assert not await wait_for_wake(event, 0)
    event.set()
    assert await wait_for_wake(event, 60)
    assert not event.is_set()
    asyncio.get_running_loop().call_soon(event.set)
    assert await wait_for_wake(event, 60)
    assert not event.is_set()
