"""The same sweep where every old row has one instant, with an index on it alone or with the key behind it."""

from __future__ import annotations

import sys

from benchmarks.lifecycle.events import SQL
from benchmarks.lifecycle.sweep import Sweep
from benchmarks.protocol import serve


class Ties(Sweep):
    """A table whose old half is one instant."""

    filling = "fill_tied"

    def __init__(self, index: str) -> None:
        self._index = index

    def setup(self, url: str) -> None:
        """Make the table with the index that is asked for."""
        with self.connected(url) as connection:
            connection.execute(SQL["create"])
            connection.execute(SQL[self._index])


if __name__ == "__main__":
    serve(Ties(sys.argv[1]))
