"""Hooks beside the work: no hook makes its caller, another run or another hook's event wait."""

from __future__ import annotations

import asyncio
import logging
import threading
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from gandy.train.hooks import HookDelivery, HookEvent, HookName, Hooks
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable

LONG = timedelta(seconds=60)
SHORT = timedelta(milliseconds=20)


def event(run_id: int = 7, name: HookName = "completed") -> HookEvent:
    return HookEvent(name=name, train="CloseMonth", run_id=run_id, attempt=1)


async def until(condition: Callable[[], bool], what: str) -> None:
    async def holds() -> bool:
        return condition()

    await eventually(holds, what)


class UnprintableError(Exception):
    def __str__(self) -> str:
        raise KeyboardInterrupt


RAISED = (
    ValueError("broken"),
    KeyboardInterrupt(),
    SystemExit(3),
    GeneratorExit(),
    StopIteration(),
    StopAsyncIteration(),
    asyncio.CancelledError(),
    BaseExceptionGroup("several", [KeyboardInterrupt()]),
    UnprintableError(),
)


@pytest.mark.parametrize("is_sync", [False, True], ids=["async", "sync"])
@pytest.mark.parametrize("raised", RAISED, ids=lambda error: type(error).__name__)
async def test_whatever_a_hook_raises_is_logged_and_the_next_one_is_called(
    raised: BaseException, *, is_sync: bool, caplog: pytest.LogCaptureFixture
) -> None:
    hooks, told = Hooks(), []

    def broken(_event: HookEvent) -> None:
        raise raised

    async def broken_too(event: HookEvent) -> None:
        broken(event)

    hooks.on("completed")(broken if is_sync else broken_too)
    hooks.on("completed")(lambda event: told.append(event.run_id))
    delivery = HookDelivery(hooks, timeout=LONG)
    with caplog.at_level(logging.ERROR, "gandy.hooks"):
        delivery.deliver(event(1))
        delivery.deliver(event(2))
        assert await delivery.close(30) == 0
    assert sorted(told) == [1, 2]
    assert len([record for record in caplog.records if "failed for run" in record.getMessage()]) == 2


async def test_a_hook_that_cancels_its_own_task_harms_no_other() -> None:
    hooks, told = Hooks(), []

    @hooks.on("completed")
    async def cancels_itself(event: HookEvent) -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.Event().wait()

    hooks.on("completed")(lambda event: told.append(event.run_id))
    delivery = HookDelivery(hooks, timeout=LONG, at_once=1)
    for run_id in range(3):
        delivery.deliver(event(run_id))
    assert await delivery.close(30) == 0
    assert sorted(told) == [0, 1, 2]


async def test_a_sync_hook_that_blocks_does_not_block_the_loop_nor_other_runs() -> None:
    hooks, told, release = Hooks(), [], threading.Event()

    @hooks.on("completed")
    def blocks(event: HookEvent) -> None:
        if event.run_id == 0:
            release.wait(30)
        told.append(event.run_id)

    delivery = HookDelivery(hooks, timeout=LONG)
    for run_id in range(50):
        delivery.deliver(event(run_id))
    await until(lambda: len(told) == 49, "the hooks of the other runs were called")
    release.set()
    assert await delivery.close(30) == 0
    assert told[-1] == 0


async def test_hooks_that_hang_are_given_up_and_other_events_do_not_wait_for_them(
    caplog: pytest.LogCaptureFixture,
) -> None:
    hooks, told = Hooks(), []

    @hooks.on("completed")
    async def hangs(_event: HookEvent) -> None:
        await asyncio.Event().wait()

    @hooks.on("failed")
    async def alarm(event: HookEvent) -> None:
        told.append(event.run_id)

    delivery = HookDelivery(hooks, timeout=LONG, at_once=2)
    for run_id in range(20):
        delivery.deliver(event(run_id))
    delivery.deliver(event(99, "failed"))
    await until(lambda: told == [99], "the alarm was raised")
    with caplog.at_level(logging.WARNING, "gandy.hooks"):
        assert await delivery.close(0.01) == 20
    assert "20 hook events were not delivered" in caplog.text
    delivery.deliver(event(100))
    assert delivery.dropped == 1, "after the close no hook is called"


async def test_a_hook_that_takes_too_long_is_cancelled_and_named(caplog: pytest.LogCaptureFixture) -> None:
    hooks, told = Hooks(), []

    @hooks.on("completed")
    async def hangs(_event: HookEvent) -> None:
        await asyncio.Event().wait()

    @hooks.on("completed")
    async def ignores_it(event: HookEvent) -> None:
        while event.run_id not in told:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                told.append(event.run_id)

    delivery = HookDelivery(hooks, timeout=SHORT, at_once=1)
    for run_id in range(3):
        delivery.deliver(event(run_id))
    assert await delivery.close(30) == 0
    await until(lambda: sorted(told) == [0, 1, 2], "each was cancelled")
    assert "hangs on 'completed' took longer than 0.02 s" in caplog.text


async def test_the_events_of_one_run_keep_their_order() -> None:
    hooks, told = Hooks(), []
    go = asyncio.Event()

    @hooks.on("started")
    async def slow(event: HookEvent) -> None:
        await go.wait()
        told.append((event.run_id, event.name))

    @hooks.on("completed")
    @hooks.on("dead_lettered")
    async def fast(event: HookEvent) -> None:
        told.append((event.run_id, event.name))

    delivery = HookDelivery(hooks, timeout=LONG)
    for name in ("started", "completed", "dead_lettered"):
        delivery.deliver(event(1, name))
    delivery.deliver(event(2))
    await until(lambda: told == [(2, "completed")], "another run is told meanwhile")
    go.set()
    assert await delivery.close(30) == 0
    assert told[1:] == [(1, "started"), (1, "completed"), (1, "dead_lettered")]


async def test_beyond_the_bound_events_are_dropped_counted_and_warned_of_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    hooks, told, go = Hooks(), [], asyncio.Event()

    @hooks.on("completed")
    async def slow(event: HookEvent) -> None:
        await go.wait()
        told.append(event.run_id)

    delivery = HookDelivery(hooks, timeout=LONG, at_once=2, most_waiting=10)
    for run_id in range(25):
        delivery.deliver(event(run_id))
    assert (delivery.pending, delivery.dropped) == (10, 15)
    assert caplog.text.count("hooks on 'completed' do not keep up") == 1
    go.set()
    assert await delivery.close(30) == 0
    assert sorted(told) == list(range(10))


async def test_an_event_that_no_hook_wants_is_not_kept() -> None:
    delivery = HookDelivery(Hooks(), timeout=LONG)
    delivery.deliver(event())
    assert delivery.pending == 0
    assert await delivery.close(0) == 0
