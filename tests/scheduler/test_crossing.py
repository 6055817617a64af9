"""What happens between a cycle's look at a manifest and its write."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from gandy.model.schedule import Cron, Interval, Manual, MisfirePolicy, Once
from gandy.rules.deciding import determine
from gandy.rules.dispatching import share
from gandy.scheduler.cycle import write_decisions
from gandy.store.manifests import count_due, load_due
from gandy.store.queueing import trigger
from tests.support.world import OWNER, START, manifest

if TYPE_CHECKING:
    from gandy.model.manifest import ManifestDeclaration
    from gandy.scheduler.cycle import Decided, Written
    from tests.support.world import World

HOUR = timedelta(hours=1)


async def decide(world: World) -> list[Decided]:
    demands = await world.database.run(count_due())
    due = await world.database.run(load_due(demands, share(None, demands)))
    return [(view, determine(view, world.clock.now)) for view in due.views]


async def write(world: World, decided: list[Decided]) -> Written:
    async with world.database.transaction() as transaction:
        return await write_decisions(transaction, decided)


async def test_an_instant_that_crosses_a_trigger_is_settled_as_already_queued(world: World) -> None:
    await world.seed(manifest())
    decided = await decide(world)
    await world.database.run(trigger("report", delay=timedelta(minutes=1), owner=OWNER))

    written = await write(world, decided)

    assert (written.queued, written.skipped) == (set(), 1)
    assert sorted(world.verdicts()) == [("queued", None, 1), ("skipped", "already_queued", 1)]
    assert world.instant(world.manifest()["next_scheduled_run"]) == START + timedelta(minutes=5)


@pytest.mark.parametrize(
    "declared",
    [
        manifest(schedule=Once(at=START)),
        manifest(schedule=Interval(timedelta(minutes=5)), misfire_policy=MisfirePolicy.CATCH_UP),
    ],
    ids=["once", "catch-up"],
)
async def test_what_is_only_deferred_is_not_lost_when_it_crosses_a_trigger(
    world: World, declared: ManifestDeclaration
) -> None:
    await world.seed(declared)
    decided = await decide(world)
    await world.database.run(trigger("report", delay=timedelta(seconds=1), owner=OWNER))

    written = await write(world, decided)

    assert written.queued == set()
    assert world.instant(world.manifest()["next_scheduled_run"]) == START
    world.advance(seconds=1)
    assert await world.succeed() == 1
    assert (await world.cycle()).queued == 1, "the trigger has run: now it is the instant's turn"


async def test_those_that_cross_a_trigger_do_not_hold_up_the_others(world: World) -> None:
    await world.seed(*(manifest(f"m{number:02}") for number in range(40)))
    decided = await decide(world)
    crossed = ["m03", "m04", "m17", "m39"]
    for external_id in crossed:
        await world.database.run(trigger(external_id, delay=timedelta(minutes=1), owner=OWNER))

    written = await write(world, decided)

    assert len(decided) == 40
    assert len(written.queued) == 36
    assert (written.skipped, written.errors) == (4, {})
    assert {world.manifest(external_id)["last_skip_id"] is None for external_id in crossed} == {False}
    assert sorted(world.verdicts("m17")) == [("queued", None, 1), ("skipped", "already_queued", 1)]
    assert world.verdicts("m18") == [("queued", None, 1)]


async def test_a_decision_about_a_manifest_that_moved_on_meanwhile_is_not_written(world: World) -> None:
    await world.seed(manifest())
    decided = await decide(world)
    await world.seed(manifest(schedule=Interval(timedelta(hours=1))))

    written = await write(world, decided)

    assert written.queued == set()
    assert world.entries() == []


async def test_the_same_decision_written_twice_counts_once(world: World) -> None:
    await world.seed(manifest(), manifest("other", schedule=Manual()))
    decided = await decide(world)
    await write(world, decided)

    again = await write(world, decided)

    assert again.queued == set()
    assert len(world.entries()) == 1


@pytest.mark.parametrize("delay", [timedelta(0), HOUR], ids=["at once", "delayed"])
@pytest.mark.parametrize(
    "schedule", [Cron("0 * * * *"), Interval(HOUR), Once(START + HOUR)], ids=["cron", "interval", "once"]
)
async def test_a_trigger_at_the_very_instant_of_an_occurrence_leaves_it_its_place(
    world: World, schedule: Cron | Interval | Once, delay: timedelta
) -> None:
    await world.seed(manifest(schedule=schedule))
    await world.cycle()
    await world.succeed()
    world.clock.advance(HOUR - delay)
    await world.database.run(trigger("report", input_json='{"by":"hand"}', delay=delay, owner=OWNER))
    world.clock.advance(delay)
    await world.succeed()

    assert (await world.cycle()).queued == 1
    await world.succeed()

    runs = world.rows("SELECT due_at, origin FROM history WHERE due_at IS NOT NULL ORDER BY id")
    assert [(world.instant(row["due_at"]) - START - HOUR, row["origin"]) for row in runs[-2:]] == [
        (timedelta(microseconds=1), "trigger"),
        (timedelta(0), "schedule"),
    ]
