"""One server of the journeys: evaluates at every instant that it is told, as fast as it can."""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from datetime import datetime
from typing import TYPE_CHECKING

from tests.support.world import open_world

if TYPE_CHECKING:
    from tests.support.world import World


async def serve(url: str) -> None:
    """Read instants, one a line, and answer each with what was done for it."""
    world = await open_world(url)
    print(json.dumps("ready"), flush=True)  # noqa: T201 it talks to the test
    while line := await asyncio.to_thread(sys.stdin.readline):
        world.clock.advance(datetime.fromisoformat(line.strip()) - world.clock.now)
        print(json.dumps(await evaluate(world)), flush=True)  # noqa: T201 it talks to the test
    await world.database.close()


async def evaluate(world: World) -> dict[str, int]:
    """Run cycles, without the lock, until nothing is due any more."""
    done: Counter[str] = Counter()
    while True:
        result = await world.cycle(advisory_lock=False)
        done.update(result.counts)
        done["cycles"] += 1
        if not result.wants_another:
            return dict(done)


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1]))
