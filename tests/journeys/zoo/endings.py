"""Ends of a job that leave its process alive. Each may harm its own run, and nothing beside it."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import random
import signal
import sys
import threading
import time
import warnings
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn, TypeAlias

from gandy import End, Retry
from tests.journeys.zoo.values import DELAYS, NUMBERS, SURROGATE, TEXTS, Unreadable, outputs

if TYPE_CHECKING:
    from gandy import Run

AsyncEnding: TypeAlias = Callable[["Run", random.Random], Awaitable[object]]
SyncEnding: TypeAlias = Callable[["Run", random.Random], object]

#: On the event loop.
ASYNC: Final[dict[str, AsyncEnding]] = {}
#: In a thread, and in a process too.
SYNC: Final[dict[str, SyncEnding]] = {}
#: How the hooks behave that are told of a run's end, by the id of the run.
HOOKS: Final[dict[int, str]] = {}
_left_behind: Final[set[asyncio.Task[object]]] = set()


def on_loop(ending: AsyncEnding) -> AsyncEnding:
    """Add an ending that needs the event loop."""
    ASYNC[_name(ending)] = ending
    return ending


def anywhere(ending: SyncEnding) -> SyncEnding:
    """Add an ending that needs nothing, to all kinds of jobs."""

    async def on_the_loop(run: Run, chance: random.Random) -> object:
        return ending(run, chance)

    ASYNC[_name(ending)], SYNC[_name(ending)] = on_the_loop, ending
    return ending


def _name(ending: object) -> str:
    return str(getattr(ending, "__name__", ending))


class OwnEnd(BaseException):
    """What a panic of a library in Rust is, too."""


class Mute(Exception):  # noqa: N818
    """Cannot be printed."""

    def __str__(self) -> str:
        raise KeyboardInterrupt

    __repr__ = __str__


class Choosy(Exception):  # noqa: N818
    """Cannot be made again from its arguments, as unpickling would."""

    def __init__(self, one: object, *, two: object) -> None:
        super().__init__(one, two, threading.Lock())


@anywhere
def raise_of_base_class(_: Run, chance: random.Random) -> NoReturn:
    kinds = (OwnEnd, SystemExit, KeyboardInterrupt, GeneratorExit, BaseException, asyncio.CancelledError)
    raise chance.choice(kinds)(chance.choice((0, 1, None, SURROGATE)))


@anywhere
def raise_a_group(_: Run, chance: random.Random) -> NoReturn:
    members = [OwnEnd("one"), KeyboardInterrupt(), ValueError(SURROGATE), Mute()]
    raise BaseExceptionGroup(chance.choice(TEXTS), chance.sample(members, 2))


@anywhere
def raise_what_cannot_be_printed(_: Run, chance: random.Random) -> NoReturn:
    raise chance.choice(
        (Mute(), Choosy(1, two=2), ValueError(Unreadable()), type("\udce9", (Exception,), {})())
    )


@anywhere
def raise_with_text(_: Run, chance: random.Random) -> NoReturn:
    raise chance.choice((ValueError, OSError, LookupError, OwnEnd))(chance.choice(TEXTS))


@anywhere
def raise_chained(_: Run, chance: random.Random) -> NoReturn:
    first, second = ValueError(chance.choice(TEXTS)), KeyError(SURROGATE)
    first.__cause__, second.__cause__ = second, first
    first.add_note(SURROGATE)
    raise first


@anywhere
def raise_what_python_raises(_: Run, chance: random.Random) -> NoReturn:
    kinds = (MemoryError, RecursionError, StopIteration, StopAsyncIteration, TimeoutError, BrokenPipeError)
    raise chance.choice(kinds)


@anywhere
def recurse(_: Run, __: random.Random) -> object:
    def deeper() -> object:
        return deeper()

    return deeper()


@anywhere
def call_exit(_: Run, chance: random.Random) -> NoReturn:
    sys.exit(chance.choice((0, 1, None, "leaving")))


@anywhere
def give_a_hostile_output(_: Run, chance: random.Random) -> object:
    output = chance.choice(outputs())
    return End(output) if chance.random() < 0.3 else output


@anywhere
def ask_for_a_hostile_delay(_: Run, chance: random.Random) -> NoReturn:
    raise Retry(chance.choice(TEXTS), after=chance.choice(DELAYS))


@anywhere
def report_hostile_progress(run: Run, chance: random.Random) -> None:
    for done, total in chance.sample(NUMBERS, 4):
        with suppress(Exception):
            run.progress(done, total)


@anywhere
def report_hostile_progress_unguarded(run: Run, chance: random.Random) -> None:
    run.progress(*chance.choice(NUMBERS))


@anywhere
def write_hostile_lines(run: Run, chance: random.Random) -> None:
    for text in TEXTS:
        run.log.info(text)
        run.log.error("%s", text)
    logging.getLogger(chance.choice(("zoo", "gandy.run", "nul\x00"))).warning(
        "%s %s", *(SURROGATE, "one", "two")
    )
    run.log.info("%s %d", Unreadable(), "three")


@anywhere
def write_many_lines(run: Run, _: random.Random) -> None:
    for number in range(3_000):
        run.log.info("line %d", number)


@anywhere
def write_after_the_end(run: Run, chance: random.Random) -> None:
    pause = chance.random() / 5

    def late() -> None:
        time.sleep(pause)
        with suppress(Exception):
            run.progress(1, 2)
            run.log.info("late")

    threading.Thread(target=late, daemon=True).start()


@anywhere
def raise_in_a_thread(_: Run, chance: random.Random) -> None:
    def body() -> None:
        raise chance.choice((SystemExit(3), KeyboardInterrupt(), OwnEnd(SURROGATE)))

    threading.Thread(target=body, daemon=True).start()


@anywhere
def activate_what_is_not_there(run: Run, chance: random.Random) -> None:
    run.activate(chance.choice(("no-such-child", SURROGATE, NUL_ID)), chance.choice((1, [None], "x")))


NUL_ID: Final = "child\x00"


@anywhere
def fork(_: Run, chance: random.Random) -> object:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        child = os.fork()
    if child == 0:
        if chance.random() < 0.5:
            raise OwnEnd("in the child")
        return "from the child"
    threading.Thread(target=_reap, args=[child], daemon=True).start()
    return "from the parent"


def _reap(child: int) -> None:
    with suppress(ChildProcessError):
        os.waitpid(child, 0)


@anywhere
def change_the_folder(_: Run, chance: random.Random) -> None:
    os.chdir(chance.choice(("/", "/dev", str(Path.home()))))


@anywhere
def close_stdout(_: Run, __: random.Random) -> None:
    with suppress(Exception):
        sys.stdout.close()


@anywhere
def make_warnings_errors(_: Run, __: random.Random) -> None:
    warnings.simplefilter("error")
    warnings.warn(SURROGATE, ResourceWarning, stacklevel=1)


@anywhere
def make_garbage(_: Run, __: random.Random) -> None:
    class Rude:
        def __del__(self) -> None:
            raise OwnEnd("collected")

    rude = Rude()
    rude.me = rude  # type: ignore[attr-defined]
    del rude
    gc.collect()


@anywhere
def block_for_a_moment(_: Run, chance: random.Random) -> None:
    time.sleep(chance.random() / 2)


@anywhere
def hurt_the_hooks(run: Run, chance: random.Random) -> None:
    HOOKS[run.id] = chance.choice(("raise", "exit", "hang", "cancel", "group"))
    if chance.random() < 0.5:
        raise ValueError(SURROGATE)


@anywhere
def change_the_random_seed(_: Run, __: random.Random) -> None:
    random.seed(0)


@on_loop
async def set_signal_handlers(_: Run, __: random.Random) -> None:
    for number in (signal.SIGUSR1, signal.SIGALRM, signal.SIGCHLD):
        signal.signal(number, lambda *_: None)
    signal.setitimer(signal.ITIMER_REAL, 0.01)
    os.kill(os.getpid(), signal.SIGUSR1)
    await asyncio.sleep(0.02)


@on_loop
async def cancel_itself_and_wait(_: Run, chance: random.Random) -> None:
    _own_task().cancel(chance.choice((None, SURROGATE)))
    await asyncio.sleep(0)


@on_loop
async def cancel_itself_and_return(_: Run, __: random.Random) -> None:
    _own_task().cancel()


@on_loop
async def cancel_itself_and_swallow_it(_: Run, __: random.Random) -> str:
    for _attempt in range(3):
        _own_task().cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(1)
    return "still here"


@on_loop
async def cancel_itself_soon_after_the_end(_: Run, chance: random.Random) -> None:
    asyncio.get_running_loop().call_later(chance.random() / 50, _own_task().cancel)


@on_loop
async def uncancel_itself(_: Run, __: random.Random) -> None:
    for _attempt in range(5):
        _own_task().uncancel()


@on_loop
async def wait_in_vain(_: Run, __: random.Random) -> None:
    await asyncio.sleep(3600)


@on_loop
async def ignore_its_timeout(_: Run, __: random.Random) -> None:
    until = time.monotonic() + 2
    while time.monotonic() < until:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(0.1)


@on_loop
async def leave_tasks_behind(_: Run, chance: random.Random) -> None:
    async def left(error: BaseException) -> object:
        await asyncio.sleep(chance.random() / 10)
        raise error

    for error in (ValueError(SURROGATE), OwnEnd("left behind"), asyncio.CancelledError()):
        task = asyncio.get_running_loop().create_task(left(error))
        _left_behind.add(task)
        task.add_done_callback(_left_behind.discard)


@on_loop
async def raise_in_a_callback(_: Run, __: random.Random) -> None:
    def body() -> NoReturn:
        raise ValueError(SURROGATE)

    asyncio.get_running_loop().call_soon(body)


@on_loop
async def end_inside_of_finally(_: Run, __: random.Random) -> str:
    try:
        await asyncio.wait_for(asyncio.sleep(1), timeout=0.001)
    finally:
        return "from finally"  # noqa: B012


@on_loop
async def fail_in_a_task_group(_: Run, __: random.Random) -> None:
    async def bad() -> NoReturn:
        raise OwnEnd("in a task group")

    async with asyncio.TaskGroup() as group:
        group.create_task(bad())
        group.create_task(asyncio.sleep(5))


@on_loop
async def break_the_exception_handler(_: Run, __: random.Random) -> None:
    def handler(*_: object) -> NoReturn:
        raise OwnEnd("in the handler")

    asyncio.get_running_loop().set_exception_handler(handler)
    asyncio.get_running_loop().call_soon(lambda: 1 / 0)


@on_loop
async def change_the_default_executor(_: Run, __: random.Random) -> None:
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415

    executor = ThreadPoolExecutor(1)
    asyncio.get_running_loop().set_default_executor(executor)
    executor.shutdown(wait=False)


TIMEOUT: Final = timedelta(seconds=1)


def _own_task() -> asyncio.Task[object]:
    task = asyncio.current_task()
    assert task is not None
    return task
