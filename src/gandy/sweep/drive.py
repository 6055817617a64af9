"""Run a sweep against somebody who performs its requests, at once or on an event loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from gandy.sweep.protocol import Answer, K, Request, SweepResult
    from gandy.sweep.walk import Steps


def drive(steps: Steps[K], perform: Callable[[Request[K]], Answer[K]]) -> SweepResult[K]:
    """Perform every request of the sweep in turn and return its result."""
    try:
        request = next(steps)
        while True:
            request = steps.send(perform(request))
    except StopIteration as end:
        result: SweepResult[K] = end.value
        return result


async def drive_async(
    steps: Steps[K], perform: Callable[[Request[K]], Awaitable[Answer[K]]]
) -> SweepResult[K]:
    """Perform every request of the sweep on the event loop and return its result."""
    try:
        request = next(steps)
        while True:
            request = steps.send(await perform(request))
    except StopIteration as end:
        result: SweepResult[K] = end.value
        return result
