"""A server that cleans up: one cycle on a database, begun when a line comes in on standard input."""

from __future__ import annotations

import asyncio
import json
import sys
from datetime import datetime

from tests.support.history import Past
from tests.support.world import open_world


async def main(url: str, now: str) -> None:
    world = await open_world(url, datetime.fromisoformat(now))
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.readline)
    result = await Past(world).metadata_cleanup(batch_size=50)
    await world.database.close()
    sys.stdout.write(
        json.dumps({"deleted": result.rows.get("metadata", 0), "failed": len(result.failed)}) + "\n"
    )


asyncio.run(main(*sys.argv[1:]))
