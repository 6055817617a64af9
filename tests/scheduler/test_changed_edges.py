"""An end that waits outlives a change of its edge: a deploy, a rollback, an old server that starts again."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

import pytest

from gandy.desk.explain import explain_manifest
from gandy.model.owners import OneOwner
from gandy.model.run import TrainState
from gandy.model.schedule import Dependent, DormantDependent, EdgeKind, Manual
from gandy.store.cleanup import former_edges, orphaned_manifests, prune_batch
from gandy.store.queueing import remove_manifest, trigger
from gandy.store.seeding import add_manifest
from tests.scheduler.family import end, family, inputs, passing, queued
from tests.support.world import OWNER, manifest

if TYPE_CHECKING:
    from gandy.model.manifest import ManifestDeclaration
    from gandy.model.schedule import Schedule
    from tests.support.world import World

OWNERS = OneOwner(OWNER)
DAY = timedelta(days=1)
OWN = {"month": 1}  #: the input of a manifest that declares no other
OF_A = Dependent("a")
#: The schedule of the dependent in the old version, and in the new one, which one success of a makes due.
CHANGES: Final[dict[str, tuple[Schedule, Schedule]]] = {
    "another parent": (Dependent("b"), OF_A),
    "success to end": (OF_A, Dependent("a", on=EdgeKind.END)),
    "failure to success": (Dependent("a", on=EdgeKind.FAILURE), OF_A),
    "end to success": (Dependent("a", on=EdgeKind.END), OF_A),
    "manual to dependent": (Manual(), OF_A),
    "own input to output": (OF_A, Dependent("a", is_output_passed=True)),
    "output to own input": (Dependent("a", is_output_passed=True), OF_A),
    "dormant to dependent": (DormantDependent("a"), OF_A),
}


def version(schedule: Schedule) -> list[ManifestDeclaration]:
    return passing() if _takes_output(schedule) else family(child=schedule)


def _takes_output(schedule: Schedule) -> bool:
    return isinstance(schedule, Dependent) and schedule.is_output_passed


@pytest.mark.parametrize("change", CHANGES)
async def test_an_old_server_that_starts_again_loses_no_end(world: World, change: str) -> None:
    before, after = CHANGES[change]
    old, new = version(before), version(after)
    await world.seed(*old)
    await world.seed(*new)
    await end(world, "a", output="7")
    await world.seed(*old)
    await world.seed(*new)

    assert await inputs(world) == [7 if _takes_output(after) else OWN]
    assert await inputs(world) == []


async def test_one_more_parent_keeps_what_it_has_ended_while_an_old_server_starts(world: World) -> None:
    old, new = family("a"), family("a", "b")
    await world.seed(*old)
    await world.seed(*new)
    await end(world, "b")
    await world.seed(*old)
    await world.seed(*new)
    assert await queued(world) == 0
    await end(world, "a")

    assert await queued(world) == 1
    assert await queued(world) == 0


async def test_an_end_that_was_followed_meanwhile_is_not_followed_again(world: World) -> None:
    old, new = family("a"), family("a", "b")
    await world.seed(*new)
    await end(world, "b")
    await world.seed(*old)
    await end(world, "a")
    assert await queued(world) == 1
    await world.seed(*new)
    await end(world, "a")
    assert await queued(world) == 0, "b has not ended since it was last queued"
    await end(world, "b")

    assert await queued(world) == 1


@pytest.mark.parametrize(
    ("before", "after", "state", "follows"),
    [
        (EdgeKind.SUCCESS, EdgeKind.END, TrainState.COMPLETED, 1),
        (EdgeKind.FAILURE, EdgeKind.END, TrainState.FAILED, 1),
        (EdgeKind.END, EdgeKind.SUCCESS, TrainState.COMPLETED, 1),
        (EdgeKind.END, EdgeKind.FAILURE, TrainState.FAILED, 1),
        (EdgeKind.END, EdgeKind.SUCCESS, TrainState.FAILED, 0),
        (EdgeKind.SUCCESS, EdgeKind.FAILURE, TrainState.COMPLETED, 0),
        (EdgeKind.SUCCESS, EdgeKind.FAILURE, TrainState.FAILED, 1),
    ],
)
async def test_an_end_that_waits_counts_for_the_new_kind_if_it_is_of_that_kind(
    world: World, before: EdgeKind, after: EdgeKind, state: TrainState, follows: int
) -> None:
    await world.seed(*family(child=Dependent("a", on=before)))
    await end(world, "a", state)
    await world.seed(*family(child=Dependent("a", on=after)))

    assert await queued(world) == follows
    assert await queued(world) == 0


async def test_a_success_before_it_takes_the_output_gives_its_output(world: World) -> None:
    await world.seed(*family("a"))
    await end(world, "a", output="1")
    await world.seed(*passing())

    assert await inputs(world) == [1]
    await end(world, "a", output="2")
    assert await inputs(world) == [2]


async def test_a_success_whose_run_was_cleaned_gives_no_output(world: World) -> None:
    await world.seed(*family("a"))
    await end(world, "a", output="1")
    world.rows("DELETE FROM history")
    await world.seed(*passing())
    assert await inputs(world) == []
    await end(world, "a", output="2")

    assert await inputs(world) == [2]


async def test_explain_says_that_the_output_of_a_success_is_gone(world: World) -> None:
    await world.seed(*family("a"))
    await end(world, "a", output="1")
    world.rows("DELETE FROM history")
    await world.seed(*passing())
    await world.cycle()
    gone = await explain_manifest(world.database, "merge", OWNERS)
    await end(world, "a", output="2")
    there = await explain_manifest(world.database, "merge", OWNERS)
    assert await inputs(world) == [2]
    followed = await explain_manifest(world.database, "merge", OWNERS)

    assert gone.holding_back == ("a has succeeded, but that output is gone: it waits for the next success",)
    assert gone.what_to_do == ("gandy manifests trigger a, or merge --input JSON",)
    assert there.holding_back == ()
    assert "a has not succeeded since it was last queued" in followed.holding_back


async def test_a_success_that_was_followed_gives_no_output(world: World) -> None:
    await world.seed(*family("a"))
    await end(world, "a", output="1")
    assert await inputs(world) == [OWN]
    await world.seed(*passing())

    assert await inputs(world) == []


async def test_outputs_are_kept_while_the_old_version_is_declared(world: World) -> None:
    await world.seed(*passing())
    await end(world, "a", output="1")
    await world.seed(manifest("a", schedule=Manual(), train="A"), manifest("merge", train="Merge"))
    await end(world, "a", output="2")
    await world.seed(*passing())

    assert await inputs(world) == [2]


@pytest.mark.parametrize("is_followed", [False, True], ids=["waiting", "followed"])
async def test_an_output_that_was_not_kept_meanwhile_is_the_newest_one(
    world: World, is_followed: bool
) -> None:
    await world.seed(*passing())
    await end(world, "a", output="1")
    if is_followed:
        assert await inputs(world) == [1]
    await world.seed(*family("a"))
    await end(world, "a", output="2")
    await world.seed(*passing())

    assert await inputs(world) == [2]
    assert await inputs(world) == []
    await world.database.run(trigger("merge", owner=OWNER))
    (triggered,) = await world.claim("Merge")
    assert triggered.input_json == "2"


async def test_an_old_output_is_not_taken_where_the_newest_is_gone(world: World) -> None:
    await world.seed(*passing())
    await end(world, "a", output="1")
    await world.seed(*family("a"))
    await end(world, "a", output="2")
    world.rows("DELETE FROM history")
    await world.seed(*passing())
    assert await inputs(world) == []
    await end(world, "a", output="3")

    assert await inputs(world) == [3]


async def test_an_output_that_a_removed_dependent_took_does_not_stay_old(world: World) -> None:
    child = manifest("late", schedule=Dependent("a", is_output_passed=True), train="Late", input_json=None)
    await world.seed(*family("b"))
    await world.database.run(add_manifest(OWNER, child))
    await end(world, "a", output="1")
    await world.database.run(remove_manifest("late", owner=OWNER))
    await end(world, "a", output="2")
    await world.seed(*passing())
    await world.database.run(trigger("merge", owner=OWNER))

    (triggered,) = await world.claim("Merge")
    assert triggered.input_json == "2"


async def test_what_a_former_edge_has_seen_is_kept_for_a_day(world: World) -> None:
    await world.seed(*passing())
    await end(world, "a", output="1")
    await world.seed(*family(child=Manual()))
    assert await prune(world) == {}
    world.clock.advance(DAY + timedelta(seconds=1))

    assert await prune(world) == {"manifest_former_edge": 1, "manifest_output": 1}
    assert world.rows("SELECT * FROM manifest_output") == []
    await world.seed(*passing())
    assert await inputs(world) == [], "a dependency that was dropped a day ago is a new one"


async def prune(world: World) -> dict[str, int]:
    walk = former_edges(world.clock.now - DAY)
    batch = await world.database.run(prune_batch(walk, None, limit=10, patience=timedelta(seconds=1)))
    return {table: count for table, count in batch.counts.items() if count}


async def test_a_former_edge_keeps_no_manifest(world: World) -> None:
    await world.seed(*family("a"))
    await world.seed(manifest("merge", train="Merge"))
    world.clock.advance(2 * DAY)
    walk = orphaned_manifests(world.clock.now, DAY, keep_once_for=30 * DAY)
    await world.database.run(prune_batch(walk, None, limit=10, patience=timedelta(seconds=1)))

    assert world.rows("SELECT external_id FROM manifest") == [{"external_id": "merge"}]
    assert world.rows("SELECT * FROM manifest_former_edge") == []
