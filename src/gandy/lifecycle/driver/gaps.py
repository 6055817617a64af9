"""Gaps between batches for other writers, where a database has one write lock for all of them.

SQLite keeps no queue: a writer that finds the lock taken sleeps and tries again, every 100 ms once it has
waited for a while. Between two batches the lock is free too briefly for it to try just then.
"""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from sqlalchemy.exc import DBAPIError

from gandy.lifecycle.database.dialect import Failure

if TYPE_CHECKING:
    from collections.abc import Callable

    from gandy.lifecycle.database.target import Session

LONG_ENOUGH = timedelta(milliseconds=110)  # a gap in which every waiting writer tries at least once
BESIDE_WRITERS = timedelta(milliseconds=150)  # of holding the lock until the next gap
_AT_FIRST = timedelta(milliseconds=250)
ALONE = timedelta(seconds=1)


class WriteGaps:
    """Says when the lock was held long enough: soon while others write, later while nothing else does."""

    @classmethod
    def of(cls, session: Session) -> WriteGaps:
        """The gaps of all that one session writes."""
        return cls(partial(_version, session))

    def __init__(self, version: Callable[[], int | None]) -> None:
        self._version = version  # another one after every commit of another connection
        self._seen: int | None = None
        self._has_left_one = False
        self._most = _AT_FIRST
        self._held = timedelta(0)
        self._rested = timedelta(0)

    def held(self, span: timedelta) -> None:
        """The lock was held, or waited for."""
        self._held += span
        self._rested = timedelta(0)

    def rested(self, span: timedelta) -> None:
        """The lock was free."""
        self._rested += span

    def is_due(self) -> bool:
        """Whether the lock must stay free."""
        if self._held < self._most:
            return False
        if self._seen is None and self._has_left_one:  # a short run pays for no statement more
            self._seen = self._version()
        if self._rested < LONG_ENOUGH:
            return True
        self._learn()
        return False

    def _learn(self) -> None:
        """A writer that used the gap will come again."""
        self._held = timedelta(0)
        if not self._has_left_one:
            self._has_left_one = True
            return
        seen, self._seen = self._seen, self._version()
        is_alone = seen is not None and seen == self._seen
        self._most = min(2 * self._most, ALONE) if is_alone else BESIDE_WRITERS


def _version(session: Session) -> int | None:
    """None where other writers keep even this from being read."""
    try:
        with session.reading() as connection:
            return session.dialect.version_of_others(connection)
    except DBAPIError as error:
        if session.dialect.failure(error) is not Failure.CONTENDED:
            raise
        return None
