"""The lifecycle's own sweep, with its lease, its cursor and its checks, at a fixed batch size."""

from __future__ import annotations

import itertools
import time
from datetime import timedelta

from benchmarks.lifecycle.events import Events, batch_figures
from benchmarks.protocol import serve
from gandy.lifecycle import Contract, SweepOptions, Table, older_than, run_contracts
from gandy.sweep import Budget, Pace

TABLE = Table("event", [older_than("at", keep_for="1h")])
NEVER_SLOW = timedelta(hours=1)


class Sweep(Events):
    """A contract of one rule."""

    def delete(self, batch: int) -> dict[str, float]:
        """Sweep once; a batch is timed from the commit before it to its own, the longest by the sweep."""
        commits: list[float] = []
        pace = Pace(start=batch, largest=batch, target=NEVER_SLOW)
        contract = Contract("bench", [TABLE], batch=pace, budget=Budget())
        by = SweepOptions(confirm=lambda _held: True, pruned=lambda *_: commits.append(time.monotonic()))
        [report] = run_contracts([contract], self.url, options=by)
        if not report.is_clean:
            raise AssertionError(report.failures)
        figures = batch_figures([later - sooner for sooner, later in itertools.pairwise(commits)])
        longest = max(rule.longest_batch for rule in report.rules)
        return {**figures, "longest batch ms": longest / timedelta(milliseconds=1)}


if __name__ == "__main__":
    serve(Sweep())
