"""Loops that end by themselves are started again, and those that are told to end do."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from gandy.events import EventBus, LoopEnded, LoopRestarted
from gandy.loops import poller as guarding
from gandy.loops.poller import LoopGuard
from gandy.telemetry.observing import LoopWatch

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guarding, "FIRST_RESTART_PAUSE", 0.0)


class Own(BaseException):
    """No Exception, as a panic of an extension module is none."""


ENDINGS = [
    ValueError("x"),
    Own("x"),
    GeneratorExit(),
    KeyboardInterrupt(),
    SystemExit(1),
    BaseExceptionGroup("x", [Own("x")]),
    asyncio.CancelledError(),
    None,
]


def ends_first_with(
    ending: BaseException | None, runs: list[int], again: asyncio.Event
) -> Callable[[], Awaitable[None]]:
    async def loop() -> None:
        runs.append(1)
        if len(runs) > 1:
            again.set()
            await asyncio.Event().wait()
        if ending is not None:
            raise ending

    return loop


@pytest.mark.parametrize("ending", ENDINGS, ids=lambda ending: type(ending).__name__)
async def test_a_loop_that_ends_by_itself_starts_again_and_readiness_says_so(
    ending: BaseException | None,
) -> None:
    events, told, again = EventBus(), list[str](), asyncio.Event()
    watch = LoopWatch(events)
    events.subscribe(LoopEnded, lambda _: told.append(f"not ready: {len(watch.problems())}"))
    events.subscribe(LoopRestarted, lambda _: told.append(f"ready: {len(watch.problems()) == 0}"))
    guard = LoopGuard("worker", events)
    runs: list[int] = []
    task = guard.keep("claimer", ends_first_with(ending, runs, again))
    await asyncio.wait_for(again.wait(), 10)

    assert told == ["not ready: 1", "ready: True"]
    guard.leave()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_a_service_that_is_made_again_is_ready_though_a_former_loop_never_came_back() -> None:
    events = EventBus()
    watch = LoopWatch(events)
    for service, loop in (("worker", "claimer"), ("worker", "worker"), ("web", "web")):
        events.emit(LoopEnded(service=service, loop=loop, cause="CancelledError"))
    events.emit(LoopRestarted(service="worker", loop="worker"))

    assert watch.problems() == ("web is not running: its loop 'web' ended and starts again",)


async def test_a_loop_whose_task_is_cancelled_by_other_code_goes_on_until_it_is_told_to_leave() -> None:
    guard, runs = LoopGuard("worker", EventBus()), list[int]()

    async def loop() -> None:
        runs.append(1)
        await asyncio.Event().wait()

    task = guard.keep("slot", loop)
    for count in (2, 3, 4):
        await asyncio.sleep(0)
        task.cancel()
        for _ in range(20):
            await asyncio.sleep(0)
        assert len(runs) == count
    assert not task.done()

    guard.leave()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
