"""The connections of a process to PostgreSQL, which all of its loops share."""

from __future__ import annotations

import asyncio
import select
from collections import deque
from contextlib import asynccontextmanager
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, TypeVar
from weakref import WeakKeyDictionary

import psycopg
from psycopg import AsyncConnection
from psycopg.pq import TransactionStatus

from gandy.errors import DatabaseFaultError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

T = TypeVar("T")
Link = AsyncConnection[Any]

#: An idle connection is closed after this time; the last one stays.
KEPT_SECONDS: Final = 30.0
#: A connection in use is usually returned sooner than another one is open, so a short wait saves one.
PATIENCE_SECONDS: Final = 0.01
#: Callers with patience in one second; if there are more, the process is busy and needs the connections.
PATIENT_CALLERS: Final = 10
FIRST_PAUSE_SECONDS: Final = 0.05
_SECOND: Final = 1.0


class ConnectionPool:
    """Lends the connection that was used last, so that a process at rest needs one.

    Sessions are not counted in the limit: other callers cannot keep a worker from claiming.
    """

    def __init__(self, connect: Callable[[], Awaitable[Link]], *, most: int, timeout: float) -> None:
        self._connect = connect
        self._places = asyncio.Semaphore(most)
        self._timeout = timeout
        self._idle: list[Link] = []
        self._used_at: WeakKeyDictionary[Link, float] = WeakKeyDictionary()
        self._opened_at: WeakKeyDictionary[Link, float] = WeakKeyDictionary()
        self._left_at = 0.0
        self._lent = 0  # and those that are being opened
        self._waiting: deque[asyncio.Future[Link]] = deque()
        self._contended: deque[float] = deque(maxlen=PATIENT_CALLERS)
        self._closing: asyncio.TimerHandle | None = None
        self._discarding: set[asyncio.Task[None]] = set()
        self._is_closed = False

    @asynccontextmanager
    async def lend(
        self, prepare: Callable[[Link, float], Awaitable[T]], *, is_session: bool = False
    ) -> AsyncIterator[tuple[Link, T]]:
        """Lend a connection, with the result of its preparation.

        The preparation takes the seconds since the last use; if it fails, the connection is broken, and
        another one is taken.
        """
        if not is_session:
            await self._take_place()
        try:
            connection, prepared = await self._prepared(prepare, is_persistent=not is_session)
            try:
                yield connection, prepared
            finally:
                self._give_back(connection)
        finally:
            if not is_session:
                self._places.release()

    async def close(self) -> None:
        """Close all idle connections now, and the others when they are given back."""
        self._is_closed = True
        if self._closing is not None:
            self._closing.cancel()
        while self._idle:
            self._discard(self._idle.pop())
        await asyncio.gather(*self._discarding)

    def leave_primary(self, connection: Link) -> None:
        """Replace all connections, unless that was done since this one was opened.

        After a failover, idle connections lead to the read-only former primary, too.
        """
        if self._opened_at.get(connection, 0.0) < self._left_at:
            return
        self._left_at = monotonic()
        for idle in self._idle:
            self._discard(idle)
        self._idle.clear()

    async def _take_place(self) -> None:
        try:
            async with asyncio.timeout(self._timeout):
                await self._places.acquire()
        except TimeoutError as error:
            raise TimeoutError(f"no connection was free for {self._timeout:g} s") from error

    async def _prepared(
        self, prepare: Callable[[Link, float], Awaitable[T]], *, is_persistent: bool
    ) -> tuple[Link, T]:
        while True:
            connection, is_fresh = await self._take(is_persistent=is_persistent)
            rested = 0.0 if is_fresh else monotonic() - self._used_at[connection]
            try:
                return connection, await prepare(connection, rested)
            except BaseException as error:
                await connection.close()
                self._give_back(connection)
                if is_fresh or not isinstance(error, psycopg.OperationalError):
                    raise

    async def _take(self, *, is_persistent: bool) -> tuple[Link, bool]:
        """Take an idle connection, wait for one, or open one; return whether it is a new one."""
        if self._is_closed:
            raise psycopg.OperationalError("the connections to the database are closed")
        if self._idle:
            self._lent += 1
            return self._idle.pop(), False
        found = await self._wait() if self._lent and self._has_patience() else None
        if found is not None:
            return found, False
        return await self._open(is_persistent=is_persistent), True

    async def _open(self, *, is_persistent: bool) -> Link:
        self._lent += 1
        try:
            connection = await self._connect_persistently(self._timeout if is_persistent else 0.0)
        except BaseException:
            self._lent -= 1
            raise
        self._opened_at[connection] = monotonic()
        return connection

    async def _connect_persistently(self, seconds: float) -> Link:
        """Connect; try again for some time, in which a server can restart."""
        deadline, pause = monotonic() + seconds, FIRST_PAUSE_SECONDS
        while True:
            try:
                return await self._connect()
            except (psycopg.OperationalError, DatabaseFaultError):
                if monotonic() + pause > deadline:
                    raise
            await asyncio.sleep(pause)
            pause *= 2

    def _has_patience(self) -> bool:
        """Return whether to wait for a connection in use, rather than to open one."""
        now = monotonic()
        is_busy = len(self._contended) == PATIENT_CALLERS and now - self._contended[0] < _SECOND
        self._contended.append(now)
        return not is_busy

    async def _wait(self) -> Link | None:
        """Wait shortly for a connection that is given back."""
        waiter: asyncio.Future[Link] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        try:
            await asyncio.wait((waiter,), timeout=PATIENCE_SECONDS)
        except BaseException:
            if waiter.done():
                self._give_back(waiter.result())
            raise
        finally:
            waiter.cancel()
        return waiter.result() if not waiter.cancelled() else None

    def _give_back(self, connection: Link) -> None:
        """Lend a returned connection to the next caller, or keep it for some time."""
        self._lent -= 1
        is_usable = (
            not self._is_closed
            and not connection.closed
            and connection.info.transaction_status == TransactionStatus.IDLE
            and self._opened_at.get(connection, 0.0) >= self._left_at
        )
        if not is_usable:
            self._discard(connection)
            return
        self._used_at[connection] = monotonic()
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                self._lent += 1
                waiter.set_result(connection)
                return
        self._idle.append(connection)
        self._close_later()

    def _discard(self, connection: Link) -> None:
        task = asyncio.ensure_future(connection.close())
        self._discarding.add(task)
        task.add_done_callback(self._discarding.discard)

    def _close_later(self) -> None:
        """Close connections that have rested long enough, but not the one that was used last."""
        if self._closing is None and not self._is_closed and len(self._idle) > 1:
            seconds = self._used_at[self._idle[0]] + KEPT_SECONDS - monotonic()
            self._closing = asyncio.get_running_loop().call_later(max(seconds, 0.0), self._close_rested)

    def _close_rested(self) -> None:
        self._closing = None
        while len(self._idle) > 1 and monotonic() - self._used_at[self._idle[0]] >= KEPT_SECONDS:
            self._discard(self._idle.pop(0))
        self._close_later()


#: After this time without use, a connection may have been cut in silence.
RESTED_SECONDS: Final = 1.0


async def ask_if_rested(connection: Link, rested: float) -> None:
    """Ask a connection for a sign of life, unless it was just used and the server has not sent anything."""
    if rested > RESTED_SECONDS or _is_spoken_to(connection):
        await connection.execute("")


async def ask_if_told(connection: Link, _rested: float) -> None:
    """Ask a connection for a sign of life if the server has sent anything."""
    await ask_if_rested(connection, 0.0)


def _is_spoken_to(connection: Link) -> bool:
    """Return whether the server has sent an unsolicited message, as it does when it terminates."""
    if not hasattr(select, "poll"):  # Windows
        return True
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return bool(poll.poll(0))
