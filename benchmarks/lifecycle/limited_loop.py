"""The common loop: DELETE ... WHERE id IN (SELECT ... LIMIT n) until nothing is left."""

from __future__ import annotations

import time

from benchmarks.lifecycle.events import SQL, Events, batch_figures
from benchmarks.protocol import serve


class LimitedLoop(Events):
    """Every batch begins at the head of the index."""

    def delete(self, batch: int) -> dict[str, float]:
        """Delete batch by batch."""
        seconds: list[float] = []
        while True:
            started = time.monotonic()
            deleted = self.connection.execute(SQL["delete_some"], {"batch": batch}).rowcount
            if not deleted:
                return batch_figures(seconds)
            seconds.append(time.monotonic() - started)


if __name__ == "__main__":
    serve(LimitedLoop())
