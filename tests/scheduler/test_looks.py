"""The limit of a cycle counts what it queues; how many manifests it looks at is bounded by time alone."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

import pytest

from gandy.model.schedule import Cron, Dependent, Manual
from gandy.store.overriding import override_manifest
from gandy.store.queueing import trigger
from tests.support.world import OWNER, manifest

if TYPE_CHECKING:
    from collections.abc import Callable

    from gandy.scheduler.cycle import CycleResult
    from tests.support.world import World

HELD = 1_500
HEALTHY = 50
AT_ONE = Cron("0 13 * * *")


async def seed_held(world: World, *, group: str = "held") -> None:
    """Let very many that run already come due with a few that do not."""
    held = [manifest(f"held-{number:04}", group=group, schedule=AT_ONE) for number in range(HELD)]
    healthy = [manifest(f"well-{number:04}", group="well", schedule=AT_ONE) for number in range(HEALTHY)]
    await world.seed(*held, *healthy)
    world.rows("UPDATE manifest SET active_run_id = id WHERE external_id < 'i' RETURNING id")
    world.advance(hours=1)


def statuses(world: World) -> dict[tuple[str, str], int]:
    rows = world.rows(
        "SELECT g.name, q.status, count(*) AS n FROM work_queue q "
        "JOIN manifest_group g ON g.id = q.manifest_group_id GROUP BY g.name, q.status"
    )
    return {(row["name"], row["status"]): row["n"] for row in rows}


async def cycles(world: World, limit: int) -> list[CycleResult]:
    """Run cycles as the service does, each at once after the one before."""
    results = [await world.cycle(max_entries_per_cycle=limit)]
    while results[-1].wants_another:
        results.append(await world.cycle(max_entries_per_cycle=limit))
    return results


@pytest.mark.parametrize("group", ["held", "well"])
async def test_what_is_only_settled_takes_no_place_of_what_is_queued(world: World, group: str) -> None:
    await seed_held(world, group=group)

    result = await world.cycle(max_entries_per_cycle=HEALTHY)

    assert result.queued == HEALTHY
    assert statuses(world)["well", "queued"] == HEALTHY


async def test_every_look_is_made_where_there_is_time(world: World) -> None:
    await seed_held(world)

    result = await world.cycle(max_entries_per_cycle=HEALTHY + 1)

    assert (result.looked_at, result.skipped, result.left_over) == (HELD + HEALTHY, HELD, 0)
    assert not result.wants_another


async def test_looks_end_with_their_time_and_go_on_in_the_next_cycle(world: World) -> None:
    await seed_held(world, group="well")
    world.monotonic = ticking(0.4)

    results = await cycles(world, 20)

    assert 1 < len(results) < HELD / 20, "no cycle for every twenty looks, and not all in one"
    assert all(result.looked_at < HELD for result in results)
    assert statuses(world) == {("well", "queued"): HEALTHY, ("well", "skipped"): HELD}


async def test_the_second_looks_are_at_those_that_no_guard_holds_back(world: World) -> None:
    await seed_held(world, group="well")
    world.monotonic = ticking(0.6)

    first = await world.cycle(max_entries_per_cycle=HEALTHY)

    assert (first.queued, first.looked_at) == (HEALTHY, HEALTHY + 2 * HEALTHY)
    assert first.wants_another


async def test_a_cycle_without_time_serves_every_group_all_the_same(world: World) -> None:
    await seed_held(world)
    world.monotonic = ticking(60.0)

    first = await world.cycle(max_entries_per_cycle=2 * HEALTHY)

    assert first.queued == HEALTHY
    assert first.looked_at == 2 * HEALTHY
    assert first.wants_another


def ticking(seconds: float) -> Callable[[], float]:
    """A clock that has moved on whenever it is asked."""
    return count(0.0, seconds).__next__


@pytest.mark.parametrize("limit", [100, 400])
async def test_a_fan_out_takes_as_many_cycles_as_its_entries_need(world: World, limit: int) -> None:
    below = [manifest(f"below-{number:04}", schedule=Dependent("parent")) for number in range(1_200)]
    await world.seed(manifest("parent", schedule=Manual(), train="Parent"), *below)
    for number in range(0, 1_200, 60):
        off = override_manifest(f"below-{number:04}", {"is_enabled": False}, owner=OWNER)
        await world.database.run(off)
    await world.database.run(trigger("parent", owner=OWNER))
    await world.finish(*await world.claim("Parent"))

    results = await cycles(world, limit)

    assert [result.queued for result in results] == [limit] * (1_180 // limit) + [1_180 % limit]
    assert sum(result.looked_at for result in results) == 1_180
