"""Recognising a pooler between this process and PostgreSQL: another connection for every transaction.

There a prepared statement is soon out of reach, and what is set for a session is left to strangers.
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
    """Find what this process knows of the way to a database; all its connections share it."""
    return Pooler(mask_url(url))


class Pooler:
    """Whether a pooler stands between; once it is found, that stays so for this process."""

    def __init__(self, address: str) -> None:
        self.is_found = False
        self._address = address
        self._lock = Lock()
        self._said: set[str] = set()
        self._backends: WeakValueDictionary[tuple[str, int], BaseConnection[Any]] = WeakValueDictionary()

    def look_at(self, connection: BaseConnection[Any], backend: int) -> None:
        """Compare the backend that answers with the one that was promised, and with those of others."""
        with self._lock:
            key = connection.info.host, backend
            other = self._backends.setdefault(key, connection)
            is_shared = other is not connection and not other.closed
            self._backends[key] = connection
        if is_shared or backend != connection.info.backend_pid:
            self.find(is_prepared=connection.prepare_threshold is not None)

    def find(self, *, is_prepared: bool) -> None:
        """Go on without prepared statements; said once, unless the settings say so already."""
        self.is_found = True
        if is_prepared:
            self.say_once(
                "it is behind a pooler: prepared statements are off for this process, and what was "
                "set for a session is set for each transaction; database.prepared_statements = false says so"
            )

    def say_once(self, message: str) -> None:
        """Warn, the first time only."""
        with self._lock:
            is_new = message not in self._said
            self._said.add(message)
        if is_new:
            _log.warning("%s: %s", self._address, message)


class StatementNames(PrepareManager):
    """Names prepared statements so that no other connection of any process has the same name.

    The driver's own names are the same in every process: behind a pooler a bind reached another's statement.
    """

    def __init__(self, pooler: Pooler, threshold: int | None) -> None:
        super().__init__()
        self.prepare_threshold = threshold
        self._pooler = pooler

    def get(self, query: PostgresQuery, prepare: bool | None = None) -> tuple[Prepare, bytes]:  # noqa: FBT001
        """Tell whether to prepare a statement, and under which name."""
        if self._pooler.is_found:
            return Prepare.NO, b""
        prep, name = super().get(query, prepare)
        return (prep, _new_name()) if prep is Prepare.SHOULD else (prep, name)

    def clear(self) -> bool:
        """Forget all statements; behind a pooler those of the server may be another process's."""
        is_to_flush = super().clear()
        if is_to_flush and self._pooler.is_found:
            self._to_flush.clear()
            return False
        return is_to_flush


def name_statements(connection: BaseConnection[Any], pooler: Pooler) -> None:
    """Have a connection that has prepared nothing yet use names of its own."""
    connection._prepared = StatementNames(pooler, connection.prepare_threshold)  # noqa: SLF001 - no public way


def _new_name() -> bytes:
    return f"_gandy_{_PROCESS}_{os.getpid()}_{next(_numbers)}".encode()
