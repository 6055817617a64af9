"""The status at the bottom of a terminal while services run: what runs, what needs a person, and the rate."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import threading
import time
from collections import Counter
from contextlib import asynccontextmanager, contextmanager, suppress
from textwrap import wrap
from typing import TYPE_CHECKING, Final, cast

from gandy.cli.open import places_here
from gandy.desk.home import Home
from gandy.errors import GandyError
from gandy.events import RunFinished, RunsEndedInChild
from gandy.settings.files import one_line

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from typing import TextIO

    from gandy.app import Gandy
    from gandy.desk.explain import Count
    from gandy.desk.home import Glance, Overview

EVERY_SECONDS: Final = 2.0
_CLEAR: Final = "\r\x1b[K"
_CLEAR_ABOVE: Final = "\x1b[A\x1b[K"
_MOST_CONCERNS: Final = 3


class StatusLine:
    """A terminal whose last lines are the status; all other output is written above them."""

    def __init__(self, terminal: TextIO) -> None:
        self.encoding = terminal.encoding
        self.errors = terminal.errors
        self.fileno = terminal.fileno
        self.isatty = terminal.isatty
        self.flush = terminal.flush
        self._terminal = terminal
        self._lines = [""]
        self._drawn = 1  #: lines of the status on the terminal; 0 while a line above it is not ended
        self._lock = threading.Lock()  # log lines come from several threads

    def write(self, text: str) -> int:
        """Write text above the status."""
        if not isinstance(text, str):  # click tries bytes, to find out whether a stream is binary
            raise TypeError("text is expected, not bytes")
        with self._lock:
            self._terminal.write(f"{self._clear()}{text}")
            if text.endswith("\n"):
                self._terminal.write(self._draw())
            self._terminal.flush()
        return len(text)

    def show(self, status: str) -> None:
        """Replace the status; an empty text removes it."""
        with self._lock:
            is_line_ended = self._drawn > 0
            columns = max(shutil.get_terminal_size().columns - 1, 1)
            self._lines = [part for line in status.split("\n") for part in wrap(line, columns) or [""]]
            if is_line_ended:
                self._terminal.write(f"{self._clear()}{self._draw()}")
                self._terminal.flush()

    def _draw(self) -> str:
        self._drawn = len(self._lines)
        return "\n".join(self._lines)

    def _clear(self) -> str:
        """Clear the drawn lines, from the last one up."""
        drawn, self._drawn = self._drawn, 0
        return _CLEAR + _CLEAR_ABOVE * (drawn - 1) if drawn else ""


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
async def status_shown(
    app: Gandy, line: StatusLine | None, *, opened_by: str = "gandy open"
) -> AsyncIterator[None]:
    """Update the status line of an open application until the context ends.

    `opened_by` is the command that opens its dashboard, logged in.
    """
    if line is None:
        yield
        return
    drawing = asyncio.create_task(_draw(app, line, opened_by))
    try:
        yield
    finally:
        drawing.cancel()
        with suppress(asyncio.CancelledError):
            await drawing
        line.show("")


async def _draw(app: Gandy, line: StatusLine, opened_by: str) -> None:
    ended = 0

    def count(_event: RunFinished) -> None:
        nonlocal ended
        ended += 1

    def count_in_child(event: RunsEndedInChild) -> None:
        nonlocal ended
        ended += event.count

    app.events.subscribe(RunFinished, count)
    app.events.subscribe(RunsEndedInChild, count_in_child)
    home, looked_at, seen = Home(app.database, app.name), time.monotonic(), 0
    while True:
        await asyncio.sleep(EVERY_SECONDS)
        now, done = time.monotonic(), ended
        try:
            rate = describe(await home.glance(), (done - seen) / (now - looked_at))
            parts = [*details(await home.overview()), *await _address(app, opened_by), rate]
            line.show("\n".join(parts))
        except GandyError as error:
            line.show(one_line(f"no status: {error}"))
        looked_at, seen = now, done


async def _address(app: Gandy, opened_by: str) -> list[str]:
    """Return the address of the dashboard that this process serves, if any, and how to open it."""
    places = await asyncio.to_thread(places_here, app.settings.database.url, app.name)
    address = next((place.address for place in places if place.pid == os.getpid()), None)
    return [] if address is None else [f"dashboard: {address}/ opens logged in by:", opened_by]


def details(found: Overview) -> Iterator[str]:
    """Describe what runs, and what needs a person."""
    if found.live_runs:
        trains = Counter(run.train for run in found.live_runs)
        each = ", ".join(f"{one_line(train)} {runs}" for train, runs in trains.most_common())
        more = "..." if found.running.value > len(found.live_runs) else ""
        yield f"in progress: {each}{more}"
    for concern in found.concerns[:_MOST_CONCERNS]:
        yield f"look at: {one_line(concern.said)}"
    if len(found.concerns) > _MOST_CONCERNS:
        yield f"and {len(found.concerns) - _MOST_CONCERNS} more: gandy doctor"


def describe(found: Glance, per_second: float) -> str:
    """Format the status line; the rate counts only runs of this process and its worker processes."""
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
