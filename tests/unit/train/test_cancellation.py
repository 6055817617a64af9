from __future__ import annotations

import asyncio
import threading
from concurrent.futures import CancelledError as FutureCancelledError

import pytest

from gandy.model.run import Cancelled, CancelledBy, Completed, Failed
from gandy.train.base import Train
from gandy.train.execution import execute
from gandy.train.run import Run
from gandy.train.threads import ThreadPool

THREADS = ThreadPool(2, "test-junction")

OPERATOR = CancelledBy.OPERATOR


class Gate:
    """Lets a junction say that it has begun, and wait to be let on."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.open = asyncio.Event()


async def test_cancellation_is_checked_before_each_junction() -> None:
    called: list[str] = []

    async def first(number: int, run: Run) -> float:
        called.append("first")
        run.request_cancel(OPERATOR, "enough")
        return float(number)

    def second(number: float) -> str:
        called.append("second")
        return str(number)

    class Two(Train[int, str]):
        route = (first, second)

    run = Run()
    outcome = await execute(Two.definition.plan, 1, run=run, threads=THREADS)

    assert isinstance(outcome, Cancelled)
    assert (outcome.by, outcome.reason, outcome.junction) == (OPERATOR, "enough", "second")
    assert called == ["first"]


async def test_a_run_cancelled_before_its_start_runs_nothing() -> None:
    async def never(number: int) -> str:
        raise AssertionError("it ran")

    class Never(Train[int, str]):
        route = (never,)

    run = Run()
    run.request_cancel(CancelledBy.SHUTDOWN)

    outcome = await execute(Never.definition.plan, 1, run=run, threads=THREADS)

    assert isinstance(outcome, Cancelled)
    assert outcome.timings == ()


async def test_a_request_interrupts_an_async_junction_and_leaves_the_task_uncancelled() -> None:
    gate = Gate()

    async def wait(number: int) -> str:
        gate.begun.set()
        await gate.open.wait()
        return "went on"

    class Waiting(Train[int, str]):
        route = (wait,)

    run = Run()
    task = asyncio.ensure_future(execute(Waiting.definition.plan, 1, run=run, threads=THREADS))
    await gate.begun.wait()
    run.request_cancel(CancelledBy.TIMEOUT, "20 minutes")
    outcome = await task

    assert isinstance(outcome, Cancelled)
    assert (outcome.by, outcome.reason, outcome.junction) == (CancelledBy.TIMEOUT, "20 minutes", "wait")
    assert task.cancelling() == 0
    assert not task.cancelled()


async def test_a_request_may_come_from_another_thread() -> None:
    gate = Gate()

    async def wait(number: int) -> str:
        gate.begun.set()
        await gate.open.wait()
        return "went on"

    class Waiting(Train[int, str]):
        route = (wait,)

    run = Run()
    task = asyncio.ensure_future(execute(Waiting.definition.plan, 1, run=run, threads=THREADS))
    await gate.begun.wait()
    threading.Thread(target=run.request_cancel, args=(OPERATOR,)).start()

    assert isinstance(await task, Cancelled)


async def test_a_cancellation_of_the_callers_task_passes_through() -> None:
    gate = Gate()

    async def wait(number: int) -> str:
        gate.begun.set()
        await gate.open.wait()
        return "went on"

    class Waiting(Train[int, str]):
        route = (wait,)

    task = asyncio.ensure_future(Waiting.outcome(1))
    await gate.begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert task.cancelled()


async def test_a_timeout_of_the_caller_works_around_a_train() -> None:
    async def wait(number: int) -> str:
        await asyncio.Event().wait()
        return "went on"

    class Waiting(Train[int, str]):
        route = (wait,)

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await Waiting.outcome(1)


async def test_a_request_and_a_cancelled_task_together_end_the_task() -> None:
    gate = Gate()

    async def wait(number: int) -> str:
        gate.begun.set()
        await gate.open.wait()
        return "went on"

    class Waiting(Train[int, str]):
        route = (wait,)

    run = Run()
    task = asyncio.ensure_future(execute(Waiting.definition.plan, 1, run=run, threads=THREADS))
    await gate.begun.wait()
    run.request_cancel(OPERATOR)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize(
    "raised", [asyncio.CancelledError("mine"), TimeoutError("slow"), FutureCancelledError()]
)
async def test_a_librarys_own_cancellation_without_a_request_is_a_failure(raised: BaseException) -> None:
    async def call_library(number: int) -> str:
        raise raised

    def call_in_thread(number: int) -> str:
        raise raised

    for junction in (call_library, call_in_thread):

        class Calling(Train[int, str]):
            route = (junction,)

        outcome = await Calling.outcome(1)
        assert isinstance(outcome, Failed), junction
        assert outcome.junction == junction.__name__


async def test_a_train_may_run_in_a_task_that_was_cancelled_before() -> None:
    outcomes: list[object] = []

    begun = asyncio.Event()

    async def clean_up(number: int) -> str:
        raise asyncio.CancelledError

    class CleaningUp(Train[int, str]):
        route = (clean_up,)

    async def work() -> None:
        try:
            begun.set()
            await asyncio.Event().wait()
        finally:
            outcomes.append(await CleaningUp.outcome(1))

    task = asyncio.ensure_future(work())
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert isinstance(outcomes[0], Failed)


async def test_a_sync_junction_is_waited_for_and_can_stop_itself() -> None:
    begun = asyncio.Event()
    loop = asyncio.get_running_loop()
    requested = threading.Event()

    def work(number: int, run: Run) -> str:
        loop.call_soon_threadsafe(begun.set)
        requested.wait()
        assert run.cancel_requested
        run.raise_if_cancelled()
        return "went on"

    class Working(Train[int, str]):
        route = (work,)

    run = Run()
    task = asyncio.ensure_future(execute(Working.definition.plan, 1, run=run, threads=THREADS))
    await begun.wait()
    run.request_cancel(OPERATOR, "stop it")
    assert not task.done()
    requested.set()
    outcome = await task

    assert isinstance(outcome, Cancelled)
    assert (outcome.by, outcome.reason) == (OPERATOR, "stop it")


async def test_a_sync_junction_whose_task_is_cancelled_learns_of_it() -> None:
    begun = asyncio.Event()
    loop = asyncio.get_running_loop()
    go_on, learned = threading.Event(), threading.Event()

    def work(number: int, run: Run) -> str:
        loop.call_soon_threadsafe(begun.set)
        go_on.wait()
        if run.cancel_requested:
            learned.set()
        return "late"

    class Working(Train[int, str]):
        route = (work,)

    task = asyncio.ensure_future(Working.outcome(1))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    go_on.set()

    assert await asyncio.to_thread(learned.wait, 10)


async def test_a_run_that_completes_in_spite_of_a_request_has_completed() -> None:
    async def swallow(number: int, run: Run) -> str:
        run.request_cancel(OPERATOR)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "done anyway"
        return "never"

    class Swallowing(Train[int, str]):
        route = (swallow,)

    async def work() -> tuple[object, int]:
        outcome = await Swallowing.outcome(1)
        task = asyncio.current_task()
        assert task is not None
        return outcome, task.cancelling()

    outcome, cancelling = await asyncio.ensure_future(work())

    assert isinstance(outcome, Completed)
    assert outcome.value == "done anyway"
    assert cancelling == 0


async def test_whatever_an_interrupted_junction_raises_the_run_is_cancelled_and_says_so_in_its_log() -> None:
    async def wrap(number: int, run: Run) -> str:
        run.request_cancel(OPERATOR, "stop")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise ConnectionError("interrupted") from None
        return "never"

    class Wrapping(Train[int, str]):
        route = (wrap,)

    run = Run()
    outcome = await execute(Wrapping.definition.plan, 1, run=run, threads=THREADS)

    assert isinstance(outcome, Cancelled)
    assert outcome.reason == "stop"
    assert "ConnectionError" in run.sink.lines[-1].message  # type: ignore[attr-defined]


def test_the_first_reason_stays() -> None:
    run = Run()
    run.request_cancel(CancelledBy.TIMEOUT, "first")
    run.request_cancel(OPERATOR, "second")

    assert run.cancellation is not None
    assert (run.cancellation.by, run.cancellation.reason) == (CancelledBy.TIMEOUT, "first")


def test_a_keyboard_interrupt_of_a_junction_is_the_runs_failure_and_reaches_who_called_it() -> None:
    async def interrupt(number: int) -> str:
        raise KeyboardInterrupt

    class Interrupting(Train[int, str]):
        route = (interrupt,)

    outcome = asyncio.run(Interrupting.outcome(1))

    assert isinstance(outcome, Failed)
    assert outcome.exception_type == "KeyboardInterrupt"
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(Interrupting.run(1))
