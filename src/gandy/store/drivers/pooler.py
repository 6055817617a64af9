"""Detecting a transaction-mode pooler, such as PgBouncer, between this process and PostgreSQL.

Each transaction may get another backend: prepared statements get lost, and session settings leak to others.
"""

from __future__ import annotations

import itertools
import logging
import os
import secrets
from functools import cache
from threading import Lock
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakValueDictionary

from psycopg._preparing import Prepare, PrepareManager

from gandy.settings import mask_url

if TYPE_CHECKING:
    from psycopg import BaseConnection
    from psycopg._queries import PostgresQuery

_log = logging.getLogger("gandy.database")

_PROCESS: Final = secrets.token_hex(6)
_numbers: Final = itertools.count()


@cache
def pooler_of(url: str) -> Pooler:
    """Return the pooler state of a database; all connections of this process share it."""
    return Pooler(mask_url(url))


class Pooler:
    """Whether connections go through a pooler; once detected, that holds for the whole process."""

    def __init__(self, address: str) -> None:
        self.is_found = False
        self._address = address
        self._lock = Lock()
        self._said: set[str] = set()
        self._backends: WeakValueDictionary[tuple[str, int], BaseConnection[Any]] = WeakValueDictionary()

    def look_at(self, connection: BaseConnection[Any], backend: int) -> None:
        """Detect a pooler: the backend is not the one of the handshake, or another connection has it, too."""
        with self._lock:
            key = connection.info.host, backend
            other = self._backends.setdefault(key, connection)
            is_shared = other is not connection and not other.closed
            self._backends[key] = connection
        if is_shared or backend != connection.info.backend_pid:
            self.find(is_prepared=connection.prepare_threshold is not None)

    def find(self, *, is_prepared: bool) -> None:
        """Stop using prepared statements; warn once, unless the settings have turned them off already."""
        self.is_found = True
        if is_prepared:
            self.warn_once(
                "it is behind a pooler: prepared statements are off for this process, and session settings "
                "apply per transaction; set database.prepared_statements = false to silence this"
            )

    def warn_once(self, message: str) -> None:
        """Log a warning the first time only."""
        with self._lock:
            is_new = message not in self._said
            self._said.add(message)
        if is_new:
            _log.warning("%s: %s", self._address, message)


class StatementNames(PrepareManager):
    """Gives prepared statements names that are unique over all connections and processes.

    The driver's names repeat in every process: behind a pooler, a bind can reach another process's statement.
    """

    def __init__(self, pooler: Pooler, threshold: int | None) -> None:
        super().__init__()
        self.prepare_threshold = threshold
        self._pooler = pooler

    def get(self, query: PostgresQuery, prepare: bool | None = None) -> tuple[Prepare, bytes]:  # noqa: FBT001
        """Return whether to prepare a statement, and under which name."""
        if self._pooler.is_found:
            return Prepare.NO, b""
        prep, name = super().get(query, prepare)
        return (prep, _new_name()) if prep is Prepare.SHOULD else (prep, name)

    def clear(self) -> bool:
        """Forget all statements; behind a pooler, do not deallocate them: they may be another process's."""
        is_to_flush = super().clear()
        if is_to_flush and self._pooler.is_found:
            self._to_flush.clear()
            return False
        return is_to_flush


def name_statements(connection: BaseConnection[Any], pooler: Pooler) -> None:
    """Make a connection use unique statement names; it must not have prepared any yet."""
    connection._prepared = StatementNames(pooler, connection.prepare_threshold)  # noqa: SLF001 - no public way


def _new_name() -> bytes:
    return f"_gandy_{_PROCESS}_{os.getpid()}_{next(_numbers)}".encode()
