"""The application of the zoo: innocent jobs of three kinds, hostile ones of three kinds, hostile hooks."""

from __future__ import annotations

import asyncio
import os
import random
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from gandy import Gandy, Run
from tests.journeys.zoo import deadly, endings
from tests.journeys.zoo.endings import HOOKS, OwnEnd

if TYPE_CHECKING:
    from gandy.train.hooks import HookEvent

MARKS = os.environ.get("WITNESS", os.devnull)
ASYNC = {**endings.ASYNC, **deadly.ASYNC}
SYNC = {**endings.SYNC, **deadly.SYNC}

app = Gandy("zoo")
app.group("zoo-small", max_active_jobs=3)


class Animal(BaseModel):
    """One job."""

    number: int
    ending: str = ""
    seed: int = 0


def mark(animal: Animal, run: Run) -> None:
    """Append one line by one write, whatever else happens to this process."""
    line = f"{animal.number} {run.attempt} {run.fence} {os.getpid()}\n"
    descriptor = os.open(MARKS, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)


INNOCENT: dict[str, Any] = {"retry_delay": timedelta(milliseconds=50), "max_retries": 50}
HOSTILE: dict[str, Any] = {
    "retry_delay": timedelta(milliseconds=50),
    "max_retries": 2,
    "timeout": endings.TIMEOUT,
}


@app.train(**INNOCENT)
async def graze(animal: Animal, run: Run) -> int:
    """Harm nobody, on the event loop."""
    mark(animal, run)
    await asyncio.sleep(animal.seed % 10 / 1000)
    return animal.number


@app.train(**INNOCENT)
def graze_in_thread(animal: Animal, run: Run) -> int:
    """Harm nobody, in a thread."""
    mark(animal, run)
    time.sleep(animal.seed % 10 / 1000)
    return animal.number


@app.train(process=True, **INNOCENT)
def graze_in_process(animal: Animal, run: Run) -> int:
    """Harm nobody, in a process."""
    mark(animal, run)
    return animal.number


@app.train(**HOSTILE)
async def bite(animal: Animal, run: Run) -> Any:  # noqa: ANN401 whatever an ending gives
    """End badly, on the event loop."""
    mark(animal, run)
    return await ASYNC[animal.ending](run, random.Random(animal.seed))  # noqa: S311


@app.train(**HOSTILE)
def bite_in_thread(animal: Animal, run: Run) -> Any:  # noqa: ANN401
    """End badly, in a thread."""
    mark(animal, run)
    return SYNC[animal.ending](run, random.Random(animal.seed))  # noqa: S311


@app.train(process=True, **HOSTILE)
def bite_in_process(animal: Animal, run: Run) -> Any:  # noqa: ANN401
    """End badly, in a process."""
    mark(animal, run)
    return SYNC[animal.ending](run, random.Random(animal.seed))  # noqa: S311


async def be_a_bad_hook(event: HookEvent) -> None:
    """Do what the run asked for."""
    match HOOKS.pop(event.run_id, ""):
        case "raise":
            raise OwnEnd("in a hook")
        case "exit":
            raise SystemExit(5)
        case "group":
            raise BaseExceptionGroup("in a hook", [KeyboardInterrupt()])
        case "hang":
            await asyncio.sleep(3600)
        case "cancel":
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            await asyncio.sleep(0)


app.on("completed")(be_a_bad_hook)
app.on("failed")(be_a_bad_hook)
app.on("dead_lettered")(be_a_bad_hook)
