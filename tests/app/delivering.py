"""An application whose runs go to another engine, and a process of that engine that can be killed."""

from __future__ import annotations

import asyncio
import os
import sys
from datetime import timedelta
from pathlib import Path

from gandy import Delivery, Gandy

SCALED: dict[str, dict[str, object]] = {
    "worker": {
        "lease_for": timedelta(seconds=1),
        "heartbeat_every": timedelta(milliseconds=250),
        "shutdown_grace": timedelta(seconds=3),
    },
    "manifest_manager": {"poll_every": timedelta(milliseconds=200)},
    "dispatcher": {"poll_every": timedelta(milliseconds=200)},
}


class Elsewhere:
    """An engine that takes what it is given."""

    def __init__(self) -> None:
        self.delivered: list[Delivery] = []

    async def submit(self, delivery: Delivery) -> None:
        """Take it."""
        self.delivered.append(delivery)


async def hang(name: str) -> str:
    """Say that it has begun, and never end."""
    say_begun(name)
    await asyncio.Event().wait()
    return name


def say_begun(name: str) -> None:
    """Leave a file for who watches."""
    Path(os.environ["BEGUN"], name).touch()


def make_app(url: str, **settings: dict[str, object]) -> Gandy:
    """The application, with leases of a second."""
    app = Gandy("shop", url, **{**SCALED, **settings})
    app.train(hang)
    return app


async def _be_the_other_engine(url: str, run_id: int) -> None:
    async with make_app(url) as app:
        await asyncio.gather(app.run_delivered(run_id), app.run(hang, "started-here"))


if __name__ == "__main__":
    asyncio.run(_be_the_other_engine(sys.argv[1], int(sys.argv[2])))
