"""What a process writes about itself: lines for people, or one JSON object a line."""

from __future__ import annotations

import json
import logging
import sys
from typing import TYPE_CHECKING, Final

from gandy.settings.files import many_lines
from gandy.train.log import hidden_texts

if TYPE_CHECKING:
    from gandy.settings import LoggingSettings

_STANDARD: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}


class JsonLines(logging.Formatter):
    """Every record as one JSON object, with the fields that its writer added."""

    def format(self, record: logging.LogRecord) -> str:
        """Write one line."""
        line: dict[str, object] = {
            "at": self.formatTime(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line.update((name, value) for name, value in vars(record).items() if name not in _STANDARD)
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        elif record.exc_text:  # with masks, where it would have shown a secret
            line["exception"] = record.exc_text
        return hidden_texts.without(json.dumps(line, default=str))


class TextLines(logging.Formatter):
    """Every record for people; only a record's first line begins at the left, and nothing moves a cursor."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(name)s: %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        """Write one record, with its traceback below it."""
        return many_lines(hidden_texts.without(super().format(record))).replace("\n", "\n  ")


def configure_logging(settings: LoggingSettings) -> None:
    """Write the process's log to stderr, as the settings say."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if settings.format == "json" else TextLines())
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(settings.level.upper())
