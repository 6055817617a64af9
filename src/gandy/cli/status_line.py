"""The status line at the bottom of a terminal while services run."""

from __future__ import annotations

import asyncio
import shutil
import sys
import threading
import time
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING, Final, cast

from gandy.desk.home import Home
from gandy.errors import GandyError
from gandy.events import RunFinished
from gandy.settings.files import one_line

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from typing import TextIO

    from gandy.app import Gandy
    from gandy.desk.explain import Count
    from gandy.desk.home import Glance

EVERY_SECONDS: Final = 2.0
_CLEAR: Final = "\r\x1b[K"


class StatusLine:
    """A terminal whose last line is the status line; all other output is written above it."""

    def __init__(self, terminal: TextIO) -> None:
        self.encoding = terminal.encoding
        self.errors = terminal.errors
        self.fileno = terminal.fileno
        self.isatty = terminal.isatty
        self.flush = terminal.flush
        self._terminal = terminal
        self._line = ""
        self._lock = threading.Lock()  # log lines come from several threads

    def write(self, text: str) -> int:
        """Write text above the status line."""
        is_whole = text.endswith("\n")
        with self._lock:
            self._terminal.write(f"{_CLEAR}{text}{self._line if is_whole else ''}")
            self._terminal.flush()
        return len(text)

    def show(self, line: str) -> None:
        """Replace the status line; an empty text removes it."""
        with self._lock:
            self._line = line[: shutil.get_terminal_size().columns - 1]
            self._terminal.write(f"{_CLEAR}{self._line}")
            self._terminal.flush()


@contextmanager
def line_below() -> Iterator[StatusLine | None]:
    """Reserve the last line of the terminal; yield None if stderr is not a terminal."""
    terminal = sys.stderr
    if not terminal.isatty():
        yield None
        return
    line = StatusLine(terminal)
    sys.stderr = cast("TextIO", line)
    try:
        yield line
    finally:
        sys.stderr = terminal
        line.show("")


@asynccontextmanager
async def status_shown(app: Gandy, line: StatusLine | None) -> AsyncIterator[None]:
    """Update the status line of an open application until the context ends."""
    if line is None:
        yield
        return
    drawing = asyncio.create_task(_draw(app, line))
    try:
        yield
    finally:
        drawing.cancel()
        with suppress(asyncio.CancelledError):
            await drawing
        line.show("")


async def _draw(app: Gandy, line: StatusLine) -> None:
    ended = 0

    def count(_event: RunFinished) -> None:
        nonlocal ended
        ended += 1

    app.events.subscribe(RunFinished, count)
    home, looked_at, seen = Home(app.database, app.name), time.monotonic(), 0
    while True:
        await asyncio.sleep(EVERY_SECONDS)
        now, done = time.monotonic(), ended
        try:
            line.show(describe(await home.glance(), (done - seen) / (now - looked_at)))
        except GandyError as error:
            line.show(one_line(f"no status: {error}"))
        looked_at, seen = now, done


def describe(found: Glance, per_second: float) -> str:
    """Format the status line; the rate counts only runs of this process."""
    parts = (
        f"{per_second:,.1f} runs/s",
        f"{_number(found.running)} in progress",
        f"{_number(found.ready)} ready",
        f"{_number(found.waiting)} waiting",
        f"{_number(found.awaiting_letters)} dead letters",
    )
    return " | ".join(parts)


def _number(count: Count) -> str:
    return f"{count.value:,}{'+' if count.is_at_least else ''}"
