"""Counts the statements that reach a database: by libpq's own trace, and by SQLite's trace callback."""

from __future__ import annotations

import os
import re
import sqlite3
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import psycopg

if TYPE_CHECKING:
    from collections.abc import Iterator

_RECORD = re.compile(r"^[-\d]+ [\d:.]+\t(?=[FB]\t)", re.MULTILINE)
_MESSAGES = {
    "Query": re.compile(r'F\t\d+\tQuery\t "(?P<text>.*)"', re.DOTALL),
    "Parse": re.compile(r'F\t\d+\tParse\t "(?P<name>[^"]*)" "(?P<text>.*)" \d+', re.DOTALL),
    "Bind": re.compile(r'F\t\d+\tBind\t "[^"]*" "(?P<name>[^"]*)"'),
}
_CONTROL = ("BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE")


@dataclass(slots=True)
class Sent:
    """Every statement that was sent, in order."""

    texts: list[str] = field(default_factory=list)

    @property
    def control(self) -> list[str]:
        """What begins and ends transactions."""
        return [text for text in self.texts if text.upper().startswith(_CONTROL)]

    @property
    def statements(self) -> list[str]:
        """All others."""
        return [text for text in self.texts if not text.upper().startswith(_CONTROL)]


@contextmanager
def counted() -> Iterator[Sent]:
    """Count what this process sends on connections that are opened meanwhile."""
    sent = Sent()
    with _counted_on_postgres(sent), _counted_on_sqlite(sent):
        yield sent


@contextmanager
def _counted_on_postgres(sent: Sent) -> Iterator[None]:
    connect = psycopg.connect
    with tempfile.TemporaryDirectory() as folder:
        files: list[Path] = []

        def traced(*arguments: Any, **settings: Any) -> Any:  # noqa: ANN401  # of the driver
            connection = connect(*arguments, **settings)
            files.append(Path(folder) / str(len(files)))
            # libpq makes a stream of the descriptor and closes it with the connection
            connection.pgconn.trace(os.open(files[-1], os.O_WRONLY | os.O_CREAT))
            return connection

        with patch.object(psycopg, "connect", traced):
            yield
        for file in files:
            sent.texts += _traced(file.read_text())


def _traced(trace: str) -> Iterator[str]:
    """A simple query is sent as it is; others are parsed once and bound for each run."""
    prepared: dict[str, str] = {}
    for record in _RECORD.split(trace):
        if found := _MESSAGES["Query"].match(record):
            yield from (part.strip() for part in found["text"].split(";") if part.strip())
        elif found := _MESSAGES["Parse"].match(record):
            prepared[found["name"]] = found["text"]
        elif found := _MESSAGES["Bind"].match(record):
            yield prepared[found["name"]]


@contextmanager
def _counted_on_sqlite(sent: Sent) -> Iterator[None]:
    connect = sqlite3.connect

    def traced(*arguments: Any, **settings: Any) -> sqlite3.Connection:  # noqa: ANN401  # of the driver
        connection: sqlite3.Connection = connect(*arguments, **settings)
        connection.set_trace_callback(note)
        return connection

    def note(text: str) -> None:
        if not text.startswith("--"):  # what SQLite itself runs within a statement
            sent.texts.append(text)

    with patch.object(sqlite3, "connect", traced), patch.object(sqlite3.dbapi2, "connect", traced):
        yield
