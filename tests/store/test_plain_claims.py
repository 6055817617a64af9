"""The claim in one statement takes what the usual claim would take, or nothing."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from gandy.model.manifest import GroupDeclaration
from gandy.rules.dispatching import Capacity, Ready, choose
from gandy.store.dispatching import dispatch
from gandy.store.queueing import trigger
from gandy.store.runs import claim_plain, claim_shortly
from gandy.store.workers import WorkerRegistration, register_worker
from tests.store.work import TRAINS, WORKER, ask, entry, queue, run_statement, unique
from tests.support.world import OWNER, manifest

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from gandy.model.run import ClaimedRun
    from gandy.store.dispatching import Dispatched
    from gandy.store.statements import Operation
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


async def of_many_groups(world: World) -> None:
    for number in range(33):
        await queue(world, group=f"group-{number}")


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
        of_many_groups,
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


class Undone(Exception):  # noqa: N818 - no error: it rolls a claim back
    """Raised to undo a claim."""


async def claimed_and_undone(world: World, operation: Operation[Dispatched]) -> list[int]:
    found: list[int] = []
    with suppress(Undone):
        async with world.database.transaction() as transaction:
            found += sorted((await transaction.run(operation)).ids)
            raise Undone
    return found


UNLIMITED = Capacity(None, 0, {}, {})
READY = """SELECT q.id, q.manifest_group_id, g.priority, q.rank
           FROM work_queue q JOIN manifest_group g ON g.id = q.manifest_group_id"""


@pytest.mark.parametrize("priorities", [(0, 0, 0), (0, 5, 9)], ids=["equal groups", "groups by priority"])
async def test_it_chooses_among_groups_and_trains_by_the_rule_of_dispatch(
    postgres_world: World, priorities: tuple[int, ...]
) -> None:
    world = postgres_world
    await register(world)
    names = ("first", "second", "third")
    declared = zip(names, priorities, strict=True)
    await world.seed(
        groups=tuple(GroupDeclaration(name=name, priority=priority) for name, priority in declared)
    )
    for group, counts in zip(names, ((1, 0), (3, 5), (9, 4)), strict=True):
        for train, entries in zip(TRAINS, counts, strict=True):
            for number in range(entries):
                await queue(world, group=group, train=train, priority=number % 3)
    ready = [Ready(*row.values()) for row in world.rows(READY)]
    await queue(world, group="first", train="Elsewhere", priority=31)

    for limit in (1, 2, 3, 5, 7, 20):
        for turn in range(1, 7):
            by_rule = sorted(each.entry_id for each in choose(ready, UNLIMITED, limit=limit, turn=turn))
            assert await claimed_and_undone(world, claim_plain(ask(limit, turn=turn))) == by_rule, (
                limit,
                turn,
            )


async def test_under_locked_caps_it_takes_what_has_room_as_the_usual_claim_does(
    postgres_world: World,
) -> None:
    world = postgres_world
    await register(world)
    await world.seed(groups=tuple(GroupDeclaration(name=name, max_active_jobs=3) for name in ("one", "two")))
    for group in ("one", "two", "open"):
        for train in TRAINS:
            await queue(world, "1", "2", group=group, train=train)
    caps = [row["id"] for row in world.rows("SELECT id FROM manifest_group WHERE max_active_jobs = 3")]
    for ended in range(3):
        for turn in (1, 2):
            request = ask(9, turn=turn, free_slots=9)
            usual = await claimed_and_undone(world, dispatch(request))
            assert await claimed_and_undone(world, claim_plain(request, caps)) == usual, (ended, turn)
        await world.database.run(dispatch(ask(1, turn=2, free_slots=1)))

    found = await world.database.run(claim_plain(ask(9, free_slots=9), caps))
    assert {run.group_id for run in found.runs if run.is_capped} <= {*caps}
    assert [run for run in found.runs if run.is_capped == (run.group_id not in caps)] == []
    assert (await world.database.run(claim_plain(ask(), caps))).runs == ()
    full = {row["manifest_group_id"]: row["n"] for row in world.rows(LIVE)}
    assert [full[cap] for cap in caps] == [3, 3]


LIVE = "SELECT manifest_group_id, count(*) AS n FROM work_queue WHERE status = 'dispatched' GROUP BY 1"


async def test_while_another_claim_holds_the_cap_it_takes_nothing(postgres_world: World) -> None:
    world = postgres_world
    await register(world)
    await capped(world)
    caps = [row["id"] for row in world.rows("SELECT id FROM manifest_group WHERE max_active_jobs = 5")]

    async with world.database.transaction() as other:
        await other.run(run_statement("lock_capped_groups", ids=caps))
        meanwhile = await world.database.run(claim_plain(ask(), caps))

    assert meanwhile.runs == ()
    assert len((await world.database.run(claim_plain(ask(), caps))).runs) == 1


async def test_a_group_whose_entries_another_claim_has_locked_is_worth_another_claim_soon(
    postgres_world: World,
) -> None:
    world = postgres_world
    await register(world)
    locked = (await queue(world, group="locked")).ids

    async with world.database.transaction() as other:
        await other.run(dispatch(ask(1)))
        await queue(world, group="free")
        met = await world.database.run(claim_plain(ask()))
    assert (len(met.runs), met.is_contended) == (1, True)
    assert met.ids != locked


@pytest.mark.parametrize("is_plain", [True, False])
async def test_what_one_statement_cannot_claim_is_claimed_in_the_usual_way(
    postgres_world: World, *, is_plain: bool
) -> None:
    world = postgres_world
    await register(world)
    await queue(world, uniqueness=None if is_plain else unique("one"))

    found = await world.database.run(claim_shortly(ask(), ()))

    assert (len(found.runs), found.plain_caps) == (1, () if is_plain else None)
