"""Log formats of a process: plain text, or one JSON object per line."""

from __future__ import annotations

import json
import logging
import sys
from typing import TYPE_CHECKING, Final

from gandy.settings.files import many_lines, one_line
from gandy.train.log import RUN_LOGGER, hidden_texts

if TYPE_CHECKING:
    from gandy.settings import LoggingSettings

_STANDARD: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}


class JsonLines(logging.Formatter):
    """Format a record as one JSON object, with its extra fields."""

    def format(self, record: logging.LogRecord) -> str:
        """Return one line of JSON."""
        line: dict[str, object] = {
            "at": self.formatTime(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line.update((name, value) for name, value in vars(record).items() if name not in _STANDARD)
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        elif record.exc_text:  # already formatted, with secrets masked
            line["exception"] = record.exc_text
        return hidden_texts.without(json.dumps(line, default=str))


class TextLines(logging.Formatter):
    """Format a record as text; indent its further lines and escape terminal control characters.

    A message of Gandy's own is one line, whatever a reason or a name in it has; a job's may have several.
    """

    def __init__(self, shape: str = "%(asctime)s %(levelname)-7s %(name)s: %(message)s") -> None:
        super().__init__(shape)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 the name of the base class
        """Return the record without its traceback."""
        if record.name.startswith("gandy.") and record.name != RUN_LOGGER:
            record.message = one_line(record.message)
        return super().formatMessage(record)

    def format(self, record: logging.LogRecord) -> str:
        """Return one record, with its traceback below it."""
        return many_lines(hidden_texts.without(super().format(record))).replace("\n", "\n  ")


def configure_logging(settings: LoggingSettings) -> None:
    """Send the root logger to stderr, in the format and level of the settings."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if settings.format == "json" else TextLines())
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(settings.level.upper())
