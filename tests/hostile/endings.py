"""A table of hostile endings, and an application whose jobs end in these ways; processes import this module.

Every ending leaves its process alive. A new one needs a function and a line in the table: all tests take it.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import signal
import sys
from concurrent.futures import CancelledError as FutureCancelledError
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NoReturn

from gandy import Gandy, Retry, Train
from gandy.train.failure import CancelRun

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

HERE = "tests.hostile.endings"
app = Gandy("hostile")


class Panic(BaseException):
    """As an extension in Rust raises."""


class NotIteration(StopIteration):
    pass


class MuteError(Exception):
    def __str__(self) -> str:
        raise ValueError("no words")


class InterruptingError(Exception):
    def __str__(self) -> str:
        raise KeyboardInterrupt


class ExitingError(Exception):
    def __str__(self) -> str:
        raise SystemExit(3)


class UnprintableError(Exception):
    def __repr__(self) -> str:
        raise Panic

    __str__ = __repr__


def panic(*_: object) -> NoReturn:
    raise Panic


def error_with(name: str, base: type[BaseException] = Exception, **members: object) -> type[BaseException]:
    """An exception class with members that no checker would let pass."""
    return type(name, (base,), {"__module__": HERE, "__qualname__": name, **members})


NumberWordsError = error_with("NumberWordsError", __str__=lambda _: 5)


class EndlessWordsError(Exception):
    def __str__(self) -> str:
        return str(self)


FacelessError = error_with("FacelessError", __class__=property(panic, panic))


class Hiding(type):
    def __getattribute__(cls, name: str) -> object:
        raise Panic(name)


class HiddenError(Exception, metaclass=Hiding):
    pass


HomelessError = error_with("HomelessError", __module__=5)


OddNameError = error_with("OddNameError", __qualname__="Odd\x00Name\udce9Error")


class Words(str):
    __slots__ = ()

    def replace(self, *_: object) -> str:
        raise Panic

    def __len__(self) -> int:
        raise Panic

    def __format__(self, _: str) -> str:
        raise Panic


class LivingWordsError(Exception):
    def __str__(self) -> str:
        return Words("words that bite")


ClosedError = error_with("ClosedError", __getattribute__=panic)


ArgumentsError = error_with("ArgumentsError", args=property(panic))


TracelessError = error_with("TracelessError", __traceback__=property(panic))


CauselessError = error_with("CauselessError", __cause__=property(panic))


LostRetry = error_with("LostRetry", Retry, __init__=lambda _: None)


BitingRetry = error_with("BitingRetry", Retry, after=property(panic, lambda *_: None))


LostCancelRun = error_with("LostCancelRun", CancelRun, __init__=lambda _: None)


Incomparable = error_with("Incomparable", __eq__=panic, __hash__=None)


def raising(make: Callable[[], BaseException]) -> Callable[[], None]:
    def act() -> None:
        raise make()

    return act


def recurse() -> None:
    recurse()


def with_cycle() -> BaseException:
    first, second = ValueError("first"), ValueError("second")
    first.__cause__, second.__cause__ = second, first
    return first


def with_long_chain() -> BaseException:
    error: BaseException = ValueError("0")
    for number in range(3_000):
        following = ValueError(str(number))
        following.__cause__ = error
        error = following
    return error


def nested_groups() -> BaseException:
    group: BaseException = Panic("deep")
    for _ in range(400):
        group = BaseExceptionGroup("deeper", [group])
    return group


def with_bad_notes() -> BaseException:
    error = ValueError("noted")
    vars(error)["__notes__"] = [MuteError(), 5]
    return error


def bad_syntax() -> BaseException:
    error = SyntaxError("odd")
    for name in ("filename", "lineno", "offset", "text", "end_lineno"):
        setattr(error, name, object())
    return error


def exits_in_finally() -> None:
    try:
        raise ValueError("hidden by what follows")
    finally:
        sys.exit(1)


def fork() -> int:
    """Fork; a copy that a lock of another thread holds up is ended by the kernel, and keeps nothing open."""
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(20)
    return child


def forks_and_returns() -> None:
    if child := fork():
        os.waitpid(child, 0)


def forks_and_raises() -> None:
    child = fork()
    if child == 0:
        raise Panic
    os.waitpid(child, 0)


async def forks_and_awaits() -> None:
    child = fork()
    if child == 0:
        await asyncio.sleep(0)
        os._exit(9)  # not reached: the copy of the event loop does not go on
    _, status = os.waitpid(child, 0)  # noqa: ASYNC222 - it ends at once
    assert os.waitstatus_to_exitcode(status) == 70


async def forks_in_a_thread_of_the_loop() -> None:
    await asyncio.to_thread(forks_and_returns)


async def cancels_its_task() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(0)


async def cancels_its_task_at_its_end() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()


async def cancels_its_task_often() -> None:
    task = asyncio.current_task()
    assert task is not None
    for _ in range(3):
        task.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(0)
        task.cancel()


async def cancels_its_task_later() -> None:
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().call_soon(task.cancel)
    await asyncio.Event().wait()


async def awaits_what_was_cancelled() -> None:
    future = asyncio.get_running_loop().create_future()
    future.cancel()
    await future


async def times_out() -> None:
    async with asyncio.timeout(0):
        await asyncio.Event().wait()


class BadAwaitable:
    def __await__(self) -> Generator[object, None, None]:
        yield 5


async def awaits_nonsense() -> None:
    await BadAwaitable()


class Bearer:
    tasks: set[asyncio.Future[None]] = set()  # noqa: RUF012 what jobs leave behind has to live on


async def leaves_a_task_behind() -> None:
    async def fail() -> None:
        raise Panic

    task = asyncio.ensure_future(fail())
    task.add_done_callback(lambda done: done.exception())
    Bearer.tasks.add(task)


async def exits_in_a_task() -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(asyncio.to_thread(sys.exit, 4))


async def exits_in_a_task_of_its_own() -> None:
    async def leave() -> None:
        sys.exit(4)

    await asyncio.ensure_future(leave())


async def exits_in_a_callback() -> None:
    asyncio.get_running_loop().call_soon(sys.exit, 4)
    await asyncio.sleep(0)


async def stops_the_loop() -> None:
    asyncio.get_running_loop().stop()
    await asyncio.sleep(0)


@dataclass(frozen=True, slots=True)
class Ending:
    """What a job does last, and what is on record of it."""

    act: Callable[[], object]
    exception: str | None  #: None: it completes
    state: Literal["failed", "cancelled", "completed"] = "failed"
    ends_the_loop: bool = False  #: survived by a process of Gandy's; any other loop is its owner's affair

    @property
    def is_async(self) -> bool:
        return inspect.iscoroutinefunction(self.act)


CANCELLED = "asyncio.exceptions.CancelledError"
SELF_CANCELLED = "gandy.errors.train.TaskCancelledError"

ENDINGS: dict[str, Ending] = {
    "an ordinary error": Ending(raising(lambda: ValueError("wrong")), "ValueError"),
    "a panic": Ending(raising(lambda: Panic("called `Option::unwrap()`")), f"{HERE}.Panic"),
    "GeneratorExit": Ending(raising(GeneratorExit), "GeneratorExit"),
    "KeyboardInterrupt": Ending(raising(KeyboardInterrupt), "KeyboardInterrupt"),
    "sys.exit": Ending(sys.exit, "SystemExit"),
    "sys.exit with words": Ending(lambda: sys.exit("good bye"), "SystemExit"),
    "sys.exit in finally": Ending(exits_in_finally, "SystemExit"),
    "a group of bases": Ending(
        raising(lambda: BaseExceptionGroup("all", [KeyboardInterrupt(), Panic()])), "BaseExceptionGroup"
    ),
    "nested groups": Ending(raising(nested_groups), "BaseExceptionGroup"),
    "StopIteration": Ending(raising(lambda: StopIteration(5)), "RuntimeError"),
    "a kind of StopIteration": Ending(raising(NotIteration), "RuntimeError"),
    "StopAsyncIteration": Ending(raising(StopAsyncIteration), "StopAsyncIteration"),
    "CancelledError": Ending(raising(asyncio.CancelledError), CANCELLED),
    "CancelledError of futures": Ending(
        raising(FutureCancelledError), "concurrent.futures._base.CancelledError"
    ),
    "RecursionError": Ending(recurse, "RecursionError"),
    "MemoryError": Ending(raising(MemoryError), "MemoryError"),
    "words that raise": Ending(raising(MuteError), f"{HERE}.MuteError"),
    "words that interrupt": Ending(raising(InterruptingError), f"{HERE}.InterruptingError"),
    "words that exit": Ending(raising(ExitingError), f"{HERE}.ExitingError"),
    "words and repr that panic": Ending(raising(lambda: UnprintableError(1)), f"{HERE}.UnprintableError"),
    "words that are a number": Ending(raising(NumberWordsError), f"{HERE}.NumberWordsError"),
    "words without end": Ending(raising(EndlessWordsError), f"{HERE}.EndlessWordsError"),
    "words of an odd class": Ending(raising(LivingWordsError), f"{HERE}.LivingWordsError"),
    "a class that raises": Ending(raising(FacelessError), f"{HERE}.FacelessError"),
    "names that raise": Ending(raising(HiddenError), f"{HERE}.HiddenError"),
    "a module that is a number": Ending(raising(HomelessError), "HomelessError"),
    "an odd name": Ending(raising(OddNameError), f"{HERE}.Odd"),
    "attributes that raise": Ending(raising(ClosedError), f"{HERE}.ClosedError"),
    "arguments that raise": Ending(raising(ArgumentsError), f"{HERE}.ArgumentsError"),
    "a traceback that raises": Ending(raising(TracelessError), f"{HERE}.TracelessError"),
    "a cause that raises": Ending(raising(CauselessError), f"{HERE}.CauselessError"),
    "notes that raise": Ending(raising(with_bad_notes), "ValueError"),
    "a comparison that raises": Ending(raising(Incomparable), f"{HERE}.Incomparable"),
    "a lone surrogate": Ending(raising(lambda: OSError("caf\udce9")), "OSError"),
    "a NUL": Ending(raising(lambda: ValueError("a\x00b")), "ValueError"),
    "five million characters": Ending(raising(lambda: ValueError("x" * 5_000_000)), "ValueError"),
    "a cycle of causes": Ending(raising(with_cycle), "ValueError"),
    "a long chain of causes": Ending(raising(with_long_chain), "ValueError"),
    "an odd SyntaxError": Ending(raising(bad_syntax), "SyntaxError"),
    "an enormous argument": Ending(raising(lambda: KeyError(10**5_000)), "KeyError"),
    "a retry without its delay": Ending(raising(LostRetry), f"{HERE}.LostRetry"),
    "a retry that raises": Ending(raising(BitingRetry), f"{HERE}.BitingRetry"),
    "a stop without its reason": Ending(raising(LostCancelRun), None, "cancelled"),
    "a fork that returns": Ending(forks_and_returns, None, "completed"),
    "a fork that raises": Ending(forks_and_raises, None, "completed"),
    "a fork that awaits": Ending(forks_and_awaits, None, "completed"),
    "a fork in a thread": Ending(forks_in_a_thread_of_the_loop, None, "completed"),
    "cancels its task": Ending(cancels_its_task, SELF_CANCELLED),
    "cancels its task at its end": Ending(cancels_its_task_at_its_end, SELF_CANCELLED),
    "cancels its task often": Ending(cancels_its_task_often, SELF_CANCELLED),
    "cancels its task later": Ending(cancels_its_task_later, SELF_CANCELLED),
    "awaits what was cancelled": Ending(awaits_what_was_cancelled, CANCELLED),
    "times out": Ending(times_out, "TimeoutError"),
    "awaits nonsense": Ending(awaits_nonsense, "RuntimeError"),
    "leaves a task behind": Ending(leaves_a_task_behind, None, "completed"),
    "exits in a task": Ending(exits_in_a_task_of_its_own, "SystemExit", ends_the_loop=True),
    "exits in a group of tasks": Ending(exits_in_a_task, "SystemExit", ends_the_loop=True),
    "exits in a callback": Ending(exits_in_a_callback, None, "completed", ends_the_loop=True),
    "stops the loop": Ending(stops_the_loop, None, "completed", ends_the_loop=True),
}
BY_THREAD = [name for name, ending in ENDINGS.items() if not ending.is_async]


async def act_async(name: str) -> None:
    found = ENDINGS[name].act()
    if inspect.iscoroutine(found):
        await found


def act_in_thread(name: str) -> None:
    ENDINGS[name].act()


async def look_around(name: str) -> float:
    return float(len(name))


@app.train(retry=False)
async def hostile_async(name: str) -> None:
    await act_async(name)


@app.train(retry=False)
def hostile_thread(name: str) -> None:
    act_in_thread(name)


@app.register
class HostileRoute(Train[str, None]):
    retry = False
    route = (look_around, act_in_thread)


@app.register
class HostileRouteAsync(Train[str, None]):
    retry = False
    route = (look_around, act_async)


@app.train(retry=False, process=True)
async def hostile_process(name: str) -> None:
    await act_async(name)


@app.train(retry=False, process=True)
def hostile_process_thread(name: str) -> None:
    act_in_thread(name)


def leave_mark(mark: str) -> None:
    with Path(os.environ["HOSTILE_MARKS"]).open("a", encoding="utf-8") as marks:
        marks.write(f"{mark}\n")


@app.train
async def innocent(mark: str) -> None:
    """Leave a mark for each time that it runs."""
    leave_mark(mark)


@app.train
def innocent_thread(mark: str) -> None:
    leave_mark(mark)


TRAINS_BY_SHAPE = {
    "async": ("hostile_async", list(ENDINGS)),
    "thread": ("hostile_thread", BY_THREAD),
    "route": ("HostileRoute", BY_THREAD),
    "route of async junctions": ("HostileRouteAsync", list(ENDINGS)),
    "process": ("hostile_process", list(ENDINGS)),
    "process thread": ("hostile_process_thread", BY_THREAD),
}
