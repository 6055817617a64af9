"""Ends of a job that take their process along, or every other job in it."""

from __future__ import annotations

import asyncio
import ctypes
import os
import resource
import signal
import sys
import threading
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from gandy import Run
    from tests.journeys.zoo.endings import AsyncEnding, SyncEnding

ASYNC: Final[dict[str, AsyncEnding]] = {}
SYNC: Final[dict[str, SyncEnding]] = {}
_left_behind: Final[list[asyncio.Task[None]]] = []


def leave_no_core() -> None:
    """Let a crash write no file."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def anywhere(ending: Callable[[random.Random], object]) -> None:
    """Add an ending to all kinds of jobs."""

    def sync(_: Run, chance: random.Random) -> object:
        leave_no_core()
        return ending(chance)

    async def on_the_loop(_: Run, chance: random.Random) -> object:
        leave_no_core()
        return ending(chance)

    ASYNC[ending.__name__], SYNC[ending.__name__] = on_the_loop, sync


@anywhere
def exit_at_once(chance: random.Random) -> None:
    os._exit(chance.choice((0, 1, 70)))


@anywhere
def kill_itself(_: random.Random) -> None:
    os.kill(os.getpid(), signal.SIGKILL)
    signal.pause()


@anywhere
def abort(_: random.Random) -> None:
    os.abort()


@anywhere
def touch_what_is_not_there(_: random.Random) -> None:
    ctypes.string_at(0)


@anywhere
def overflow_the_stack(_: random.Random) -> None:
    sys.setrecursionlimit(2**31 - 1)
    threading.stack_size(0)
    nested: list[object] = []
    for _depth in range(2_000_000):
        nested = [nested]
    repr(nested)


@anywhere
def replace_itself(_: random.Random) -> None:
    os.execv("/bin/true", ["true"])  # noqa: S606


@anywhere
def end_from_a_thread(_: random.Random) -> None:
    thread = threading.Thread(target=os._exit, args=[9])
    thread.start()
    thread.join()


@anywhere
def ask_for_its_own_end(_: random.Random) -> None:
    os.kill(os.getpid(), signal.SIGTERM)


async def cancel_every_task(_: Run, __: random.Random) -> None:
    """Cancel all tasks of the loop: innocent ones beside it are not executed once, but are completed."""
    for task in asyncio.all_tasks():
        task.cancel()
    await asyncio.sleep(0)


async def exit_in_a_task_left_behind(_: Run, __: random.Random) -> None:
    """Let Python itself end the event loop: SystemExit of any task does."""

    async def left() -> None:
        raise SystemExit(4)

    _left_behind.append(asyncio.get_running_loop().create_task(left()))
    await asyncio.sleep(0.5)


ASYNC["cancel_every_task"] = cancel_every_task
ASYNC["exit_in_a_task_left_behind"] = exit_in_a_task_left_behind
