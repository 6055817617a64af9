"""Statistics agree with the runs of history, however they came into the rollups."""

from __future__ import annotations

import math
from collections import Counter
from datetime import datetime, timedelta
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from gandy.desk.home import Home
from gandy.desk.stats import USUAL_WINDOWS, RunStats, StatsDesk
from gandy.model.owners import OneOwner
from gandy.model.run import TrainState
from gandy.store.cancelling import cancel_jobs
from gandy.store.queueing import EnqueueRequest, enqueue
from gandy.work.tally import RunTally
from tests.support.history import Past
from tests.support.world import OWNER, OWNERS, SPANS, manifest

if TYPE_CHECKING:
    from tests.support.world import World

LARGEST_ERROR = 0.045
ENDS = (TrainState.COMPLETED, TrainState.COMPLETED, TrainState.FAILED, TrainState.CANCELLED)
MOMENT = 0.001


class Shop:
    """Two workers that run jobs at random, and write what they counted at random."""

    def __init__(self, world: World, seed: int) -> None:
        self.world = world
        self.random = Random(seed)  # noqa: S311 - not for secrets
        self.workers = {"worker-a": RunTally(OWNER), "worker-b": RunTally(OWNER)}

    async def work(self, minutes: int) -> None:
        for _ in range(minutes):
            await self.enqueue()
            self.world.advance(seconds=self.random.uniform(0.0, 20.0))
            runs = await self.world.claim()
            for run in runs:
                self.world.advance(seconds=self.random.expovariate(1 / 4))
                done = await self.world.finish(run, state=self.random.choice(ENDS))
                self.random.choice([*self.workers.values()]).count(done.measures)
            if self.random.random() < 0.5:
                await self.write()

    async def enqueue(self) -> None:
        for train in self.random.choices(["Sell", "Mail"], k=self.random.randrange(4)):
            wanted = EnqueueRequest(
                owner=OWNER, train=train, inputs=["1"], input_type_name="Item", is_retried=False
            )
            await self.world.database.run(enqueue(wanted))

    async def write(self) -> None:
        for worker_id, tally in self.workers.items():
            await self.world.database.run(tally.written(worker_id, tally.take()))


def exact(values: list[float], share: float) -> float:
    """The percentile by nearest rank."""
    return sorted(values)[math.ceil(share * len(values)) - 1]


def history(world: World, train: str, since: datetime) -> list[dict[str, Any]]:
    rows = world.rows(
        "SELECT h.*, coalesce(h.scheduled_at, h.due_at) AS wanted_at FROM history h WHERE h.name = ?", train
    )
    return [row for row in rows if world.instant(row["end_time"]) >= since]


def compare(world: World, found: RunStats) -> None:
    rows = history(world, found.train, found.since)
    states = Counter(row["train_state"] for row in rows)
    assert (found.runs, found.completed, found.failed, found.cancelled) == (
        len(rows),
        states["completed"],
        states["failed"],
        states["cancelled"],
    )
    assert sum(slot.failed for slot in found.slots) == found.failed
    counted = [row for row in rows if row["train_state"] != "cancelled"]
    assert found.failure_rate == pytest.approx(states["failed"] / len(counted))
    for word, begin, end in (("wait", "wanted_at", "start_time"), ("duration", "start_time", "end_time")):
        values = [(world.instant(row[end]) - world.instant(row[begin])).total_seconds() for row in counted]
        for share in (50, 95, 99):
            true = exact(values, share / 100)
            said = getattr(found, f"{word}_p{share}").total_seconds()
            assert abs(said - true) <= LARGEST_ERROR * true + MOMENT


@pytest.mark.parametrize("seed", [1, 2])
async def test_statistics_agree_with_history_merged_or_not(world: World, seed: int) -> None:
    shop, past = Shop(world, seed), Past(world)

    for _ in range(4):
        await shop.work(minutes=12)
        await past.table_maintenance()
        world.advance(minutes=shop.random.randrange(40))
    await shop.work(minutes=8)
    await shop.write()
    found = await StatsDesk(world.database, OWNERS).trains(USUAL_WINDOWS)

    assert {(each.train, each.window) for each in found} == {
        (train, window) for train in ("Mail", "Sell") for window in USUAL_WINDOWS
    }
    for each in found:
        compare(world, each)
    assert world.rows("SELECT count(*) AS rows FROM run_rollup")[0]["rows"] > 0


async def test_merging_twice_counts_nothing_twice(world: World) -> None:
    shop, past = Shop(world, 3), Past(world)
    await shop.work(minutes=10)
    await shop.write()
    world.advance(minutes=5)

    await past.table_maintenance()
    await past.table_maintenance()
    [found, *_] = await StatsDesk(world.database, OWNERS).trains([timedelta(days=1)], train="Sell")

    assert world.rows("SELECT * FROM run_tally") == []
    compare(world, found)


async def test_what_a_worker_writes_late_is_merged_too(world: World) -> None:
    shop, past = Shop(world, 4), Past(world)
    await shop.work(minutes=5)
    await shop.write()
    await shop.work(minutes=5)
    world.advance(minutes=5)
    await past.table_maintenance()

    await shop.write()
    await past.table_maintenance()

    for found in await StatsDesk(world.database, OWNERS).trains([timedelta(days=1)]):
        compare(world, found)


async def test_manifests_have_statistics_of_their_own(world: World) -> None:
    await world.seed(manifest("report"), manifest("digest"))
    tally = RunTally(OWNER)
    for _ in range(3):
        await world.cycle()
        world.advance(seconds=2)
        for run in await world.claim():
            world.advance(seconds=1)
            is_late = run.manifest == "digest"
            done = await world.finish(run, state=TrainState.FAILED if is_late else TrainState.COMPLETED)
            tally.count(done.measures)
        world.advance(minutes=5)
    await world.database.run(tally.written("worker-a", tally.take()))

    found = await StatsDesk(world.database, OWNERS).manifests(timedelta(hours=1), sort="failure_rate")

    assert [(each.manifest, each.failure_rate) for each in found] == [("digest", 1.0), ("report", 0.0)]
    assert sum(each.runs for each in found) == len(history(world, "MakeReport", found[0].since))


async def test_a_run_that_an_operator_cancels_before_it_begins_counts(world: World) -> None:
    wanted = EnqueueRequest(owner=OWNER, train="Sell", inputs=["1"], input_type_name="Item")
    await world.database.run(enqueue(wanted))
    [run] = await world.claim(worker_id=None)

    await world.database.run(cancel_jobs([run.id], SPANS, owners=OWNERS))
    [found] = await StatsDesk(world.database, OWNERS).trains([timedelta(hours=1)])

    assert (found.runs, found.cancelled, found.failure_rate, found.wait_p50) == (1, 1, None, None)


async def test_another_application_has_its_own_statistics(world: World) -> None:
    shop = Shop(world, 5)
    await shop.work(minutes=3)
    await shop.write()

    assert await StatsDesk(world.database, OneOwner("bakery")).trains() == ()


async def test_the_chart_of_the_home_page_counts_every_run_of_the_hour(world: World) -> None:
    shop, past = Shop(world, 6), Past(world)
    await shop.work(minutes=15)
    await shop.write()
    await past.table_maintenance()

    minutes = (await Home(world.database, OWNER).throughput()).minutes

    rows = world.rows("SELECT train_state FROM history WHERE name IN ('Sell', 'Mail')")
    states = Counter(row["train_state"] for row in rows)
    assert len(minutes) == 60
    assert sum(each.completed for each in minutes) == states["completed"]
    assert sum(each.failed for each in minutes) == states["failed"]
    assert sum(each.cancelled for each in minutes) == states["cancelled"]


async def test_figures_go_by_their_age_the_finest_first(world: World) -> None:
    shop, past = Shop(world, 7), Past(world)
    await shop.work(minutes=5)
    await shop.write()
    kept = []
    for days in (0, 1, 3, 90):
        world.advance(days=days, hours=4)
        for _ in range(2):  # what the first pass merges late, the second one finds old
            await past.table_maintenance()
        kept.append({row["grain"] for row in world.rows("SELECT DISTINCT grain FROM run_rollup")})

    assert kept == [{"hour", "day"}, {"hour", "day"}, {"day"}, set()]
