"""Parents whose runs activate dormant dependents, which leave their own marks in a file."""

from __future__ import annotations

import asyncio
import os
from datetime import timedelta
from pathlib import Path

from gandy import Gandy, Run, every

PARENTS = 6
SEEDS = 8

app = Gandy("journey")


def _note(*words: object) -> None:
    with Path(os.environ["WITNESS"]).open("a", encoding="ascii") as witness:
        witness.write(" ".join(map(str, words)) + "\n")


@app.train(retry_delay=timedelta(milliseconds=100))
async def sow(number: int, run: Run) -> None:
    """Activate the dependent several times, each time with an input that no other run uses."""
    for seed in range(SEEDS):
        run.activate(f"child-{number}", f"{run.id}.{seed}")
    await asyncio.sleep(0.01)


@app.train(retry_delay=timedelta(milliseconds=100))
async def grow(seed: str, run: Run) -> None:
    """Say when it begins and ends: two of one dependent must never overlap."""
    _note("begin", run.manifest, seed, os.getpid())
    await asyncio.sleep(0.005)
    _note("end", run.manifest, seed, os.getpid())


for _number in range(PARENTS):
    _parent = app.schedule(f"parent-{_number}", sow, _number, every(seconds=1))
    _parent.then(f"child-{_number}", grow, "unused", dormant=True)
