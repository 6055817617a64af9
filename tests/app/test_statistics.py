"""What an application runs is in its statistics, whoever ran it."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING

from gandy import Gandy
from gandy.desk.stats import StatsDesk
from gandy.model.owners import OneOwner
from gandy.settings import DatabaseSettings
from gandy.store.drivers.opening import open_database

if TYPE_CHECKING:
    from gandy.desk.stats import RunStats

OWNER = OneOwner("shop")
HOUR = timedelta(hours=1)


async def sell(number: int) -> int:
    if number < 0:
        raise ValueError(number)
    return number


def make_app(url: str) -> Gandy:
    app = Gandy("shop", url, worker={"shutdown_grace": timedelta(seconds=1)})
    app.train(max_retries=1)(sell)
    return app


async def statistics(url: str) -> dict[str, RunStats]:
    database = open_database(DatabaseSettings(url=url))
    try:
        await database.open()
        return {each.train: each for each in await StatsDesk(database, OWNER).trains([HOUR])}
    finally:
        await database.close()


async def test_a_worker_writes_its_last_statistics_before_it_stops(migrated_url: str) -> None:
    async with make_app(migrated_url) as app:
        await app.seed()
        for number in (1, 2, -3):
            await app.enqueue(sell, number)
        await app.work(asyncio.Event(), until_idle=True)

    found = (await statistics(migrated_url))["sell"]

    assert (found.completed, found.failed) == (2, 1)


async def test_runs_that_a_caller_starts_are_counted(migrated_url: str) -> None:
    async with make_app(migrated_url) as app:
        await app.run(sell, 1)
        await app.run(sell, 2)

    assert (await statistics(migrated_url))["sell"].runs == 2
