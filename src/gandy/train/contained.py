"""Keeping an event loop alive when code of a job ends it."""

from __future__ import annotations

import logging
import signal
from typing import TYPE_CHECKING, Any, TypeVar

from gandy.train.failure import type_path, words_of

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Coroutine

T = TypeVar("T")
logger = logging.getLogger("gandy.loop")


def run_contained(runner: asyncio.Runner, main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end, whatever ends the event loop before.

    SystemExit and KeyboardInterrupt leave the loop where a task or a callback of a job's own raises them, and
    loop.stop() ends it as well. The loop itself is unharmed: it is entered again. An OSError is the
    loop's own: its descriptors are closed, and it cannot go on.
    """
    loop = runner.get_loop()
    task = loop.create_task(main)
    while True:
        try:
            return loop.run_until_complete(task)
        except BaseException as error:
            if task.done() or _is_from_the_keyboard(error) or isinstance(error, OSError):
                raise
            logger.error(  # noqa: TRY400 - the words of a hostile exception are read with care
                "a job ended the event loop by %s: %s; the loop goes on",
                type_path(type(error)),
                words_of(error),
            )


def _is_from_the_keyboard(error: BaseException) -> bool:
    """A process that handles Ctrl-C by itself never gets this exception from the keyboard."""
    return type(error) is KeyboardInterrupt and signal.getsignal(signal.SIGINT) is signal.default_int_handler
