"""What a cycle sends and reads beside very many parked manifests: the same as beside none."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import psycopg

from gandy.model.schedule import Cron
from gandy.store.drivers.postgres_values import bind
from gandy.store.drivers.sqlite_values import StatementClock
from gandy.store.statements import Batch
from tests.store.volumes import explain
from tests.support.statements import machine_steps
from tests.support.world import manifest

if TYPE_CHECKING:
    from gandy.scheduler.cycle import CycleResult
    from gandy.store.statements import Step
    from tests.support.world import World

PARKED = 10_000
HEALTHY = 50
#: What more levels of indexes cost; a walk over what is parked would be ten thousand rows.
MORE_ROWS = 100
MORE_HUNDREDS = 100
WRITE_LETTERS = (
    "INSERT INTO dead_letter (owner, manifest_id, manifest_group_id, train_name, metadata_id, reason, "
    "dead_lettered_at) SELECT owner, id, manifest_group_id, name, 1, 'failed', created_at FROM manifest "
    "WHERE external_id < 'q'"
)


async def test_ten_thousand_that_wait_for_a_person_cost_a_cycle_nothing(
    world: World, statements: list[Step]
) -> None:
    await world.seed(*(manifest(f"well-{number}", schedule=Cron("0 * * * *")) for number in range(HEALTHY)))
    await world.cycle()
    world.advance(minutes=5)
    before = await recorded_cycle(world, statements)
    beside_none = read(world, statements)
    await park_many(world)
    world.advance(minutes=5)
    assert await recorded_cycle(world, statements) == before
    beside_many = read(world, statements)

    assert beside_many.keys() == beside_none.keys()
    grown = MORE_HUNDREDS if world.url.startswith("sqlite") else MORE_ROWS
    assert {name: rows for name, rows in beside_many.items() if rows > beside_none[name] + grown} == {}
    world.advance(minutes=50)
    assert (await world.cycle()).queued == HEALTHY, "the healthy ones are on time"


async def park_many(world: World) -> None:
    """Write the letters of very many, and let each be looked at once more."""
    await world.seed(
        *(manifest(f"well-{number}", schedule=Cron("0 * * * *")) for number in range(HEALTHY)),
        *(manifest(f"parked-{number}", schedule=Cron("*/5 * * * *")) for number in range(PARKED)),
    )
    world.rows(WRITE_LETTERS)
    world.advance(minutes=5)
    assert (await world.cycle()).looked_at == PARKED
    if not world.url.startswith("sqlite"):
        with psycopg.connect(world.url, autocommit=True) as link:
            link.execute(b"VACUUM ANALYZE")


async def recorded_cycle(world: World, statements: list[Step]) -> dict[str, int]:
    statements.clear()
    result: CycleResult = await world.cycle()
    return result.counts


def read(world: World, statements: list[Step]) -> dict[str, int]:
    """Run what a cycle sent once more, and count what each statement reads."""
    steps = {step.name: step for step in statements if not isinstance(step, Batch) or step.rows}
    if world.url.startswith("sqlite"):
        with closing(sqlite3.connect(world.url.removeprefix("sqlite:///"))) as connection:
            StatementClock(lambda: world.clock.now).register(connection)
            return {name: machine_steps(connection, step) for name, step in steps.items()}
    with psycopg.connect(world.url, autocommit=True) as link:
        link.execute("SELECT set_config('gandy.now', %s, false)", [world.clock.now.isoformat()])
        return {
            name: explain(link, name, "force_generic_plan", **bind(step)).rows_examined
            for name, step in steps.items()
        }
