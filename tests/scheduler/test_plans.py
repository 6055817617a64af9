"""Every statement of a cycle, of the reaping of a lost worker and of the home page, as they were sent.

Nothing here names a statement: what the driver was given is explained again, beside much that is not due.
"""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from gandy.desk.home import Home
from gandy.model.run import TrainState
from gandy.model.schedule import Dependent, Manual
from gandy.store.drivers.postgres_values import bind
from gandy.store.drivers.sqlite_steps import statement_parts
from gandy.store.drivers.sqlite_values import StatementClock, adapted
from gandy.store.statements import Batch, Statement, columns_of
from tests.store.volumes import explain
from tests.support.history import Past
from tests.support.statements import make_scratch_tables
from tests.support.world import OWNER, WORKER, manifest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gandy.store.statements import Step
    from tests.store.volumes import PlanKind
    from tests.support.world import World

IDLE = 3_000
DUE = 40
GROWING = (
    "manifest",
    "manifest_edge",
    "manifest_former_edge",
    "manifest_output",
    "work_queue",
    "metadata",
    "log",
    "dead_letter",
    "unique_key",
)
#: Their size follows what is under way.
SMALL_INDEXES = re.compile(r"USING (?:COVERING )?INDEX ix_(?:manifest_dependents_due|work_queue_live_\w+)\b")
PLAN_KINDS: tuple[PlanKind, ...] = ("force_generic_plan", "force_custom_plan")


async def live_through(world: World, statements: list[Step]) -> dict[str, Step]:
    """Let everything happen that a cycle can do, and give each different statement once."""
    await crowd(world)
    statements.clear()
    for limit in (DUE // 2, None):
        await world.cycle(max_entries_per_cycle=limit)
    runs = await world.claim()
    statements.clear()
    await look_and_move_on(world)
    await world.finish(*runs[:10])
    await world.finish(*runs[10:20], state=TrainState.FAILED)
    await look_and_move_on(world)
    lose_worker(world)
    for trusts_leases in (False, True):
        await world.cycle(trusts_leases=trusts_leases)
    await look_and_move_on(world)
    home = Home(world.database, OWNER)
    await home.overview()
    await home.throughput()
    await home.glance()
    assert world.rows("SELECT 1 FROM metadata WHERE failure_exception = 'WorkerLost'")
    assert world.rows("SELECT 1 FROM dead_letter")
    return {step.name: step for step in statements if not isinstance(step, Batch) or step.rows}


async def crowd(world: World) -> None:
    """Have much that is not due, a long history, and a few of every kind that come due."""
    idle = [manifest(f"idle-{number}", group=f"g{number % 7}", schedule=Manual()) for number in range(IDLE)]
    due = [manifest(f"due-{number}", group=f"g{number % 7}", max_retries=1) for number in range(DUE)]
    below = [manifest(f"below-{number}", schedule=Dependent("due-0")) for number in range(DUE)]
    await world.seed(*idle, *due, *below)
    world.rows("UPDATE manifest SET next_look_at = ? WHERE schedule_type = 'none'", world.stamp(A_YEAR))
    Past(world).runs(IDLE, name="MakeReport", started=timedelta(hours=1))


A_YEAR = timedelta(days=365)


async def look_and_move_on(world: World) -> None:
    await world.cycle()
    world.advance(minutes=5)
    await world.cycle(max_entries_per_cycle=DUE // 2)
    await world.cycle()


def lose_worker(world: World) -> None:
    """Let a lease end; a run in progress goes with it, one has used up its time, one never began."""
    world.rows("UPDATE worker SET lease_expires_at = ? WHERE id = ?", world.stamp(), WORKER)
    world.advance(seconds=1)


@pytest.mark.parametrize("has_statistics", [False, True])
async def test_no_statement_on_sqlite_walks_a_table_that_grows(
    sqlite_world: World, statements: list[Step], has_statistics: bool
) -> None:
    asked = await live_through(sqlite_world, statements)

    with closing(sqlite3.connect(sqlite_world.url.removeprefix("sqlite:///"))) as connection:
        StatementClock(lambda: sqlite_world.clock.now).register(connection)
        if has_statistics:
            connection.execute("ANALYZE")
        walks = [(name, walk) for name, step in asked.items() for walk in walked(connection, step)]

    assert len(asked) > 30
    assert walks == []


def walked(connection: sqlite3.Connection, step: Step) -> Iterator[str]:
    """Tell which growing tables a statement walks, but by an index that holds only what is under way."""
    (view,) = connection.execute("SELECT sql FROM sqlite_master WHERE name = 'manifest_dispatch'").fetchone()
    make_scratch_tables(connection, statement_parts(step.name))
    for part in statement_parts(step.name):
        text = part.replace("manifest_dispatch", view)
        growing = {name for table in GROWING for name in (table, *aliases(text, table))}
        for row in connection.execute(f"EXPLAIN QUERY PLAN {part}", values_of(step)):
            detail = str(row[-1])
            verb, name = detail.split()[:2]
            if verb == "SCAN" and name in growing and not SMALL_INDEXES.search(detail):
                yield detail


def aliases(text: str, table: str) -> list[str]:
    return re.findall(rf"\b(?:FROM|JOIN|UPDATE) {table} (?:AS )?([a-z]\w*)", text)


def values_of(step: Step) -> dict[str, object]:
    if isinstance(step, Statement):
        return adapted(step.parameters, step.parameters.values())
    names, rows = columns_of(step)
    shared = adapted(step.shared, step.shared.values())
    return {**shared, **adapted(names, next(iter(rows)))}


async def test_no_statement_on_postgresql_walks_a_table_that_grows(
    postgres_world: World, statements: list[Step]
) -> None:
    asked = await live_through(postgres_world, statements)

    with psycopg.connect(postgres_world.url, autocommit=True) as link:
        link.execute(b"ANALYZE")
        link.execute("SELECT set_config('gandy.now', %s, false)", [postgres_world.clock.now.isoformat()])
        walks = [
            (name, kind, *found) for name, step in asked.items() for kind, found in read_whole(link, step)
        ]

    assert len(asked) > 30
    assert walks == []


def read_whole(link: psycopg.Connection[Any], step: Step) -> Iterator[tuple[PlanKind, list[str]]]:
    for kind in PLAN_KINDS:
        plan = explain(link, step.name, kind, **bind(step))
        found = [table for table in plan.whole_tables_read if table.startswith(GROWING)]
        if found:
            yield kind, found
