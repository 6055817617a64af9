"""Jobs of a given length that append their begin and their end, with the instant, to a file."""

from __future__ import annotations

import asyncio
import os
import time

from pydantic import BaseModel

from gandy import Gandy

app = Gandy("paced")
app.group("one", max_active_jobs=1)
app.group("three", max_active_jobs=3)
app.group("small")


class Pace(BaseModel):
    """One job."""

    number: int
    milliseconds: float


def note(word: str, number: int) -> None:
    """Append one line, by one write."""
    line = f"{word} {number} {time.monotonic():.6f} {os.getpid()}\n"
    descriptor = os.open(os.environ["WITNESS"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)


@app.train
async def pace(job: Pace) -> None:
    """Wait on the event loop."""
    note("begin", job.number)
    await asyncio.sleep(job.milliseconds / 1000)
    note("end", job.number)


@app.train
def pace_in_thread(job: Pace) -> None:
    """Wait in a thread."""
    note("begin", job.number)
    time.sleep(job.milliseconds / 1000)
    note("end", job.number)
