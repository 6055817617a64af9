"""Gandy beside much that is stored: kept runs, entries of the future, or all that is another owner's."""

from __future__ import annotations

import sys

import psycopg

from benchmarks.gandy_contestant import GandyContestant
from benchmarks.protocol import serve
from benchmarks.statements import load_statements

STATEMENTS = load_statements(__file__)
#: 20,000 jobs: 5,000,000 kept runs; 1,000,000 future entries; 1,000,000 runs and as many entries of another.
ROWS_PER_JOB = {"kept": 250, "future": 50, "another": 50}
FILLS = {"kept": ("kept",), "future": ("future",), "another": ("others_group", "others_runs", "others_queue")}


class GandyBeside(GandyContestant):
    """The application, with rows that a test of one round leaves alone."""

    def __init__(self, what: str) -> None:
        super().__init__()
        self._what = what
        self._rows = 0

    def fill(self, jobs: int) -> None:
        """Store what is to be felt or not, in proportion to the jobs of a round."""
        wanted = jobs * ROWS_PER_JOB[self._what]
        if wanted <= self._rows:
            return
        self.enqueue(1)  # the default group is there from here on
        with psycopg.connect(self._url, autocommit=True) as connection:
            for name in FILLS[self._what]:
                connection.execute(STATEMENTS[name], {"rows": wanted - self._rows})
            connection.execute(STATEMENTS["analyze"])
        self._rows = wanted

    def reset(self) -> None:
        """Forget the last round, and nothing else."""
        with psycopg.connect(self._url, autocommit=True) as connection:
            connection.execute(STATEMENTS["forget_queue"])
            connection.execute(STATEMENTS["forget_runs"])


if __name__ == "__main__":
    serve(GandyBeside(sys.argv[1]))
