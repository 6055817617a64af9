"""Claim, run and finish overlapped: one thread claims ahead, another finishes, each on its own connection."""

from __future__ import annotations

import asyncio
import threading
from queue import Queue
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Job = TypeVar("Job")
AHEAD = 2


async def no_op() -> None:
    """The job."""


def drain(claim: Callable[[], Sequence[Job]], finish: Callable[[Sequence[Job]], int]) -> int:
    """Work until a claim comes back empty; answers how many jobs were recorded as completed."""
    claimed: Queue[Sequence[Job]] = Queue(maxsize=AHEAD)

    def claim_all() -> None:
        while batch := claim():
            claimed.put(batch)
        claimed.put(())

    claimer = threading.Thread(target=claim_all, daemon=True)
    claimer.start()
    done = 0
    with asyncio.Runner() as runner:
        while batch := claimed.get():
            runner.run(_run_all(len(batch)))
            done += finish(batch)
    claimer.join()
    return done


async def _run_all(count: int) -> None:
    for _ in range(count):
        await no_op()
