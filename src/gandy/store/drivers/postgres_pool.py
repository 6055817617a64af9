"""Which connections of the pool are asked whether they live before they are handed out."""

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


def _is_spoken_to(connection: AsyncConnection[Any]) -> bool:
    """Tell whether the server has sent something unasked, as it does when it goes away."""
    if not hasattr(select, "poll"):  # Windows
        return True
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return bool(poll.poll(0))
