"""Gandy's own schedules: declared by schedule_many, seeded and evaluated as its service does, no limit."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import psycopg
from pydantic import BaseModel

from benchmarks.coming_due import WARM_TICKS, make_due
from benchmarks.protocol import Contestant, serve
from benchmarks.statements import load_statements
from gandy import Gandy, every
from gandy.app.process import loop_factory, tune_garbage_collector
from gandy.loops.cycles import Record, run_in_transaction
from gandy.scheduler.cycle import CycleRequest
from gandy.scheduler.manager import ManifestManagerTrain
from gandy.settings import DatabaseSettings, ManifestManagerSettings, RetentionSettings
from gandy.store.drivers.opening import migrate, open_database
from gandy.store.manifests import try_lock_cycle
from gandy.store.seeding import seed

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from gandy.model.manifest import Declarations

SQL = load_statements(__file__)


class SyncInput(BaseModel):
    """A small input."""

    table: str


class GandySchedules(Contestant):
    """An application with one train and as many manifests as it is told to seed."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner(loop_factory=loop_factory())
        self._declared: dict[int, Declarations] = {}

    def setup(self, url: str) -> None:
        """Migrate."""
        migrate(url)

    def open(self, url: str) -> None:
        """Open Gandy's database, and a connection for what is not measured."""
        self._connection = psycopg.connect(url, autocommit=True)
        self._database = open_database(DatabaseSettings(url=url))
        self._run(self._database.open())

    def close(self) -> None:
        """Close it."""
        self._run(self._database.close())

    def reset(self) -> None:
        """No manifest, no entry."""
        self._connection.execute(SQL["reset"])

    def seed(self, manifests: int) -> None:
        """Seed what schedule_many declared; declaring touches no database, and is done once."""
        self._run(self._database.run(seed(self._declarations(manifests))))

    def make_due(self, manifests: int) -> None:
        """Let some come due."""
        make_due(self._connection, manifests, tick=self.tick)

    def fill(self, manifests: int, runs: int) -> None:
        """Have so many idle manifests and finished runs, once."""
        for name in ("reset", "fill_group", "fill", "fill_history"):
            self._connection.execute(SQL[name], {"manifests": manifests, "runs": runs})
        self._connection.execute("VACUUM ANALYZE")
        for _ in range(WARM_TICKS):
            self.tick()

    def make_some_due(self, manifests: int) -> None:
        """Let a few come due among many, statistics left as they are."""
        self._connection.execute(SQL["settle"])
        self._connection.execute(SQL["make_some_due"], [manifests])

    def tick(self) -> int:
        """Run one cycle; answers how many entries it queued."""
        request = CycleRequest(
            settings=ManifestManagerSettings(max_entries_per_cycle=None), retention=RetentionSettings()
        )
        record = Record(owner="bench", keep_for=timedelta(minutes=30))
        result = self._run(
            run_in_transaction(
                self._database, ManifestManagerTrain, request, record=record, lock=try_lock_cycle
            )
        )
        return int(result.queued)

    def _declarations(self, manifests: int) -> Declarations:
        if manifests not in self._declared:
            self._declared = {manifests: declare(manifests)}
            tune_garbage_collector()  # as a server does when it has loaded its application
        return self._declared[manifests]

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:  # noqa: ANN401 whatever it gives
        return self._runner.run(work)


def declare(manifests: int) -> Declarations:
    """Declare manifests by schedule_many, as an application would."""
    app = Gandy("bench")

    @app.train
    async def sync_table(table: SyncInput) -> None:  # noqa: ARG001 it does nothing
        return None

    inputs = {f"{number:07}": SyncInput(table=f"t{number}") for number in range(manifests)}
    app.schedule_many("sync", sync_table, inputs, every(hours=1))
    return app.declarations


if __name__ == "__main__":
    serve(GandySchedules())
