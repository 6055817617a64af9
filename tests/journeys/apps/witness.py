"""Jobs that witness their own execution: each appends to a file when it begins and when it ends.

The settings come from the environment, scaled down so that a journey takes seconds.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import time
from datetime import timedelta
from pathlib import Path
from typing import TextIO

from pydantic import BaseModel

from gandy import Gandy, Run

app = Gandy("journey")
app.group("three", max_active_jobs=3)


class Job(BaseModel):
    """One job of a journey."""

    number: int
    milliseconds: float = 3.0


def _note(word: str, job: Job, run: Run) -> None:
    line = f"{word} {job.number} {run.attempt} {run.fence} {os.getpid()}\n"
    with Path(os.environ["WITNESS"]).open("a", encoding="ascii") as witness:
        witness.write(line)


@app.train(retry_delay=timedelta(milliseconds=100))
async def tick_off(job: Job, run: Run) -> int:
    """Take a few milliseconds."""
    _note("begin", job, run)
    await asyncio.sleep(job.milliseconds / 1000)
    _note("end", job, run)
    return job.number


@app.train
async def spread(job: Job) -> None:
    """Queue so many jobs, after all other workers had time to find nothing."""
    await asyncio.sleep(job.milliseconds / 1000)
    await app.enqueue_many(tick_off, [Job(number=number, milliseconds=20) for number in range(job.number)])


@app.train(max_retries=1)
async def fail_for_good(job: Job) -> None:
    """Become a dead letter."""
    raise ValueError(job.number)


@app.train(group="three", retry_delay=timedelta(milliseconds=100))
async def share_three_places(job: Job, run: Run) -> int:
    """Take one of three places, or shout: the places are file locks, so the jobs witness a fourth."""
    places = [_place(number) for number in range(3)]
    try:
        if not any(_taken(place.fileno()) for place in places):
            _note("fourth", job, run)
        await asyncio.sleep(job.milliseconds / 1000)
        _note("end", job, run)
    finally:
        for place in places:
            place.close()
    return job.number


@app.train(retry_delay=timedelta(milliseconds=100))
def hog(job: Job, run: Run) -> int:
    """Keep the interpreter busy in pure Python, in a thread, without ever waiting."""
    _note("begin", job, run)
    until = time.monotonic() + job.milliseconds / 1000
    count = 0
    while time.monotonic() < until:
        count += 1
    _note("end", job, run)
    return count


@app.train(retry=False)
async def block_the_loop(job: Job) -> None:
    """Hold up every other job of the process."""
    time.sleep(job.milliseconds / 1000)  # noqa: ASYNC251 on purpose


@app.train(retry=False)
async def end_unstorably(job: Job) -> None:
    """Fail with a text that no database can hold."""
    raise ValueError(("caf\udce9", "nul \x00 inside", "long " * 1_000_000)[job.number % 3])


def _place(number: int) -> TextIO:
    return Path(f"{os.environ['WITNESS']}.place{number}").open("w", encoding="ascii")


def _taken(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
