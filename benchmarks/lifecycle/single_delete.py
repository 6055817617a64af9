"""One DELETE for everything: nothing is faster, and nothing holds its locks longer."""

from __future__ import annotations

import time

from benchmarks.lifecycle.events import SQL, Events, batch_figures
from benchmarks.protocol import serve


class SingleDelete(Events):
    """All old rows in one statement."""

    def delete(self, batch: int) -> dict[str, float]:  # noqa: ARG002 - the others take their batches' size
        """Delete everything at once."""
        started = time.monotonic()
        self.connection.execute(SQL["delete_all"])
        return batch_figures([time.monotonic() - started])


if __name__ == "__main__":
    serve(SingleDelete())
