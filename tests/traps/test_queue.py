"""What bit other queues: one bad entry, or one that cannot run, must not cost the others anything."""

from __future__ import annotations

import asyncio
import sys
from datetime import timedelta
from typing import TYPE_CHECKING

from gandy import Gandy, every
from gandy.model.manifest import GroupDeclaration
from gandy.store.dispatching import dispatch
from gandy.store.queueing import hold_unknown, trigger
from tests.store.work import TRAINS, add_entry, ask, gates, queue
from tests.support.world import OWNER, START, manifest

if TYPE_CHECKING:
    from tests.support.world import World

SIDE_EFFECT = "antigravity"  # a module of the standard library that nobody imports without meaning to


async def test_one_unique_violation_spoils_one_manifest_and_not_the_cycle(world: World) -> None:
    await world.seed(*(manifest(f"m-{number}") for number in range(9)), manifest("taken"))
    other = add_entry(world, "taken", origin="schedule")
    world.rows("UPDATE work_queue SET status = 'skipped', reason = 'error' WHERE id = ?", other)
    (taken,) = world.entries("taken")
    assert world.instant(taken["due_at"]) == START, "the occurrence that the cycle decides is there already"

    result = await world.cycle()

    assert result.queued == 9
    assert [len(world.entries(f"m-{number}")) for number in range(9)] == [1] * 9
    assert (await world.cycle()).is_idle, "and the one that met another row has moved on"


async def test_a_poison_input_fails_its_own_run_and_frees_its_manifest(
    migrated_url: str, world: World
) -> None:
    seen: list[int] = []
    app = Gandy(OWNER, migrated_url)
    app.use_clock(world.clock)

    @app.train(retry=False)
    async def count(number: int) -> None:
        seen.append(number)

    app.schedule("count", count, 1, every(minutes=5))
    async with app:
        await app.tick("manifest-manager")
        world.rows("UPDATE work_queue SET input = ?", '{"not": "a number"}')
        await app.enqueue(count, 7)
        await app.work(asyncio.Event(), until_idle=True)
        failed = world.rows(
            "SELECT name, failure_junction, failure_exception, failure_reason FROM metadata "
            "WHERE train_state = 'failed'"
        )
        assert [(row["failure_junction"], row["failure_exception"]) for row in failed] == [
            (None, "gandy.errors.train.PayloadError")
        ]
        assert "count" in failed[0]["failure_reason"], "it says whose input does not fit"
        assert seen == [7], "the others went on"

        world.advance(minutes=5)
        await app.tick("manifest-manager")
        await app.work(asyncio.Event(), until_idle=True)

    assert seen == [7, 1]


async def test_a_name_in_the_database_is_looked_up_and_never_imported(
    migrated_url: str, world: World
) -> None:
    assert SIDE_EFFECT not in sys.modules
    app = Gandy(OWNER, migrated_url)

    @app.train
    async def greet(name: str) -> str:
        return f"hello {name}"

    async with app:
        job = await app.enqueue(greet, "world")
        await app.enqueue(greet, "nobody")
        named = f"{SIDE_EFFECT}.{SIDE_EFFECT}"
        world.rows("UPDATE work_queue SET input_type_name = ?", named)
        world.rows(
            "UPDATE work_queue SET train_name = ? WHERE id <> ?", f"{SIDE_EFFECT}:{SIDE_EFFECT}", job.id
        )
        await app.work(asyncio.Event(), until_idle=True)
        await app.tick("dispatcher")

        assert await job.result(timeout=10) == "hello world"
    assert SIDE_EFFECT not in sys.modules
    assert len(world.rows("SELECT id FROM work_queue WHERE status = 'queued'")) == 1, (
        "it waits for who knows it"
    )


async def test_entries_that_the_claim_would_refuse_use_up_no_capacity(world: World) -> None:
    busy, paused = manifest("busy", priority=31), manifest("paused", priority=31)
    await world.seed(busy, paused, groups=(GroupDeclaration(name="default", max_active_jobs=2),))
    await world.cycle()
    await world.claim(limit=1)
    active = "busy" if world.manifest("busy")["active_run_id"] else "paused"
    await world.database.run(trigger(active, owner=OWNER))
    idle = "paused" if active == "busy" else "busy"
    await world.seed(*(manifest(name, priority=31, is_enabled=name != idle) for name in ("busy", "paused")))
    await queue(world, *[None] * 5, train="Elsewhere", priority=31)
    await queue(world, *[None] * 5, priority=31, delay=timedelta(hours=1))
    await world.database.run(hold_unknown(OWNER, TRAINS))
    plain = await queue(world, priority=0)

    claimed = await world.database.run(dispatch(ask(limit=1)))

    assert claimed.ids == plain.ids
    assert set(gates(world)) == {"manifest", "train", "time"}
