"""Deleting expired runs with their log rows by direct SQL, beside as many kept ones: the best row form."""

from __future__ import annotations

import time

from benchmarks.ceilings.gandy_schema import connect, create_schema
from benchmarks.protocol import Contestant, serve
from benchmarks.statements import load_statements

SQL = load_statements(__file__)
BATCH = 5_000
LOGS_PER_RUN = 3
ROWWISE = "-infinity"
EXPIRED_AGE, KEPT_AGE = 8, 0


class Deletion(Contestant):
    """Batches of ids in order, children first, one short transaction each."""

    bucket = ROWWISE

    def setup(self, url: str) -> None:
        """Make Gandy's tables."""
        create_schema(url)

    def open(self, url: str) -> None:
        """One connection."""
        self._connection = connect(url)

    def fill(self, runs: int) -> None:
        """As many expired runs as kept ones, three log rows each."""
        self._connection.execute("TRUNCATE gandy.history, gandy.log")
        self._write(1, runs, bucket=self.bucket, age=EXPIRED_AGE)
        self._write(runs + 1, 2 * runs, bucket=ROWWISE, age=KEPT_AGE)
        self._connection.execute("VACUUM ANALYZE gandy.history")
        self._connection.execute("VACUUM ANALYZE gandy.log")

    def delete(self) -> float:
        """Remove what has expired; answers the longest batch in seconds."""
        longest, at, last = 0.0, "-infinity", 0
        while True:
            started = time.monotonic()
            with self._connection.transaction():
                row = self._connection.execute(
                    SQL["next_batch"], {"at": at, "id": last, "batch": BATCH}
                ).fetchone()
                if row is None or row[2] is None:
                    return longest
                at, last = row[0], row[1]
                self._connection.execute(SQL["delete_logs"], {"ids": row[2]})
                self._connection.execute(SQL["delete_runs"], {"ids": row[2]})
            longest = max(longest, time.monotonic() - started)

    def remaining(self) -> list[int]:
        """Runs and log rows that are left."""
        row = self._connection.execute(
            "SELECT (SELECT count(*) FROM gandy.history), (SELECT count(*) FROM gandy.log)"
        ).fetchone()
        return [int(count) for count in row or ()]

    def _write(self, first: int, last: int, *, bucket: str, age: int) -> None:
        span = {"first": first, "last": last, "bucket": bucket}
        self._connection.execute(SQL["runs"], {**span, "age": age})
        self._connection.execute(SQL["logs"], {**span, "per_run": LOGS_PER_RUN})


if __name__ == "__main__":
    serve(Deletion())
