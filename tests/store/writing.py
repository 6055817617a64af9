"""What another process does to a database while a test looks on."""

from __future__ import annotations

import asyncio

from gandy.settings import DatabaseSettings
from gandy.store.drivers.opening import open_database
from gandy.store.queueing import EnqueueRequest, enqueue


def write_many(url: str, times: int) -> list[int]:
    """Enqueue one job in each of many transactions, as fast as the others let us."""
    return asyncio.run(_write_many(url, times))


async def _write_many(url: str, times: int) -> list[int]:
    database = open_database(DatabaseSettings(url=url))
    await database.open()
    request = EnqueueRequest(owner="shop", train="Sell", inputs=[None], input_type_name="Item")
    ids = [(await database.run(enqueue(request))).ids[0] for _ in range(times)]
    await database.close()
    return ids
