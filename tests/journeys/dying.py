"""A server that kills itself, as `kill -9` would, after the n-th statement of its cycle."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import TYPE_CHECKING

from gandy.store.drivers import postgres, sqlite, sqlite_steps
from tests.support.world import open_world

if TYPE_CHECKING:
    from datetime import datetime
    from multiprocessing.connection import Connection

    from gandy.store.statements import Rows, Step


class Fate:
    """Counts the statements of this process, and ends it after the last one that it may live to see."""

    def __init__(self, last: int) -> None:
        self.last = last
        self.count = 0
        self.is_counting = False

    def statement_done(self) -> None:
        if not self.is_counting:
            return
        self.count += 1
        if self.count == self.last:
            os.kill(os.getpid(), signal.SIGKILL)


def hook(fate: Fate) -> None:
    """Put the fate behind every statement of both drivers."""
    execute_postgres = postgres.PostgresTransaction._execute
    execute_sqlite = sqlite_steps.execute_step

    async def execute(self: postgres.PostgresTransaction, step: Step) -> Rows:
        rows = await execute_postgres(self, step)
        fate.statement_done()
        return rows

    def execute_step(connection: sqlite.Connection, step: Step) -> Rows:
        rows = execute_sqlite(connection, step)
        fate.statement_done()
        return rows

    setattr(postgres.PostgresTransaction, "_execute", execute)  # noqa: B010 a type checker would refuse it
    setattr(sqlite, "execute_step", execute_step)  # noqa: B010 a type checker would refuse it


def live_and_die(url: str, now: datetime, last: int, answer: Connection) -> None:
    """Run one cycle and answer how many statements it took, unless this process is killed before."""
    answer.send(asyncio.run(_live(url, now, last)))


async def _live(url: str, now: datetime, last: int) -> int:
    fate = Fate(last)
    hook(fate)
    world = await open_world(url, now)
    fate.is_counting = True
    await world.cycle(trusts_leases=True)
    fate.is_counting = False
    await world.database.close()
    return fate.count
