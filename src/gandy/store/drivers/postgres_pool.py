"""Which connections of the pool are handed out: neither the dead, nor those to a primary that was."""

from __future__ import annotations

import select
from time import monotonic
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from psycopg_pool import AsyncConnectionPool

if TYPE_CHECKING:
    from psycopg import AsyncConnection

RESTED_SECONDS: Final = 1.0


class Liveness:
    """Spares a round trip where a connection was used a moment ago and its server has not said goodbye."""

    def __init__(self) -> None:
        self._used: WeakKeyDictionary[AsyncConnection[Any], float] = WeakKeyDictionary()

    async def check(self, connection: AsyncConnection[Any]) -> None:
        """Raise where the connection is of no use any more."""
        now = monotonic()
        rested = now - self._used.get(connection, 0.0)
        self._used[connection] = now
        if rested > RESTED_SECONDS or _is_spoken_to(connection):
            await AsyncConnectionPool.check_connection(connection)


class Primary:
    """Has a pool leave a primary that takes no writes any more: its idle connections lead there, too."""

    def __init__(self, pool: AsyncConnectionPool[Any]) -> None:
        self._pool = pool
        self._left_at = 0.0
        self._opened: WeakKeyDictionary[AsyncConnection[Any], float] = WeakKeyDictionary()

    def note_opened(self, connection: AsyncConnection[Any]) -> None:
        """Remember when a connection was made."""
        self._opened[connection] = monotonic()

    async def leave(self, connection: AsyncConnection[Any]) -> None:
        """Open all connections again, unless that was done since this one was made."""
        if self._opened.get(connection, 0.0) < self._left_at:
            return
        self._left_at = monotonic()
        drain = getattr(self._pool, "drain", None)  # older pools lose them one by one, each by its own fault
        if drain is not None:
            await drain()


def _is_spoken_to(connection: AsyncConnection[Any]) -> bool:
    """Tell whether the server has sent something unasked, as it does when it goes away."""
    if not hasattr(select, "poll"):  # Windows
        return True
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return bool(poll.poll(0))
