"""The application of case `at-rest`: a train of each kind, and a schedule that is not due for years."""

from __future__ import annotations

from gandy import Gandy, cron

app = Gandy("resting")


@app.train
async def on_the_loop() -> None:
    """Do nothing."""


@app.train
def in_a_thread() -> None:
    """Do nothing."""


app.schedule("yearly", on_the_loop, cron("0 0 29 2 *"))
