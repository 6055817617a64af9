"""Schedules by direct SQL on Gandy's own tables: a statement that queues what is due, one that seeds."""

from __future__ import annotations

from benchmarks.ceilings.gandy_schema import connect, create_schema, default_group
from benchmarks.coming_due import make_due
from benchmarks.protocol import Contestant, serve
from benchmarks.statements import load_statements

SQL = load_statements(__file__)
DECLARED = '{"schedule_type": "interval", "interval_seconds": 3600, "max_retries": 3}'
SEED_CHUNK = 5_000


class Schedules(Contestant):
    """What one statement can do."""

    def setup(self, url: str) -> None:
        """Make Gandy's tables."""
        create_schema(url)

    def open(self, url: str) -> None:
        """One connection."""
        self._connection = connect(url)
        self._group = default_group(self._connection)

    def reset(self) -> None:
        """No manifest, no entry."""
        self._connection.execute("TRUNCATE gandy.manifest, gandy.work_queue CASCADE")

    def seed(self, manifests: int) -> None:
        """Insert manifests by unnest, in one transaction."""
        with self._connection.transaction():
            for start in range(0, manifests, SEED_CHUNK):
                self._seed_chunk(range(start, min(start + SEED_CHUNK, manifests)))

    def make_due(self, manifests: int) -> None:
        """Let some come due."""
        make_due(self._connection, manifests, tick=self.tick)

    def tick(self) -> int:
        """Queue everything that is due; answers how many entries."""
        return self._connection.execute(SQL["tick"]).rowcount

    def _seed_chunk(self, numbers: range) -> None:
        parameters = {
            "group": self._group,
            "ids": [f"sync-{number:07}" for number in numbers],
            "properties": [f'{{"table": "t{number}"}}' for number in numbers],
            "declared": [DECLARED] * len(numbers),
        }
        self._connection.execute(SQL["seed"], parameters)


if __name__ == "__main__":
    serve(Schedules())
