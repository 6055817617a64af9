"""The common loop: DELETE ... WHERE id IN (SELECT ... LIMIT n) until nothing is left."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from benchmarks.lifecycle.events import SQL, Events, batch_figures
from benchmarks.protocol import serve

if TYPE_CHECKING:
    import psycopg


class LimitedLoop(Events):
    """Every batch begins at the head of the index."""

    def delete(self, batch: int) -> dict[str, float]:
        """Delete batch by batch."""
        return batch_figures(delete_in_batches(self.connection, batch))


def delete_in_batches(connection: psycopg.Connection, batch: int) -> list[float]:
    """Delete until nothing is left; returns the seconds of each batch."""
    seconds: list[float] = []
    while True:
        started = time.monotonic()
        deleted = connection.execute(SQL["delete_some"], {"batch": batch}).rowcount
        if not deleted:
            return seconds
        seconds.append(time.monotonic() - started)


if __name__ == "__main__":
    serve(LimitedLoop())
