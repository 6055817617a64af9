"""Wake loops early, by notifications of the database and events of this process."""

from __future__ import annotations

import asyncio
import logging
from time import monotonic
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from gandy.errors import GandyError

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

    from gandy.store.drivers.database import Database


_log = logging.getLogger("gandy.wakeups")

Topic: TypeAlias = Literal["work", "later", "manager", "pending", "cancel"]

RETRY_AFTER_SECONDS: Final = 1.0


class Wakeups:
    """Delivers notifications of the database to the loops of this process."""

    def __init__(self, database: Database, owner: str) -> None:
        self._database = database
        self._owner = owner
        self._events: dict[str, list[asyncio.Event]] = {}
        self._callbacks: dict[str, list[Callable[[str], None]]] = {}
        self._listeners: dict[str, list[Callable[[], None]]] = {}
        self._empty_at: float | None = None

    def event(self, *topics: Topic) -> asyncio.Event:
        """Make an event that is set by each notification of one of the topics."""
        event = asyncio.Event()
        for topic in topics:
            self._events.setdefault(topic, []).append(event)
        return event

    def on(self, topic: Topic, listener: Callable[[], None]) -> None:
        """Call a listener for each notification of the topic."""
        self._listeners.setdefault(topic, []).append(listener)

    def call(self, topic: Topic, callback: Callable[[str], None]) -> None:
        """Call back with the part of the payload after the topic."""
        self._callbacks.setdefault(topic, []).append(callback)

    def wake(self, topic: Topic) -> None:
        """Wake the loops of this process at once."""
        self._wake(topic)

    def _wake(self, topic: str) -> None:
        for event in self._events.get(topic, ()):
            event.set()
        for listener in self._listeners.get(topic, ()):
            listener()

    def note_empty(self, *, is_empty: bool) -> None:
        """Note what a loop of this process has just seen: whether any entry of the application is ready."""
        self._empty_at = monotonic() if is_empty else None

    def was_empty(self, within: timedelta) -> bool:
        """Return whether no entry was ready lately, so that another loop need not look, too."""
        return self._empty_at is not None and monotonic() - self._empty_at < within.total_seconds()

    def tell(self, topic: Topic, rest: str) -> None:
        """Call back within this process at once, without a round trip to the database."""
        self._call_back(topic, rest)

    async def listen(self) -> None:
        """Listen for ever; after a fault wake all loops, since notifications may have been missed."""
        while True:
            try:
                async for payload in self._database.notifications():
                    self._deliver(payload)
            except GandyError as error:
                _log.warning("not listening: %s", error)
            self._wake_all()
            await asyncio.sleep(RETRY_AFTER_SECONDS)

    def _deliver(self, payload: str) -> None:
        topic, _, rest = payload.partition(":")
        if topic == "changed":  # from a database without payloads
            self._wake_all()
            return
        self._call_back(topic, rest)
        if rest in {self._owner, ""}:
            self._wake(topic)

    def _call_back(self, topic: str, rest: str) -> None:
        for callback in self._callbacks.get(topic, ()):
            callback(rest)

    def _wake_all(self) -> None:
        for topic in {*self._events, *self._listeners}:
            self._wake(topic)


async def wait_for_wake(event: asyncio.Event, seconds: float) -> bool:
    """Sleep until the event is set or the time is over, and clear it; return whether it was set."""
    if event.is_set():
        event.clear()
        return True
    try:
        await wait_within(event, max(seconds, 0.0))
    except TimeoutError:
        return False
    finally:
        event.clear()
    return True


async def wait_within(event: asyncio.Event, seconds: float) -> None:
    """Wait for the event, or raise TimeoutError.

    On Python 3.11 `asyncio.wait_for` loses a cancellation that comes together with the event, and the loop
    that waits would outlive its service.
    """
    async with asyncio.timeout(seconds):
        await event.wait()
