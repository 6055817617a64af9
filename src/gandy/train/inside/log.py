"""The run's own logger, and the capture of ordinary logging inside a run."""

from __future__ import annotations

import logging
import sys
import traceback
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from gandy.train.inside.hidden import hidden_texts

if TYPE_CHECKING:
    from collections.abc import Callable

    from gandy.train.inside.run import Run

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
    """Makes log records that carry masks instead of secrets, for every handler alike.

    Masked are the secrets of the run that a record is written in, and those of all runs of this process: a
    thread or a hook that belongs to a run may write without its context.
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
    except Exception:  # noqa: BLE001 - the handler that formats it says what is wrong, and shows the values
        with suppress(Exception):
            return f"{record.msg} {record.args!r}"
    return ""


class RunLogHandler(logging.Handler):
    """Keeps the records that ordinary loggers emit inside a run with that run."""

    def __init__(self, running_now: Callable[[], Run | None], level: int = logging.NOTSET) -> None:
        super().__init__(level)
        self._running_now = running_now

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the record where it was emitted inside a run."""
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
