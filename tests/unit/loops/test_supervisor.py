from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from gandy.events import EventBus, LoopEnded
from gandy.loops import supervisor
from gandy.loops.supervisor import Supervisor

if TYPE_CHECKING:
    from collections.abc import Callable

GRACE = timedelta(seconds=20)


class Recorder:
    """A service that writes down its life; `fails` is how often it fails before it runs."""

    def __init__(self, steps: list[str], name: str, fails: int = 0) -> None:
        self.steps = steps
        self.name = name
        self.fails = fails
        self.runs = asyncio.Event()

    async def run(self, stop: asyncio.Event) -> None:
        if self.fails:
            self.fails -= 1
            self.steps.append(f"{self.name} fails")
            raise RuntimeError("the service broke")
        self.steps.append(f"{self.name} runs")
        self.runs.set()
        await stop.wait()
        self.steps.append(f"{self.name} ends")


def always(service: Recorder) -> Callable[[], Recorder]:
    return lambda: service


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "FIRST_PAUSE", 0.0)


async def test_all_services_run_until_they_are_told_to_stop() -> None:
    steps: list[str] = []
    first, second = Recorder(steps, "first"), Recorder(steps, "second")
    stop = asyncio.Event()
    running = asyncio.create_task(
        Supervisor({"first": always(first), "second": always(second)}, grace=GRACE, events=EventBus()).run(
            stop
        )
    )
    await asyncio.gather(first.runs.wait(), second.runs.wait())
    stop.set()
    await running

    assert steps == ["first runs", "second runs", "first ends", "second ends"]


async def test_a_service_that_fails_starts_again_while_the_others_go_on() -> None:
    steps: list[str] = []
    steady, shaky = Recorder(steps, "steady"), Recorder(steps, "shaky", fails=2)
    stop = asyncio.Event()
    watched = Supervisor({"steady": always(steady), "shaky": always(shaky)}, grace=GRACE, events=EventBus())
    running = asyncio.create_task(watched.run(stop))
    await shaky.runs.wait()
    assert steps == ["steady runs", "shaky fails", "shaky fails", "shaky runs"]
    assert watched.restarts == 2
    stop.set()
    await running


async def test_a_service_that_does_not_end_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "LEAVE_SECONDS", 0.01)
    begun, cut_off = asyncio.Event(), asyncio.Event()

    class Deaf:
        async def run(self, stop: asyncio.Event) -> None:
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                cut_off.set()
                assert stop.is_set()

    stop = asyncio.Event()
    running = asyncio.create_task(Supervisor({"deaf": Deaf}, grace=timedelta(0), events=EventBus()).run(stop))
    await begun.wait()
    stop.set()
    await running

    assert cut_off.is_set()


async def test_a_service_that_returns_without_being_told_to_starts_again() -> None:
    stop, runs = asyncio.Event(), 0

    class Short:
        async def run(self, stop: asyncio.Event) -> None:
            nonlocal runs
            runs += 1
            if runs == 3:
                stop.set()

    events, heard = EventBus(), []
    events.subscribe(LoopEnded, lambda event: heard.append((event.service, event.cause)))
    await Supervisor({"short": Short}, grace=GRACE, events=events).run(stop)

    assert runs == 3
    assert heard == [("short", "RuntimeError")] * 2


@pytest.mark.parametrize("ending", [GeneratorExit("x"), SystemExit(3), KeyboardInterrupt(), OSError("x")])
async def test_whatever_ends_a_service_it_starts_again(ending: BaseException) -> None:
    stop, runs = asyncio.Event(), 0

    class Broken:
        async def run(self, stop: asyncio.Event) -> None:
            nonlocal runs
            runs += 1
            if runs == 1:
                raise ending
            stop.set()

    await Supervisor({"broken": Broken}, grace=GRACE, events=EventBus()).run(stop)

    assert runs == 2


async def test_a_service_whose_task_was_cancelled_by_other_code_starts_again() -> None:
    stop, runs = asyncio.Event(), 0

    class Cancelled:
        async def run(self, stop: asyncio.Event) -> None:
            nonlocal runs
            runs += 1
            if runs == 2:
                stop.set()
                return
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            await asyncio.Event().wait()

    await Supervisor({"cancelled": Cancelled}, grace=GRACE, events=EventBus()).run(stop)

    assert runs == 2


async def test_a_supervisor_whose_tasks_are_all_cancelled_by_a_job_goes_on() -> None:
    stop, again = asyncio.Event(), asyncio.Event()
    here, runs = asyncio.current_task(), list[int]()

    class Hostile:
        async def run(self, stop: asyncio.Event) -> None:
            runs.append(1)
            if len(runs) == 1:
                for task in asyncio.all_tasks() - {here}:
                    task.cancel()
            else:
                again.set()
            await stop.wait()

    running = asyncio.create_task(
        Supervisor({"hostile": Hostile}, grace=GRACE, events=EventBus()).run(stop), name="gandy-services"
    )
    async with asyncio.timeout(20):  # which needs no task that could be cancelled
        await again.wait()
    assert not running.done()
    stop.set()
    await running

    assert len(runs) == 2


async def test_a_supervisor_that_is_to_stop_can_be_cancelled() -> None:
    stop, begun = asyncio.Event(), asyncio.Event()

    class Deaf:
        async def run(self, stop: asyncio.Event) -> None:
            assert not stop.is_set()
            begun.set()
            await asyncio.Event().wait()

    running = asyncio.create_task(Supervisor({"deaf": Deaf}, grace=GRACE, events=EventBus()).run(stop))
    await begun.wait()
    stop.set()
    await asyncio.sleep(0)
    running.cancel()

    with pytest.raises(asyncio.CancelledError):
        await running


async def test_no_services_are_nothing_to_wait_for() -> None:
    await Supervisor({}, grace=GRACE, events=EventBus()).run(asyncio.Event())
