"""What the three ways share: the table, its rows, an old snapshot, and the figures of a series of batches."""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING

import psycopg

from benchmarks.protocol import Contestant
from benchmarks.statements import load_statements

if TYPE_CHECKING:
    from collections.abc import Sequence

SQL = load_statements(__file__)


class Events(Contestant):
    """A table whose old half is to go."""

    filling = "fill"

    def setup(self, url: str) -> None:
        """Make the table."""
        with self.connected(url) as connection:
            connection.execute(SQL["create"])
            connection.execute(SQL["create_index"])

    def connected(self, url: str) -> psycopg.Connection:
        """A connection on which every statement commits."""
        return psycopg.connect(url, autocommit=True)

    def open(self, url: str) -> None:
        """One connection to delete on, and one that can hold an old snapshot."""
        self.url = url
        self.connection = self.connected(url)
        self._other = psycopg.connect(url)
        self._other.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ

    def close(self) -> None:
        """Disconnect."""
        self.connection.close()
        self._other.close()

    def fill(self, rows: int) -> None:
        """As many old rows as kept ones."""
        self._other.rollback()
        self.connection.execute("TRUNCATE event")
        self.connection.execute(SQL[self.filling], {"rows": rows})
        self.connection.execute("VACUUM ANALYZE event")

    def hold(self) -> None:
        """Begin an old snapshot, so that nothing deleted from now on can be cleaned up."""
        self._other.execute(SQL["hold_snapshot"])

    def remaining(self) -> int:
        """Rows that are left."""
        row = self.connection.execute("SELECT count(*) FROM event").fetchone()
        return int(row[0]) if row else 0

    def vacuum(self) -> float:
        """Seconds that cleaning up afterwards takes."""
        self._other.rollback()
        started = time.monotonic()
        self.connection.execute("VACUUM event")
        return time.monotonic() - started


def batch_figures(seconds: Sequence[float]) -> dict[str, float]:
    """The longest batch, and how the last tenth compares with the first."""
    tenth = max(1, len(seconds) // 10)
    first, last = statistics.median(seconds[:tenth]), statistics.median(seconds[-tenth:])
    return {"longest batch ms": max(seconds) * 1000, "last tenth / first": last / first}
