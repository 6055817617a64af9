"""An application with one schedule, whose jobs write down when they were due and when they ran."""

from __future__ import annotations

import os
import time
from pathlib import Path

from gandy import Gandy, Run, every

app = Gandy("punctual")


@app.train
def strike(run: Run) -> None:
    """Append a mark: the instant it is for, the attempt, and now."""
    assert run.due_at is not None  # of a schedule
    with Path(os.environ["WITNESS"]).open("a", encoding="utf-8") as witness:
        witness.write(f"strike {run.due_at.timestamp()} {run.attempt} {time.time()}\n")


app.schedule("clock", strike, every(seconds=1))
