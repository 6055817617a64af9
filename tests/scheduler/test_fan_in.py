"""Dependents of several parents, and dependents that take their parent's output."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gandy.errors import DependencyCycleError, ManifestInUseError, OverrideError, TriggerInputMissingError
from gandy.model.manifest import GroupDeclaration
from gandy.model.run import TrainState
from gandy.model.schedule import Dependent, DormantDependent, EdgeKind
from gandy.store.overriding import override_group, override_manifest
from gandy.store.queueing import remove_manifest, trigger, trigger_group
from gandy.store.seeding import add_manifest
from tests.scheduler.family import PARENTS, end, family, inputs, passing, queued
from tests.support.world import OWNER, manifest

if TYPE_CHECKING:
    from tests.support.world import World


async def test_it_is_due_when_each_parent_has_ended_since_it_was_last_queued(world: World) -> None:
    await world.seed(*family())
    for name, follows in (("a", 0), ("a", 0), ("b", 0), ("c", 1), ("c", 0), ("b", 0), ("a", 1)):
        await end(world, name)
        assert await queued(world) == follows, name
    assert await queued(world) == 0
    assert (await world.cycle()).is_idle


async def test_parents_that_end_together_are_one_run(world: World) -> None:
    await world.seed(*family())
    for name in PARENTS:
        await world.database.run(trigger(name, owner=OWNER))
    await world.finish(*await world.claim("A", "B", "C"))

    assert await queued(world) == 1
    assert await queued(world) == 0


async def test_ends_while_it_is_queued_or_runs_are_followed_by_one_more_run(world: World) -> None:
    await world.seed(*family())
    for name in PARENTS:
        await end(world, name)
    await world.cycle()
    for name in PARENTS:
        await end(world, name)
    (running,) = await world.claim("Merge")
    assert (await world.cycle()).queued == 0
    await world.finish(running)

    assert await queued(world) == 1
    assert await queued(world) == 0


@pytest.mark.parametrize("kind", [EdgeKind.FAILURE, EdgeKind.END])
async def test_several_parents_may_be_followed_in_their_failures_and_ends(
    world: World, kind: EdgeKind
) -> None:
    await world.seed(*family(child=Dependent("a", "b", on=kind)))
    await end(world, "a", TrainState.FAILED)
    await end(world, "b")
    assert await queued(world) == int(kind is EdgeKind.END)
    await end(world, "b", TrainState.FAILED)
    await end(world, "a", TrainState.FAILED)

    assert await queued(world) == 1


async def test_a_disabled_parent_defers_it_until_it_is_enabled(world: World) -> None:
    await world.seed(*family())
    for name in PARENTS:
        await end(world, name)
    await world.database.run(override_manifest("b", {"is_enabled": False}, owner=OWNER))
    assert await queued(world) == 0

    await world.database.run(override_manifest("b", {"is_enabled": True}, owner=OWNER))

    assert await queued(world) == 1


@pytest.mark.parametrize("switch", ["manifest", "group"])
async def test_ends_that_came_while_it_was_disabled_are_followed_afterwards(
    world: World, switch: str
) -> None:
    async def turn(is_enabled: bool) -> None:
        changes = {"is_enabled": is_enabled}
        operation = (
            override_manifest("merge", changes, owner=OWNER)
            if switch == "manifest"
            else override_group(OWNER, "below", changes)
        )
        await world.database.run(operation)

    declared = (GroupDeclaration(name="below"),)
    await world.seed(*family(), groups=declared)
    await turn(False)
    for name in PARENTS:
        await end(world, name)
    assert await queued(world) == 0

    await turn(True)

    assert await queued(world) == 1


async def test_a_new_parent_counts_from_its_addition_and_the_others_keep_what_was_seen(world: World) -> None:
    await world.seed(*family("a", "b"))
    for name in ("a", "c"):
        await end(world, name)
    await world.seed(*family("a", "b", "c"))
    await end(world, "b")
    assert await queued(world) == 0, "c has not ended since it was added"

    await end(world, "c")

    assert await queued(world) == 1


async def test_a_parent_that_is_removed_is_waited_for_no_longer(world: World) -> None:
    await world.seed(*family("a", "b", "c"))
    for name in ("a", "c"):
        await end(world, name)

    await world.seed(*family("a", "c"))

    assert await queued(world) == 1
    (edges,) = world.rows("SELECT count(*) AS count FROM manifest_edge")
    assert edges["count"] == 2


async def test_declaring_the_same_again_changes_no_edge(world: World) -> None:
    await world.seed(*family())
    await end(world, "a")
    before = world.rows("SELECT * FROM manifest_edge ORDER BY parent_id")

    assert (await world.seed(*family())).updated == 0
    await world.seed(*family(priority=7))

    assert world.rows("SELECT * FROM manifest_edge ORDER BY parent_id") == before


async def test_an_orphaned_parent_is_waited_for_and_nothing_runs_by_mistake(world: World) -> None:
    *above, child = family()
    await world.seed(*above, child)
    for name in ("a", "c"):
        await end(world, name)

    await world.seed(*(each for each in above if each.external_id != "b"), child)

    assert await queued(world) == 0
    await world.seed(*above, child)
    await end(world, "b")
    assert await queued(world) == 1


async def test_a_parent_of_several_cannot_be_removed_before_its_dependent(world: World) -> None:
    await world.seed(manifest("other"))
    for each in family():
        await world.database.run(add_manifest(OWNER, each))

    with pytest.raises(ManifestInUseError, match="'merge' depends on it"):
        await world.database.run(remove_manifest("b", owner=OWNER))

    for name in ("merge", "b"):
        assert await world.database.run(remove_manifest(name, owner=OWNER))
    assert world.rows("SELECT * FROM manifest_edge") == []


async def test_a_cycle_over_a_second_parent_is_refused_and_listed(world: World) -> None:
    await world.seed(*family("a", "b"))
    await world.database.run(add_manifest(OWNER, manifest("later", schedule=Dependent("c", "merge"))))
    a, _, c, merge = family("a", "b")
    again = manifest("b", schedule=Dependent("a", "later"), train="B")

    with pytest.raises(DependencyCycleError, match="b -> later -> merge -> b"):
        await world.seed(a, again, c, merge)
    await world.database.run(add_manifest(OWNER, manifest("later", schedule=DormantDependent("merge"))))
    with pytest.raises(DependencyCycleError, match="b -> later -> merge -> b"):
        await world.seed(a, again, c, merge)


async def test_the_manager_alone_moves_what_was_seen_and_only_forward(world: World) -> None:
    await world.seed(*family())
    seen: list[list[int]] = []
    for name in (*PARENTS, "a", *PARENTS):
        await end(world, name)
        await queued(world)
        rows = world.rows("SELECT seen FROM manifest_edge ORDER BY parent_id")
        seen.append([row["seen"] for row in rows])

    assert seen == [[0, 0, 0], [0, 0, 0], [1, 1, 1], [1, 1, 1], [1, 1, 1], [1, 1, 1], [3, 2, 2]]


async def test_the_output_of_the_parent_is_the_input(world: World) -> None:
    await world.seed(*passing())
    await end(world, "a", output='{"rows": 7}')

    assert await inputs(world) == [{"rows": 7}]
    assert await inputs(world) == []


async def test_of_several_outputs_the_newest_is_taken_once(world: World) -> None:
    await world.seed(*passing())
    for number in range(3):
        await end(world, "a", output=str(number))

    assert await inputs(world) == [2]
    assert await inputs(world) == []


async def test_cleaning_the_parents_history_takes_no_output(world: World) -> None:
    await world.seed(*passing())
    await end(world, "a", output='"kept"')
    world.rows("DELETE FROM history")

    assert await inputs(world) == ["kept"]


async def test_an_output_while_it_is_queued_is_the_input_of_one_more_run(world: World) -> None:
    await world.seed(*passing())
    await end(world, "a", output="1")
    await world.cycle()
    await end(world, "a", output="2")
    (running,) = await world.claim("Merge")
    assert running.input_json == "1"
    await world.finish(running)

    assert await inputs(world) == [2]


async def test_only_parents_whose_output_is_taken_keep_it(world: World) -> None:
    await world.seed(*passing())
    for name in ("b", "c"):
        await end(world, name)

    assert world.rows("SELECT * FROM manifest_output") == []


async def test_a_trigger_takes_the_newest_output_and_says_if_there_is_none(world: World) -> None:
    await world.seed(*passing())
    with pytest.raises(TriggerInputMissingError, match="pass an input, or trigger 'a'"):
        await world.database.run(trigger("merge", owner=OWNER))
    assert await world.database.run(trigger_group(OWNER, "below")) == ()
    await end(world, "a", output="5")
    assert await inputs(world) == [5]

    await world.database.run(trigger("merge", owner=OWNER))

    assert await inputs(world) == [5]
    await world.database.run(trigger("merge", owner=OWNER, input_json="6"))
    assert await inputs(world) == [6]


async def test_the_input_of_one_that_takes_an_output_is_no_value_to_set(world: World) -> None:
    await world.seed(*passing())

    with pytest.raises(OverrideError, match="the output of its parent is its input"):
        await world.database.run(override_manifest("merge", {"input": 3}, owner=OWNER))


@pytest.mark.pair("rename", "output")
async def test_another_train_of_the_dependent_keeps_the_output_in_the_queue(world: World) -> None:
    await world.seed(*passing())
    await end(world, "a", output="9")
    await world.cycle()
    *above, child = passing()

    await world.seed(*above, manifest("merge", train="Other", schedule=child.schedule, input_json=None))

    (run,) = await world.claim("Other")
    assert run.input_json == "9"
