"""Log lines of a run, and the secrets that are hidden in them."""

from __future__ import annotations

import logging
import sys
import traceback
import weakref
from collections import Counter, deque
from contextlib import suppress
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, Final

from gandy.model.layout import MASK, SHORTEST_SECRET

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from gandy.train.run import Run


#: How long secrets stay masked after their run: threads and tasks that it started may log later.
GRACE_SECONDS: Final = 600.0
#: The maximum size of the secrets of ended runs; above it the oldest are forgotten before their grace ends.
MOST_LATE_CHARACTERS: Final = 8_000_000
_OVERHEAD: Final = 100  # of a text, in addition to its characters


class HiddenTexts:
    """Keeps each text while its holder is referenced, and for a grace period after.

    The cost of a search depends on the length of the searched text, not on the number of hidden texts.
    """

    def __init__(
        self,
        clock: Callable[[], float] = monotonic,
        *,
        grace_seconds: float = GRACE_SECONDS,
        most_late: int = MOST_LATE_CHARACTERS,
    ) -> None:
        self._clock = clock
        self._grace_seconds = grace_seconds
        self._most_late = most_late
        self._lock = Lock()
        self._holders: dict[str, int] = {}  # by text: the number of runs that hold it
        self._shapes: Counter[tuple[str, int]] = Counter()
        self._lengths: dict[str, tuple[int, ...]] = {}  # by the prefix of the texts, the longest first
        self._ended: deque[tuple[str, ...]] = deque()
        self._late: dict[str, float] = {}  # since when no run holds a text, the oldest first
        self._late_size = 0

    @property
    def is_empty(self) -> bool:
        """Whether no text is hidden, so that nothing needs to be searched."""
        return not self._lengths

    def add(self, holder: object, texts: Iterable[str]) -> None:
        """Hide texts while the holder is referenced, and for the grace period after."""
        held = tuple(texts)
        if not held:
            return
        with self._lock:
            self._settle()
            for text in held:
                self._hold(text)
        # The finalizer may run while this thread holds the lock, so it only appends and takes no lock.
        weakref.finalize(holder, self._ended.append, held).atexit = False

    def without(self, text: str) -> str:
        """Return the text with every hidden text masked."""
        if self.is_empty:
            return text
        if self._ended or self._late:
            with self._lock:
                self._settle()
        parts: list[str] = []
        begun = position = 0
        while position <= len(text) - SHORTEST_SECRET:
            length = self._length_at(text, position)
            if length:
                parts += (text[begun:position], MASK)
                begun = position = position + length
            else:
                position += 1
        return "".join((*parts, text[begun:])) if parts else text

    def _length_at(self, text: str, position: int) -> int:
        for length in self._lengths.get(text[position : position + SHORTEST_SECRET], ()):
            if text[position : position + length] in self._holders:
                return length
        return 0

    def _settle(self) -> None:
        """Start the grace period of texts without a holder; forget texts beyond the period or the limit."""
        now = self._clock()
        while self._ended:
            for text in self._ended.popleft():
                self._holders[text] -= 1
                if self._holders[text] == 0:
                    self._late[text] = now
                    self._late_size += len(text) + _OVERHEAD
        while self._late:
            text, since = next(iter(self._late.items()))
            if now - since < self._grace_seconds and self._late_size <= self._most_late:
                return
            self._forget(text)

    def _hold(self, text: str) -> None:
        if text not in self._holders:
            self._shapes[text[:SHORTEST_SECRET], len(text)] += 1
            self._note_lengths(text[:SHORTEST_SECRET], len(text))
        if self._late.pop(text, None) is not None:
            self._late_size -= len(text) + _OVERHEAD
        self._holders[text] = self._holders.get(text, 0) + 1

    def _forget(self, text: str) -> None:
        del self._late[text], self._holders[text]
        self._late_size -= len(text) + _OVERHEAD
        shape = (text[:SHORTEST_SECRET], len(text))
        self._shapes[shape] -= 1
        if not self._shapes[shape]:
            del self._shapes[shape]
            self._note_lengths(*shape)

    def _note_lengths(self, beginning: str, changed: int) -> None:
        """Update the lengths of the texts with this prefix after a text was added or removed."""
        lengths = {*self._lengths.get(beginning, ()), changed}
        left = sorted((each for each in lengths if self._shapes[beginning, each]), reverse=True)
        if left:
            self._lengths[beginning] = tuple(left)
        else:
            del self._lengths[beginning]


hidden_texts: Final = HiddenTexts()


RUN_LOGGER: Final = "gandy.run"
_ALREADY_KEPT: Final = "gandy_kept"
_forward = logging.getLogger(RUN_LOGGER)


class RunLog:
    """Logs like a standard logger: every line is kept with the run and passed on to logger `gandy.run`."""

    __slots__ = ("_run",)

    def __init__(self, run: Run) -> None:
        self._run = run

    def debug(self, message: str, *args: object) -> None:
        """Keep a line of level DEBUG."""
        self._write(logging.DEBUG, message, args)

    def info(self, message: str, *args: object) -> None:
        """Keep a line of level INFO."""
        self._write(logging.INFO, message, args)

    def warning(self, message: str, *args: object) -> None:
        """Keep a line of level WARNING."""
        self._write(logging.WARNING, message, args)

    def error(self, message: str, *args: object) -> None:
        """Keep a line of level ERROR."""
        self._write(logging.ERROR, message, args)

    def exception(self, message: str, *args: object) -> None:
        """Keep a line of level ERROR with the traceback of the exception being handled."""
        self._write(logging.ERROR, message, args, with_traceback=True)

    def _write(
        self, level: int, message: str, args: tuple[object, ...], *, with_traceback: bool = False
    ) -> None:
        text = _formatted(message, args)
        if with_traceback and sys.exc_info()[0] is not None:
            text = f"{text}\n{traceback.format_exc().rstrip()}"
        self._run.keep_line(logging.getLevelName(level), RUN_LOGGER, text)
        if _forward.isEnabledFor(level):
            _forward.log(level, "%s", self._run.shown_line(text), extra={_ALREADY_KEPT: True}, stacklevel=3)


class MaskingFactory:
    """Makes log records that contain masks instead of secrets, for all handlers.

    It masks the secrets of the current run and of all runs of this process: a thread or a hook that belongs
    to a run may log outside of its context.
    """

    def __init__(self, running_now: Callable[[], Run | None], make: Callable[..., logging.LogRecord]) -> None:
        """Take the factory that makes the records."""
        self._running_now = running_now
        self.make = make

    def __call__(self, *args: object, **kwargs: object) -> logging.LogRecord:
        """Make a record."""
        record = self.make(*args, **kwargs)
        run = self._running_now()
        if run is not None and run.has_secrets:
            _mask(record, lambda text: hidden_texts.without(run.without_secrets(text)))
        elif not hidden_texts.is_empty:
            _mask(record, hidden_texts.without)
        return record


def _mask(record: logging.LogRecord, masked: Callable[[str], str]) -> None:
    text = _text_of(record)
    record.name = masked(record.name)
    if (shown := masked(text)) != text:
        record.msg, record.args = shown, ()
    if record.exc_info and record.exc_info[1] is not None:
        trace = "".join(traceback.format_exception(record.exc_info[1])).rstrip()
        if (shown := masked(trace)) != trace:
            record.exc_info, record.exc_text = None, shown


def _text_of(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:  # noqa: BLE001 - the handler reports the formatting error with the values, so mask both
        with suppress(Exception):
            return f"{record.msg} {record.args!r}"
    return ""


class RunLogHandler(logging.Handler):
    """Keeps the records that ordinary loggers emit inside a run with that run."""

    def __init__(self, running_now: Callable[[], Run | None], level: int = logging.NOTSET) -> None:
        super().__init__(level)
        self._running_now = running_now

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the record if it was emitted inside a run."""
        run = self._running_now()
        if run is None or hasattr(record, _ALREADY_KEPT):
            return
        try:
            run.keep_line(record.levelname, record.name, self.format(record))
        except Exception:  # noqa: BLE001 - logging reports its own failures and never raises them
            self.handleError(record)


def _formatted(message: str, args: tuple[object, ...]) -> str:
    message = str(message)  # like logging, which takes any object
    if not args:
        return message
    try:
        return message % args
    except (TypeError, ValueError):  # a bad format must not fail the run
        return f"{message} {args!r}"
