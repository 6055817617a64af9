"""A manifest whose dead letter waits costs nothing, and has its verdicts from who resolves the letter."""

from __future__ import annotations

from datetime import timedelta
from itertools import permutations
from typing import TYPE_CHECKING

import pytest

from gandy.desk.dead_letters import DeadLetterDesk
from gandy.model.owners import Operator
from gandy.model.schedule import Cron, Dependent, Interval, Manual, MisfirePolicy, Once
from gandy.store.overriding import override_manifest
from gandy.store.queueing import trigger
from gandy.store.reading.listings import LetterFilter
from tests.support.world import OWNER, OWNERS, START, manifest

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from datetime import datetime

    from gandy.model.schedule import Schedule
    from tests.support.world import World

ADA = Operator("ada", "cli")
EVERY = timedelta(minutes=5)
RECURRING: list[Schedule] = [Interval(EVERY), Cron("*/5 * * * *")]
WAITING = LetterFilter(status="awaiting_intervention")


def desk(world: World) -> DeadLetterDesk:
    return DeadLetterDesk(world.database, ADA, owners=OWNERS)


async def requeue(world: World) -> None:
    await desk(world).requeue(letters(world))


async def requeue_all(world: World) -> None:
    await desk(world).requeue_all(WAITING)


async def acknowledge(world: World) -> None:
    await desk(world).acknowledge(letters(world), "seen")


async def acknowledge_all(world: World) -> None:
    await desk(world).acknowledge_all(WAITING, "seen")


RESOLUTIONS = [requeue, requeue_all, acknowledge, acknowledge_all]


def letters(world: World) -> list[int]:
    return [row["id"] for row in world.rows("SELECT id FROM dead_letter ORDER BY id")]


async def park(world: World, schedule: Schedule, policy: MisfirePolicy = MisfirePolicy.FIRE_ONCE_NOW) -> None:
    """Let a job fail at noon, and park it at 12:01."""
    await world.seed(manifest(schedule=schedule, misfire_policy=policy, max_retries=1))
    await world.database.run(trigger("report", owner=OWNER))
    assert await world.fail() == 1
    world.advance(minutes=1)
    while (await world.cycle()).wants_another:
        pass
    assert letters(world)


def skipped(world: World) -> list[tuple[str, int]]:
    return [(row["reason"], row["occurrences"]) for row in world.entries() if row["status"] == "skipped"]


@pytest.mark.parametrize("policy", MisfirePolicy)
@pytest.mark.parametrize("schedule", RECURRING, ids=["interval", "cron"])
async def test_no_instant_costs_a_look_or_a_write_while_the_letter_waits(
    world: World, schedule: Schedule, policy: MisfirePolicy
) -> None:
    await park(world, schedule, policy)
    before = world.manifest(), world.entries()

    results = []
    for _ in range(5):
        world.advance(minutes=5)
        results.append(await world.cycle())

    assert [result.looked_at for result in results] == [0] * 5
    assert all(result.is_idle for result in results)
    assert (world.manifest(), world.entries()) == before


@pytest.mark.parametrize("resolve", RESOLUTIONS)
@pytest.mark.parametrize("policy", MisfirePolicy)
async def test_a_resolution_gives_one_row_to_all_that_came_due_and_the_next_instant_runs(
    world: World, resolve: Callable[[World], Awaitable[None]], policy: MisfirePolicy
) -> None:
    await park(world, Cron("*/5 * * * *"), policy)
    world.advance(minutes=51)

    await resolve(world)

    assert skipped(world) == [("dead_letter", 10)]
    assert world.manifest()["failure_count"] == 0
    await world.succeed()
    world.advance(minutes=2)
    assert (await world.cycle()).queued == 0
    world.advance(minutes=1)
    assert (await world.cycle()).queued == 1
    assert world.instant(world.entries()[-1]["due_at"]) == world.clock.now


async def test_an_instant_at_which_the_letter_is_resolved_runs(world: World) -> None:
    await park(world, Cron("*/5 * * * *"))
    world.advance(minutes=4)
    await acknowledge(world)

    assert skipped(world) == []
    assert (await world.cycle()).queued == 1


async def test_what_runs_once_or_follows_another_runs_after_the_resolution(world: World) -> None:
    await world.seed(manifest("parent", schedule=Manual()), manifest("child", schedule=Dependent("parent")))
    await park(world, Once(at=START + timedelta(minutes=30)))
    world.advance(hours=2)
    await world.cycle()
    assert (await world.cycle()).queued == 0

    await acknowledge(world)

    assert (await world.cycle()).queued == 1
    assert skipped(world) == []


async def test_a_letter_of_an_older_version_is_left_alone_after_one_more_look(world: World) -> None:
    await park(world, Interval(EVERY))
    world.rows("UPDATE manifest SET next_look_at = next_scheduled_run RETURNING id")

    looks = []
    for _ in range(3):
        world.advance(minutes=5)
        looks.append((await world.cycle()).looked_at)

    assert looks == [1, 0, 0]


async def test_dependents_that_wait_for_a_person_or_are_off_are_not_looked_at(world: World) -> None:
    below = [manifest(f"below-{number}", schedule=Dependent("parent"), train="Below") for number in range(3)]
    await world.seed(manifest("parent", schedule=Manual(), train="Parent"), *below)
    write_letter(world, "below-0")
    await world.database.run(override_manifest("below-1", {"is_enabled": False}, owner=OWNER))
    await world.cycle()
    await world.database.run(trigger("parent", owner=OWNER))
    await world.finish(*await world.claim("Parent"))

    result = await world.cycle()

    assert (result.looked_at, result.queued) == (1, 1)
    await acknowledge(world)
    await world.database.run(override_manifest("below-1", {"is_enabled": True}, owner=OWNER))
    assert (await world.cycle()).queued == 2, "the success was not lost"


def write_letter(world: World, external_id: str) -> None:
    row = world.manifest(external_id)
    world.rows(
        "INSERT INTO dead_letter (owner, manifest_id, manifest_group_id, train_name, metadata_id, reason, "
        "dead_lettered_at) VALUES (?, ?, ?, 'Below', 1, 'failed', ?) RETURNING id",
        *(OWNER, row["id"], row["manifest_group_id"], world.stamp()),
    )


EVENTS = [
    order
    for order in permutations(["letter", "disable", "enable", "resolve"])
    if order.index("letter") < order.index("resolve") and order.index("disable") < order.index("enable")
]


@pytest.mark.parametrize("order", EVENTS, ids="-".join)
async def test_every_instant_says_truly_what_held_it_back(world: World, order: tuple[str, ...]) -> None:
    """A letter and a switch in every order: the judge is the order of events, instant by instant."""
    await world.seed(manifest(schedule=Cron("*/5 * * * *"), misfire_threshold=timedelta(days=1)))
    world.advance(minutes=2)
    at: dict[str, datetime] = {}
    for event in order:
        await step(world, event)
        at[event] = world.clock.now
        for _ in range(3):
            world.advance(minutes=5)
            await world.cycle()
            await world.succeed()

    for row in world.entries():
        if row["reason"] in SPANS:
            begin, end = (at[event] for event in SPANS[row["reason"]])
            assert begin <= world.instant(row["due_at"])
            assert world.instant(row["due_until"]) < end
    assert covered(world) == held_instants(at)


SPANS = {"dead_letter": ("letter", "resolve"), "disabled": ("disable", "enable")}


def covered(world: World) -> int:
    return sum(row["occurrences"] for row in world.entries() if row["reason"] in SPANS)


def held_instants(at: dict[str, datetime]) -> int:
    """Count the instants within either span."""
    instants = [START + number * EVERY for number in range(20)]
    return sum(any(at[begin] <= each < at[end] for begin, end in SPANS.values()) for each in instants)


async def step(world: World, event: str) -> None:
    match event:
        case "letter":
            write_letter(world, "report")
            world.rows("UPDATE manifest SET next_look_at = ? RETURNING id", world.stamp())
        case "disable" | "enable":
            changes = {"is_enabled": event == "enable"}
            await world.database.run(override_manifest("report", changes, owner=OWNER))
        case _:
            await acknowledge(world)
