"""A disk that is full for as long as a file says so: SQLite itself then refuses to make the database larger."""

from __future__ import annotations

import os
import sqlite3
import threading
import weakref
from contextlib import suppress
from pathlib import Path
from typing import Any

FULL = Path(os.environ["WITNESS"]).with_name("disk-is-full")
LOOK_EVERY_SECONDS = 0.05
UNLIMITED = 1_073_741_823

_connect = sqlite3.connect
_connections: weakref.WeakSet[sqlite3.Connection] = weakref.WeakSet()


def _noted(*arguments: Any, **options: Any) -> sqlite3.Connection:  # noqa: ANN401 whatever sqlite3 takes
    connection = _connect(*arguments, **options)
    _limit(connection, is_full=FULL.exists())
    _connections.add(connection)
    return connection


def _limit(connection: sqlite3.Connection, *, is_full: bool) -> None:
    with suppress(sqlite3.Error):  # closed meanwhile, or busy: the next look does it
        # a limit below the size is the size: no page more
        connection.execute(f"PRAGMA max_page_count = {1 if is_full else UNLIMITED}")


def _watch() -> None:
    pause = threading.Event()
    while not pause.wait(LOOK_EVERY_SECONDS):
        for connection in list(_connections):
            _limit(connection, is_full=FULL.exists())


sqlite3.connect = _noted
threading.Thread(target=_watch, daemon=True).start()
