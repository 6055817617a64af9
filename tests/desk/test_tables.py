"""What comes against what goes, for Gandy's own tables and for those of contracts."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from gandy.clock import ManualClock
from gandy.desk.explain import Count
from gandy.desk.growth import Cached
from gandy.desk.lifecycle import LifecycleDesk
from gandy.desk.tables import SIZES_AGE, survey_tables
from gandy.lifecycle import Contract, SweepOptions, Table, audit, expires, older_than, run_contracts
from gandy.lifecycle.advisor.indexes import LARGE
from gandy.model.owners import Operator
from gandy.settings import Settings
from gandy.store.queueing import EnqueueRequest, enqueue
from gandy.store.reading.tables import SAMPLED
from gandy.sweep import Budget
from tests.lifecycle.ground import NOW, Ground, ago
from tests.support.world import OWNER

if TYPE_CHECKING:
    from gandy.desk.tables import OwnTable, TableSizes
    from tests.support.world import World

ADA = Operator("ada", "cli")


async def work_queue(world: World, sizes: Cached[TableSizes] | None = None) -> OwnTable:
    survey = await survey_tables(world.database, OWNER, Settings(), sizes=sizes)
    (table,) = [table for table in survey.tables if table.name == "work_queue"]
    return table


async def queue(world: World, jobs: int) -> None:
    request = EnqueueRequest(owner=OWNER, train="Train", inputs=["{}"] * jobs, input_type_name="dict")
    await world.database.run(enqueue(request))


async def test_what_arrives_in_an_hour_is_counted_where_that_is_little(world: World) -> None:
    assert (await work_queue(world)).arriving_per_hour == 0
    await queue(world, 3)

    assert (await work_queue(world)).arriving_per_hour == 3
    world.clock.advance(timedelta(hours=2))
    assert (await work_queue(world)).arriving_per_hour == 0


async def test_what_arrives_in_an_hour_is_reckoned_from_the_newest_where_that_is_much(world: World) -> None:
    await queue(world, SAMPLED)
    world.clock.advance(timedelta(minutes=6))

    assert (await work_queue(world)).arriving_per_hour == SAMPLED * 10


async def test_a_page_counts_and_measures_twice_a_minute(world: World) -> None:
    now = [0.0]
    sizes: Cached[TableSizes] = Cached(SIZES_AGE, lambda: now[0])
    counts = []
    for seconds in (0.0, 30.0, 31.0):
        now[0] = seconds
        await queue(world, 2)
        table = await work_queue(world, sizes)
        counts.append((table.rows, table.arriving_per_hour))

    assert counts == [(Count(value=2), 2), (Count(value=2), 2), (Count(value=6), 6)]


async def test_a_rule_says_what_arrives_against_what_it_removes(world: World, sqlite_url: str) -> None:
    ground = Ground(sqlite_url)
    ground.run("CREATE TABLE event (id {key}, at {instant})", "CREATE INDEX by_age ON event (at)")
    ground.fill("event", [(n, ago(hours=2)) for n in range(200)])
    rules = [older_than("at", keep_for="1h")]
    contract = Contract("app", [Table("event", rules)], database=sqlite_url, budget=Budget(rows=30))
    desk = LifecycleDesk([contract], world.database, ADA, owner=OWNER)

    run_contracts([contract], options=SweepOptions(clock=ManualClock(NOW)))
    (first,) = await desk.progress()
    assert (first.backlog, first.lag, first.arriving_per_hour) == (170, timedelta(hours=1), None)

    ground.fill("event", [(n, ago(hours=5)) for n in range(1000, 1500)])
    run_contracts([contract], options=SweepOptions(clock=ManualClock(NOW + timedelta(minutes=6))))
    audit([contract], sqlite_url)
    (second,) = await desk.progress()

    assert second.arriving_per_hour == pytest.approx(5_000)
    assert second.removed_per_hour == pytest.approx(300)
    assert second.is_falling_behind
    assert second.table_rows == 640


async def test_a_confirmation_of_one_rule_confirms_no_other(world: World, sqlite_url: str) -> None:
    ground = Ground(sqlite_url)
    ground.run("CREATE TABLE event (id {key}, at {instant}, ends {instant})")
    ground.run("CREATE INDEX by_age ON event (at)", "CREATE INDEX by_end ON event (ends)")
    old, later = ago(days=9), ago(days=-30_000)  # the desk goes by the real clock
    rows = 3 * LARGE + 3
    ground.fill("event", [(n, old, old if n > LARGE else later) for n in range(2 * LARGE + 2)])
    ground.fill("event", [(n, later, old) for n in range(2 * LARGE + 2, rows)])
    table = Table("event", [older_than("at", keep_for="1h"), expires("ends")])
    contract = Contract("app", [table], database=sqlite_url)
    desk = LifecycleDesk([contract], world.database, ADA, owner=OWNER)
    held = [plan.rule for plan in await desk.plan() if plan.needs_confirmation]

    (swept,) = await desk.sweep("app", table="event", rule=held[0], is_confirmed=True)

    assert len(held) == 2
    assert len(swept.held) == 1
    assert held[1] in swept.held[0]
    assert len(ground.ids("event")) == LARGE + 1
