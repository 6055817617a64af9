"""Keeping the lines of ordinary loggers with the run that they are written in."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING

from gandy.train.log import MaskingFactory, RunLogHandler
from gandy.train.run import leave_reports, mask_reports, running_now

if TYPE_CHECKING:
    from collections.abc import Iterator

_handler = RunLogHandler(running_now)
_lock = Lock()
_holders = 0


@contextmanager
def logs_kept_with_runs() -> Iterator[None]:
    """Listen on the root logger; however many applications are open, each line is kept once."""
    _hold(1)
    try:
        yield
    finally:
        _hold(-1)


def _hold(change: int) -> None:
    global _holders  # noqa: PLW0603 - the root logger is one for the whole process, and so is this count
    with _lock:
        _holders += change
        if _holders:
            logging.getLogger().addHandler(_handler)
            _mask_records()
            mask_reports()
        else:
            logging.getLogger().removeHandler(_handler)
            _leave_records()
            leave_reports()


def _mask_records() -> None:
    """Mask secrets in records as they are made: other handlers write them to the process's own log."""
    make = logging.getLogRecordFactory()
    if not isinstance(make, MaskingFactory):
        logging.setLogRecordFactory(MaskingFactory(running_now, make))


def _leave_records() -> None:
    make = logging.getLogRecordFactory()
    if isinstance(make, MaskingFactory):  # else the application has put its own over it
        logging.setLogRecordFactory(make.make)
