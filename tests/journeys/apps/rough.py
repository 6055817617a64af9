"""Jobs that hurt the process that they run in, and innocent ones beside them."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from datetime import timedelta
from typing import TYPE_CHECKING

import psycopg
from pydantic import BaseModel

from gandy import Gandy
from tests.journeys.apps.paced import note

if TYPE_CHECKING:
    from gandy.train.hooks import HookEvent

app = Gandy("rough")
SHORT = timedelta(milliseconds=100)
HOOK_SECONDS = float(os.environ.get("ROUGH_HOOK_SECONDS", "0"))
#: Transactions that have written or locked, and wait for their client's next statement.
OPEN_CLAIMS = b"""
SELECT DISTINCT a.pid, a.xact_start FROM pg_stat_activity a JOIN pg_locks l ON l.pid = a.pid
WHERE a.datname = current_database() AND a.state = 'idle in transaction'
  AND l.relation = 'gandy.worker'::regclass AND l.mode <> 'AccessShareLock'
"""
MOST_LOOKS = 400


class Job(BaseModel):
    """One job."""

    number: int
    seconds: float = 0.0


@app.train(retry_delay=SHORT)
async def rest(job: Job) -> None:
    """Harm nobody."""
    note("begin", job.number)
    await asyncio.sleep(job.seconds)
    note("end", job.number)


@app.train(retry_delay=SHORT)
async def block_the_loop(job: Job) -> None:
    """Hold up the event loop, on PostgreSQL at an instant when a claim is open."""
    note("begin", job.number)
    url = os.environ["GANDY_DATABASE_URL"]
    if not url.startswith("sqlite"):
        with psycopg.connect(url, autocommit=True) as connection:
            for _ in range(MOST_LOOKS):
                if _waits_for_this_loop(connection):
                    note("caught", job.number)
                    break
                await asyncio.sleep(0)
    time.sleep(job.seconds)  # noqa: ASYNC251 on purpose
    note("end", job.number)


def _waits_for_this_loop(connection: psycopg.Connection) -> bool:
    """Whether a claim is open that goes on only when this loop does: it is still there after a while."""
    found = connection.execute(OPEN_CLAIMS).fetchall()
    if not found:
        return False
    time.sleep(0.05)
    return bool(set(found) & set(connection.execute(OPEN_CLAIMS).fetchall()))


@app.train
async def take_the_signals(job: Job) -> None:
    """Replace the handlers of the signals that stop the process, one way or another."""
    note("begin", job.number)
    for each in (signal.SIGTERM, signal.SIGINT):
        if job.number % 3 == 0:
            signal.signal(each, signal.SIG_IGN)
        elif job.number % 3 == 1:
            signal.signal(each, lambda *_: None)
    if job.number % 3 == 2:
        signal.set_wakeup_fd(-1)
    note("end", job.number)


@app.train(retry_delay=SHORT, max_retries=1)
async def end_unstorably(job: Job) -> None:
    """Fail with a text that neither database can hold, together with the innocent ones beside it."""
    note("begin", job.number)
    await asyncio.sleep(job.seconds)
    note("end", job.number)
    raise ValueError(("caf\udce9", "nul \x00", "long " * 1_000_000)[job.number % 3])


async def take_its_time(_: HookEvent) -> None:
    """Be slow, where the test asks for it."""
    await asyncio.sleep(HOOK_SECONDS)


if HOOK_SECONDS:
    app.on("completed")(take_its_time)
