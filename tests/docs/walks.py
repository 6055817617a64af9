"""`python -m tests.docs.walks NUMBER FOLDER` follows a walk of the reading map and prints its calls.

A process of its own, because threads that an earlier test has started cannot be watched.
"""

from __future__ import annotations

import asyncio
import sqlite3
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Final

import httpx

from gandy import Gandy, every
from gandy.lifecycle import Table, older_than

if TYPE_CHECKING:
    from types import FrameType

PACKAGE: Final = Path(__file__).parents[2] / "src" / "gandy"
TOKEN: Final = "a-token-that-is-long-enough-to-be-one"


class Calls:
    """The functions of the package that are called, in all threads that start from now on."""

    def __init__(self) -> None:
        self.made: list[str] = []
        self._folder = f"{PACKAGE}/"

    def watch(self) -> None:
        """Begin."""
        threading.setprofile(self._note)
        sys.setprofile(self._note)

    def _note(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(self._folder):
            self.made.append(f"{code.co_filename.removeprefix(self._folder)} {code.co_qualname}")


def make_app(folder: Path) -> Gandy:
    """Make an application with a schedule, and a table that a contract bounds."""
    app = Gandy("shop", f"sqlite:///{folder / 'shop.db'}", web={"token": TOKEN})
    app.train(name="sell")(sell)
    app.schedule("sell", sell, 1, every(hours=1))
    app.lifecycle("shop", every(hours=1), tables=[Table("event", [older_than("at", keep_for="1d")])])
    connection = sqlite3.connect(folder / "shop.db")
    connection.execute("CREATE TABLE event (id INTEGER PRIMARY KEY, at TEXT)")
    connection.execute("CREATE INDEX event_at ON event (at)")
    connection.execute("INSERT INTO event (at) VALUES ('2020-01-01T00:00:00.000000Z')")
    connection.commit()
    connection.close()
    return app


async def sell(number: int) -> int:
    """Do the work."""
    return number


async def run_job(app: Gandy) -> None:
    """Ask for a job and work it off."""
    job = await app.enqueue(sell, 7)
    stop = asyncio.Event()
    working = asyncio.create_task(app.work(stop))
    await job.result(timeout=30)
    stop.set()
    await working


async def evaluate(app: Gandy) -> None:
    """Run one cycle of the manager."""
    await app.tick("manifest-manager")


async def sweep(app: Gandy) -> None:
    """Keep the contract once."""
    await app.tick("lifecycle")


async def click(app: Gandy) -> None:
    """Trigger a manifest on its page."""
    await app.seed()
    transport = httpx.ASGITransport(app.asgi())
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        answer = await client.post("/manifests/sell/trigger", headers=headers, data={})
        answer.raise_for_status() if answer.is_error else None


WALKS: Final = {1: run_job, 2: evaluate, 3: sweep, 4: click}


async def follow(number: int, folder: Path) -> list[str]:
    """Walk, and return the calls in their order."""
    calls = Calls()
    app = make_app(folder)
    calls.watch()
    async with app:
        await WALKS[number](app)
    sys.setprofile(None)
    threading.setprofile(None)
    return calls.made


if __name__ == "__main__":
    made = asyncio.run(follow(int(sys.argv[1]), Path(sys.argv[2])))
    sys.stdout.write("\n".join(made))
