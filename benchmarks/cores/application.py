"""The application of case `two-workers`: a train that computes on the event loop."""

from __future__ import annotations

import time

from gandy import Gandy

app = Gandy("cores")


@app.train
async def compute(milliseconds: int) -> None:
    """Use so much CPU time, in pure Python."""
    until = time.thread_time() + milliseconds / 1000
    while time.thread_time() < until:
        pass
