"""Threads in which exceptions are raised from outside, as libraries do that limit the time of a call."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import subprocess
import sys
import threading
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from gandy.model.run import Completed, Failed
from gandy.train.base import Engine
from gandy.train.definition import define_function
from gandy.train.hooks import HookDelivery, HookEvent, Hooks
from gandy.train.run import Run
from gandy.train.threads import ThreadPool

if TYPE_CHECKING:
    pass


class LateTimeoutError(Exception):
    """As such a library raises it, after the call has ended."""


def raise_in(thread: int, kind: type[BaseException] = LateTimeoutError) -> None:
    """Raise an exception in a thread as soon as it runs Python code."""
    found = ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(kind))
    assert found == 1


def thread_of(_: int) -> int:
    return threading.get_ident()


@pytest.mark.parametrize("kind", [LateTimeoutError, SystemExit, KeyboardInterrupt, StopIteration])
async def test_an_exception_raised_in_an_idle_thread_costs_no_later_call(kind: type[BaseException]) -> None:
    pool = ThreadPool(1, "test")
    thread = await pool.call(threading.get_ident)
    for number in range(50):
        raise_in(thread, kind)
        assert await asyncio.wait_for(pool.call(str, number), 20) == str(number)
    pool.close()


async def test_calls_that_wait_for_a_busy_thread_run_after_an_exception_in_it() -> None:
    pool = ThreadPool(1, "test")
    entered, may_end = threading.Event(), threading.Event()

    def be_busy() -> None:
        entered.set()
        may_end.wait()

    busy = pool.call(be_busy)
    waiting = [pool.call(str, number) for number in range(5)]
    await asyncio.to_thread(entered.wait)
    raise_in(next(each.ident or 0 for each in threading.enumerate() if each.name == "test_0"))
    may_end.set()

    with pytest.raises(LateTimeoutError):
        await busy
    assert await asyncio.wait_for(asyncio.gather(*waiting), 20) == ["0", "1", "2", "3", "4"]
    pool.close()


async def test_a_run_during_which_an_exception_is_raised_in_its_thread_fails_with_it() -> None:
    def hit(_: int) -> None:
        raise_in(threading.get_ident())

    engine = Engine(max_threads=1)
    first = await engine.execute(define_function(hit), 1, run=Run())
    second = await engine.execute(define_function(thread_of), 1, run=Run())
    await engine.close()

    assert isinstance(first, Failed)
    assert type(first.exception) is LateTimeoutError
    assert isinstance(second, Completed)


async def test_a_run_after_an_exception_in_an_idle_thread_completes() -> None:
    engine = Engine(max_threads=1)
    first = await engine.execute(define_function(thread_of), 1, run=Run())
    assert isinstance(first, Completed)
    raise_in(first.value)
    second = await asyncio.wait_for(engine.execute(define_function(thread_of), 1, run=Run()), 20)
    await engine.close()

    assert isinstance(second, Completed)


async def test_hooks_are_called_after_an_exception_in_their_idle_thread() -> None:
    hooks, threads = Hooks(), []

    @hooks.on("completed")
    def remember(_: HookEvent) -> None:
        threads.append(threading.get_ident())

    delivery = HookDelivery(hooks, timeout=timedelta(seconds=60), at_once=1)
    for run_id in range(3):
        delivery.deliver(HookEvent(name="completed", train="CloseMonth", run_id=run_id, attempt=1))
        assert await delivery.settle(20) == 0
        raise_in(threads[-1])
    await delivery.close(20)

    assert len(threads) == 3


async def test_no_more_threads_than_the_size_are_started_and_each_is_used_again() -> None:
    pool = ThreadPool(3, "test")
    together = threading.Barrier(3)
    at_once = await asyncio.gather(*(pool.call(together.wait) for _ in range(9)))
    pool.close()

    assert sorted(at_once) == [0, 0, 0, 1, 1, 1, 2, 2, 2]


async def test_a_pool_that_is_closed_cancels_what_waits_and_ends_its_threads() -> None:
    pool = ThreadPool(1, "test-closed")
    entered, may_end = threading.Event(), threading.Event()

    def be_busy() -> str:
        entered.set()
        may_end.wait()
        return "ended"

    busy, waiting = pool.call(be_busy), pool.call(str, 1)
    await asyncio.to_thread(entered.wait)
    pool.close()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    with pytest.raises(RuntimeError, match="closed"):
        pool.call(str, 2)
    may_end.set()

    assert await busy == "ended"
    await end_of_threads("test-closed")


async def test_a_pool_that_is_forgotten_ends_its_threads() -> None:
    pool = ThreadPool(1, "test-forgotten")
    await pool.call(str, 1)
    del pool
    gc.collect()

    await end_of_threads("test-forgotten")


async def end_of_threads(name: str) -> None:
    threads = [each for each in threading.enumerate() if each.name.startswith(name)]
    for each in threads:
        await asyncio.to_thread(each.join, 20)
    assert not any(each.is_alive() for each in threads)


async def test_a_call_that_was_cancelled_before_it_began_is_not_made() -> None:
    pool = ThreadPool(1, "test")
    entered, may_end, made = threading.Event(), threading.Event(), list[int]()

    def be_busy() -> None:
        entered.set()
        may_end.wait()

    busy, waiting = pool.call(be_busy), pool.call(made.append, 1)
    await asyncio.to_thread(entered.wait)
    waiting.cancel()
    may_end.set()
    await busy
    await pool.call(made.append, 2)
    pool.close()

    assert made == [2]


async def test_without_a_thread_of_the_system_a_call_waits_for_one_of_the_pool(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pool = ThreadPool(2, "test")
    entered, may_end = threading.Event(), threading.Event()

    def be_busy() -> None:
        entered.set()
        may_end.wait()

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    busy = pool.call(be_busy)
    await asyncio.to_thread(entered.wait)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        waiting = pool.call(str, 1)
        with pytest.raises(RuntimeError, match="can't start"):
            ThreadPool(1, "other").call(str, 1)
    may_end.set()
    await busy

    assert await waiting == "1"
    pool.close()


AT_EXIT = """
import asyncio, ctypes, threading, time
from gandy.train.threads import ThreadPool

def work():
    threading.main_thread().join()
    print("the call ended", flush=True)

async def main():
    idle = await pool.call(threading.get_ident)
    {then}

pool = ThreadPool(2, "test")
asyncio.run(main())
"""


@pytest.mark.parametrize(
    ("then", "printed"),
    [
        pytest.param("pass", "", id="idle"),
        pytest.param(
            "ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(idle), ctypes.py_object(ValueError))",
            "",
            id="idle with an exception",
        ),
        pytest.param("pool.call(work)", "the call ended\n", id="busy"),
    ],
)
def test_an_interpreter_that_exits_waits_for_calls_and_not_for_idle_threads(then: str, printed: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", AT_EXIT.format(then=then)],
        capture_output=True,
        check=False,
        text=True,
        timeout=60,
    )

    assert (ended.returncode, ended.stdout) == (0, printed), ended.stderr
