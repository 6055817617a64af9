"""The service lifecycle samples the sizes of tables, and the growth is read from the samples."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from gandy.clock import ManualClock
from gandy.desk.growth import GROWTH_AGE, Cached, TableGrowth, read_growth, slope
from gandy.lifecycle import Contract, Table, expires
from gandy.model.owners import OneOwner
from gandy.store.stats.growth import TableSample, write_samples
from gandy.upkeep.declaration import UPKEEP
from gandy.upkeep.service import LifecycleService
from tests.lifecycle.ground import NOW, Ground, ago
from tests.support.history import Past
from tests.support.world import OWNERS, START

if TYPE_CHECKING:
    from tests.support.world import World

HOUR = timedelta(hours=1)
MONTH = timedelta(days=30)


@pytest.fixture
def service(world: World) -> LifecycleService:
    ground = Ground(world.url)
    ground.run("CREATE TABLE sessions (id {key}, expires_at {instant})")
    ground.run("CREATE INDEX by_expiry ON sessions (expires_at)")
    ground.fill("sessions", [(n, ago(hours=-1)) for n in range(1, 6)])
    contract = Contract("rules", [Table("sessions", [expires("expires_at")])], every=HOUR, database=world.url)
    return LifecycleService(world.context(contracts=(contract,), clock=ManualClock(NOW)))


async def growth(world: World, since: timedelta = MONTH) -> dict[str, TableGrowth]:
    found = await read_growth(world.database, OWNERS, since=since)
    return {f"{each.scheduler}.{each.table}": each for each in found}


async def test_every_table_that_is_bounded_by_rows_is_sampled_once_an_hour(
    world: World, service: LifecycleService
) -> None:
    for _ in range(3):
        await service.tick()
        world.advance(minutes=1)
    world.advance(hours=1)
    await service.tick()

    found = await growth(world, since=timedelta(days=1))

    own = {f"gandy.{upkeep.table}" for upkeep in UPKEEP}
    assert found.keys() - {"rules.sessions"} <= own
    assert {"gandy.metadata", "gandy.run_rollup", "gandy.log"} <= found.keys()
    assert {len(each.samples) for each in found.values()} == {2}
    assert (found["rules.sessions"].rows or 0) >= 0
    assert found["rules.sessions"].bytes is not None


async def test_the_forecast_is_a_straight_line_through_the_last_week(world: World) -> None:
    for hour in range(200):
        sample = TableSample("outbox", 1_000 + 10 * hour, 4_096 * hour, None)
        await world.database.run(write_samples("rules", [sample], owner="shop"))
        world.advance(hours=1)

    found = (await growth(world, since=timedelta(days=7)))["rules.outbox"]

    assert found.rows == 1_000 + 10 * 199
    assert found.rows_per_day == pytest.approx(240)
    assert found.rows_in_30_days == 1_000 + 10 * 199 + 30 * 240
    assert found.bytes_per_day == pytest.approx(24 * 4_096)


async def test_two_samples_make_no_forecast(world: World) -> None:
    for rows in (10, 20):
        await world.database.run(write_samples("rules", [TableSample("outbox", rows, None, 7.0)]))
        world.advance(hours=1)

    found = (await growth(world))["rules.outbox"]

    assert (found.rows_per_day, found.rows_in_30_days, found.bytes) == (None, None, None)
    assert found.lag == timedelta(seconds=7)


async def test_another_application_sees_gandys_tables_and_its_own_alone(world: World) -> None:
    await world.database.run(write_samples("gandy", [TableSample("log", 1, 1, None)]))
    await world.database.run(write_samples("rules", [TableSample("outbox", 1, 1, None)], owner="shop"))

    found = await read_growth(world.database, OneOwner("bakery"))

    assert [each.table for each in found] == ["log"]


async def test_a_page_reads_the_growth_once_a_minute(world: World) -> None:
    now = 0.0
    counts: list[int] = []
    cache: Cached[tuple[TableGrowth, ...]] = Cached(GROWTH_AGE, lambda: now)
    for now in (0.0, 60.0, 61.0):
        await world.database.run(write_samples("rules", [TableSample(f"at-{now}", 1, 1, None)], owner="shop"))
        counts.append(len(await cache.get(lambda: read_growth(world.database, OWNERS))))

    assert counts == [1, 1, 3]


async def test_after_a_month_one_sample_a_day_is_left_and_after_its_retention_none(world: World) -> None:
    past = Past(world)
    for _ in range(48):
        await world.database.run(write_samples("rules", [TableSample("outbox", 1, 1, None)], owner="shop"))
        world.advance(hours=1)
    left = []
    for days in (31, 400):
        world.advance(days=days)
        await past.table_maintenance()
        rows = world.rows("SELECT at FROM table_sample WHERE table_name = 'outbox' ORDER BY at")
        left.append([world.instant(row["at"]) - START for row in rows])

    assert left == [[timedelta(0), timedelta(hours=12), timedelta(hours=36)], []]


def test_without_a_spread_there_is_no_slope() -> None:
    assert slope([(NOW, 1.0), (NOW, 2.0), (NOW, 3.0)]) is None
