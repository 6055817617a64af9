"""The input of a last attempt is never lost, whatever happens to its manifest before a cycle looks at it."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from gandy.model.owners import Operator
from gandy.model.run import TrainState
from gandy.model.schedule import Interval, Manual
from gandy.store.letters import requeue_letters
from gandy.store.overriding import override_manifest
from gandy.store.queueing import trigger
from tests.support.world import OWNER, OWNERS, manifest

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.support.world import World


async def trigger_with(world: World, number: int) -> None:
    await world.database.run(trigger("report", input_json=json.dumps({"n": number}), owner=OWNER))


async def fail_with(world: World, number: int) -> None:
    """Trigger the manifest with an input, and let that run fail."""
    await trigger_with(world, number)
    await world.finish(*(await world.claim()), state=TrainState.FAILED)


def letters(world: World) -> list[Any]:
    return [read(row["input"]) for row in world.rows("SELECT input FROM dead_letter ORDER BY id")]


def read(text: Any) -> Any:  # noqa: ANN401 JSON
    return json.loads(text)["n"] if isinstance(text, str) else text["n"]


async def succeed_beside(world: World) -> None:
    await trigger_with(world, 2)
    assert await world.succeed() == 1


async def fail_beside(world: World) -> None:
    await fail_with(world, 2)


async def raise_the_limit(world: World) -> None:
    await world.database.run(override_manifest("report", {"max_retries": 3}, owner=OWNER))


async def prune_the_run(world: World) -> None:
    world.rows("DELETE FROM history")


@pytest.mark.parametrize("between", [succeed_beside, fail_beside, raise_the_limit, prune_the_run])
async def test_the_letter_has_the_input_that_failed_whatever_comes_before_the_cycle(
    world: World, between: Callable[[World], Awaitable[None]]
) -> None:
    await world.seed(manifest(schedule=Manual(), max_retries=1))
    await fail_with(world, 1)

    await between(world)
    await world.cycle()

    assert letters(world) == [1]


async def test_a_trigger_that_fails_beside_a_letter_gets_its_next_attempt_after_the_resolution(
    world: World,
) -> None:
    await world.seed(manifest(schedule=Manual(), max_retries=1))
    await fail_with(world, 1)
    await fail_with(world, 2)
    await world.cycle()
    assert await world.claim() == [], "it waits for the letter"

    (letter,) = world.rows("SELECT id FROM dead_letter")
    await requeue(world, letter["id"])
    ran = []
    for _ in range(2):
        (run,) = await world.claim()
        ran.append(read(run.input_json))
        await world.finish(run)

    assert ran == [1, 2]
    assert await world.claim() == []


async def test_a_trigger_with_the_letters_own_input_is_repeated_by_the_letter_alone(world: World) -> None:
    await world.seed(manifest(schedule=Manual(), max_retries=1))
    await fail_with(world, 1)
    await fail_with(world, 1)

    assert letters(world) == [1]
    assert world.rows("SELECT id FROM work_queue WHERE status IN ('queued', 'waiting')") == []


@pytest.mark.parametrize("off", ["manifest", "group"])
async def test_a_triggered_job_whose_dense_schedule_is_off_has_a_next_attempt(world: World, off: str) -> None:
    dense = manifest(schedule=Interval(timedelta(minutes=1)), max_retries=3, retry_delay=timedelta(minutes=5))
    await world.seed(dense)
    await world.cycle()
    await world.succeed()
    if off == "manifest":
        await world.database.run(override_manifest("report", {"is_enabled": False}, owner=OWNER))
    else:
        world.rows("UPDATE manifest_group SET is_enabled = ?", False)
    await world.database.run(trigger("report", owner=OWNER))

    await world.finish(*(await world.claim()), state=TrainState.FAILED)

    (entry,) = world.rows("SELECT origin, attempt FROM work_queue WHERE status = 'queued'")
    assert (entry["origin"], entry["attempt"]) == ("retry", 2)


async def requeue(world: World, letter_id: int) -> None:
    await world.database.run(requeue_letters([letter_id], Operator("ada", "cli"), owners=OWNERS))
