"""The claim in one statement takes what the usual claim would take, or nothing."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from gandy.model.manifest import GroupDeclaration
from gandy.store.dispatching import claim_plain, dispatch
from gandy.store.queueing import trigger
from gandy.store.workers import WorkerRegistration, register_worker
from tests.store.work import TRAINS, WORKER, ask, entry, queue, unique
from tests.support.world import OWNER, manifest

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from gandy.model.run import ClaimedRun
    from tests.support.world import World

pytestmark = pytest.mark.postgres


async def register(world: World) -> None:
    worker = WorkerRegistration(id=WORKER, owner=OWNER, host="h", pid=1, version="1", slots=9, trains=TRAINS)
    await world.database.run(register_worker(worker, 30.0))


async def claim(world: World, **options: Any) -> tuple[ClaimedRun, ...]:  # noqa: ANN401 - of the request
    return (await world.database.run(claim_plain(ask(**options)))).runs


async def test_it_makes_the_same_runs_as_the_usual_claim(postgres_world: World) -> None:
    world = postgres_world
    await register(world)
    options: dict[str, Any] = {"timeout": timedelta(seconds=90), "max_retries": 4, "priority": 7}
    queued = await queue(world, '{"n": 1}', '{"n": 2}', **options)

    plain = await claim(world)
    usual_ids = (await queue(world, '{"n": 1}', '{"n": 2}', **options)).ids
    usual = (await world.database.run(dispatch(ask()))).runs

    assert tuple(run.id for run in plain) == queued.ids
    assert [run._replace(id=0, fence=0) for run in plain] == [run._replace(id=0, fence=0) for run in usual]
    for one, other in zip(queued.ids, usual_ids, strict=True):
        differing = {key for key, value in entry(world, one).items() if entry(world, other)[key] != value}
        assert differing <= {"id", "external_id", "metadata_id", "fence", "search_text"}


async def test_its_order_and_its_limit_are_those_of_the_queue(postgres_world: World) -> None:
    world = postgres_world
    await register(world)
    low, high, late = [await queue(world, priority=priority) for priority in (1, 9, 1)]

    first, second = await claim(world, limit=2), await claim(world, limit=2)

    assert [run.id for run in first] == [*high.ids, *low.ids]
    assert [run.id for run in second] == [*late.ids]
    assert second[0].fence > first[0].fence


async def capped(world: World) -> None:
    await world.seed(groups=(GroupDeclaration(name="capped", max_active_jobs=5),))
    await queue(world, group="capped")


async def disabled(world: World) -> None:
    await world.seed(groups=(GroupDeclaration(name="off", is_enabled=False),))
    await queue(world, group="off")


async def of_a_manifest(world: World) -> None:
    await world.seed(manifest("report", train=TRAINS[0]))
    await world.database.run(trigger("report", owner=OWNER))


async def with_a_key(world: World) -> None:
    await queue(world, uniqueness=unique("one"))


async def a_key_behind_a_plain_one(world: World) -> None:
    await queue(world)
    await with_a_key(world)


async def of_two_trains(world: World) -> None:
    for train in TRAINS:
        await queue(world, train=train)


async def of_two_groups(world: World) -> None:
    for group in ("default", "other"):
        await queue(world, group=group)


async def of_an_unknown_train(world: World) -> None:
    await queue(world, train="Elsewhere")


async def of_another_owner(world: World) -> None:
    await queue(world, owner="other")


async def in_the_future(world: World) -> None:
    await queue(world, delay=timedelta(minutes=1))


async def behind_a_gate_that_opened_too_early(world: World) -> None:
    await in_the_future(world)
    world.rows("UPDATE work_queue SET gate = 'open'")


async def of_a_requeued_letter(world: World) -> None:
    queued = await queue(world)
    world.rows("UPDATE work_queue SET dead_letter_id = 5 WHERE id = ?", queued.ids[0])


async def by_a_lost_worker(world: World) -> None:
    await queue(world)
    world.rows("UPDATE worker SET state = 'lost'")


async def by_a_worker_that_is_gone(world: World) -> None:
    await queue(world)
    world.rows("DELETE FROM worker")


async def nothing(world: World) -> None:
    """Leave the queue empty."""


@pytest.mark.parametrize(
    "arrange",
    [
        nothing,
        capped,
        disabled,
        of_a_manifest,
        with_a_key,
        a_key_behind_a_plain_one,
        of_two_trains,
        of_two_groups,
        of_an_unknown_train,
        of_another_owner,
        in_the_future,
        behind_a_gate_that_opened_too_early,
        of_a_requeued_letter,
        by_a_lost_worker,
        by_a_worker_that_is_gone,
    ],
)
async def test_it_leaves_all_as_it_is_where_one_statement_is_not_enough(
    postgres_world: World, arrange: Callable[[World], Awaitable[None]]
) -> None:
    world = postgres_world
    await register(world)
    await arrange(world)
    before = world.rows("SELECT * FROM work_queue ORDER BY id")

    assert await claim(world) == ()

    assert world.rows("SELECT * FROM work_queue ORDER BY id") == before
