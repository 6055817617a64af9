from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from gandy.model.run import Activation, TrainState
from gandy.model.schedule import Dependent, DormantDependent, Manual
from gandy.store.queueing import trigger
from tests.support.world import OWNER, manifest

if TYPE_CHECKING:
    from gandy.model.run import ClaimedRun
    from gandy.model.schedule import Schedule
    from tests.support.world import World


async def seed_pair(world: World, child: Schedule | None = None) -> None:
    await world.seed(
        manifest("parent", schedule=Manual(), train="Parent"),
        manifest("child", schedule=child or Dependent("parent"), train="Child"),
    )


async def run_parent(world: World) -> None:
    await world.database.run(trigger("parent", owner=OWNER))
    await world.finish(*await world.claim("Parent"))


async def claim_child(world: World) -> list[ClaimedRun]:
    return await world.claim("Child")


async def test_a_dependent_follows_its_parents_success(world: World) -> None:
    await seed_pair(world)
    assert (await world.cycle()).queued == 0
    await run_parent(world)

    assert (await world.cycle()).queued == 1

    (entry,) = world.entries("child")
    assert (entry["origin"], entry["rank"] - entry["priority"]) == ("dependent", 16)
    assert (await world.cycle()).is_idle


async def test_a_failure_of_the_parent_starts_nothing(world: World) -> None:
    await seed_pair(world)
    await world.database.run(trigger("parent", owner=OWNER))
    await world.finish(*await world.claim(), state=TrainState.FAILED)

    assert (await world.cycle()).queued == 0


async def test_a_parents_success_while_the_dependent_runs_is_not_lost(world: World) -> None:
    await seed_pair(world)
    await run_parent(world)
    await world.cycle()
    (running,) = await claim_child(world)
    await run_parent(world)
    assert (await world.cycle()).queued == 0, "it runs: the success has to wait"

    await world.finish(running)

    assert (await world.cycle()).queued == 1


async def test_a_success_while_the_dependent_is_queued_is_followed_by_another_run(world: World) -> None:
    await seed_pair(world)
    await run_parent(world)
    await world.cycle()
    await run_parent(world)
    assert (await world.cycle()).queued == 0
    (running,) = await claim_child(world)
    await world.finish(running)

    assert (await world.cycle()).queued == 1


async def test_cleaning_the_parents_history_does_not_silence_its_dependents(world: World) -> None:
    await seed_pair(world)
    await run_parent(world)
    world.rows("DELETE FROM history WHERE name = 'Parent'")
    world.rows("DELETE FROM work_queue WHERE train_name = 'Parent'")

    assert (await world.cycle()).queued == 1


async def test_a_new_dependent_does_not_follow_a_success_from_before_its_time(world: World) -> None:
    await world.seed(manifest("parent", schedule=Manual(), train="Parent"))
    await run_parent(world)

    await seed_pair(world)

    assert (await world.cycle()).queued == 0
    await run_parent(world)
    assert (await world.cycle()).queued == 1


@pytest.mark.pair("disable", "success")
async def test_a_disabled_dependent_follows_when_it_is_enabled_again(world: World) -> None:
    parent = manifest("parent", schedule=Manual(), train="Parent")
    await world.seed(parent, manifest("child", schedule=Dependent("parent"), train="Child", is_enabled=False))
    await run_parent(world)
    assert (await world.cycle()).queued == 0

    await seed_pair(world)

    assert (await world.cycle()).queued == 1


async def test_the_dependents_of_a_disabled_parent_wait_until_it_is_enabled(world: World) -> None:
    await seed_pair(world)
    await world.database.run(trigger("parent", owner=OWNER))
    (run,) = await world.claim()
    child = manifest("child", schedule=Dependent("parent"), train="Child")
    await world.seed(manifest("parent", schedule=Manual(), train="Parent", is_enabled=False), child)
    await world.finish(run)
    assert (await world.cycle()).queued == 0

    await seed_pair(world)

    assert (await world.cycle()).queued == 1


async def test_a_dormant_dependent_runs_only_when_the_parents_run_activates_it(world: World) -> None:
    await seed_pair(world, DormantDependent("parent"))
    await run_parent(world)
    assert (await world.cycle()).queued == 0
    await world.database.run(trigger("parent", owner=OWNER))
    (run,) = await world.claim()
    await world.finish(run, activations=(Activation("child", '{"delta": 7}'),))

    (entry,) = world.entries("child")
    assert entry["origin"] == "dormant"


async def test_a_chain_runs_to_its_end(world: World) -> None:
    names = ["a", "b", "c", "d"]
    await world.seed(
        manifest("a", schedule=Manual(), train="a"),
        *(manifest(name, schedule=Dependent(before), train=name) for before, name in pairwise(names)),
    )
    await world.database.run(trigger("a", owner=OWNER))
    ran = []
    for _ in range(5):
        runs = await world.claim()
        ran += [run.train for run in runs]
        await world.finish(*runs)
        await world.cycle()

    assert ran == names


async def test_a_parent_with_more_dependents_than_a_cycle_takes_serves_them_all(world: World) -> None:
    await world.seed(
        manifest("parent", schedule=Manual(), train="Parent"),
        *(manifest(f"child-{number}", schedule=Dependent("parent"), train="Child") for number in range(25)),
    )
    await run_parent(world)
    queued = []
    for _ in range(3):
        queued.append((await world.cycle(max_entries_per_cycle=10)).queued)
        world.advance(seconds=1)

    assert queued == [10, 10, 5]
