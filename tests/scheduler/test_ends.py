"""Which end of a parent starts which dependents: every way to end, by every kind, on every database."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import pytest

from gandy.model.owners import ALL_OWNERS
from gandy.model.run import EndedBy, TrainState
from gandy.model.schedule import Dependent, EdgeKind, Interval, Manual
from gandy.store.cancelling import cancel_jobs
from gandy.store.letters import requeue_letters
from gandy.store.queueing import trigger
from gandy.store.reaping import FailRequest, ReapRules, fail_run
from tests.model.site import SOMEBODY
from tests.support.world import OWNER, OWNERS, PUNCTUAL, SPANS, manifest

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from gandy.model.manifest import ManifestDeclaration
    from gandy.model.run import ClaimedRun
    from tests.support.world import World

KINDS: Final = ("success", "failure", "end")
REAPING: Final = ReapRules(SPANS, 10_000, PUNCTUAL)


def children() -> list[ManifestDeclaration]:
    return [
        manifest(f"on-{kind}", schedule=Dependent("parent", on=EdgeKind(kind)), train="Child")
        for kind in KINDS
    ]


async def begin(world: World) -> ClaimedRun:
    await world.database.run(trigger("parent", owner=OWNER))
    (run,) = await world.claim("Parent")
    return run


def ended(state: TrainState, **how: Any) -> Callable[[World], Awaitable[object]]:  # noqa: ANN401 of finish()
    async def end(world: World) -> object:
        return await world.finish(await begin(world), state=state, **how)

    return end


async def retried_and_completed(world: World) -> None:
    await ended(TrainState.FAILED)(world)
    world.advance(hours=2)
    await world.finish(*await world.claim("Parent"))


async def retry_cancelled(world: World) -> None:
    await ended(TrainState.FAILED)(world)
    world.advance(hours=2)
    await cancel_all(world)


async def cancel_all(world: World) -> None:
    ids = [row["id"] for row in world.rows("SELECT id FROM work_queue WHERE status = 'queued'")]
    await world.database.run(cancel_jobs(ids, SPANS, owners=OWNERS))


async def queued_and_cancelled(world: World) -> None:
    await world.database.run(trigger("parent", owner=OWNER))
    await cancel_all(world)


async def failed_by_hand(world: World) -> None:
    run = await begin(world)
    asked = FailRequest(run_id=run.id, reason="stuck", owners=ALL_OWNERS)
    await world.database.run(fail_run(asked, REAPING))


async def parked_when_the_limit_is_lowered(world: World) -> None:
    """Its failures left the next attempt to the next instant; now no attempt follows."""
    dense = Interval(timedelta(seconds=5))
    await world.seed(manifest("parent", schedule=dense, train="Parent"), *children())
    world.advance(seconds=5)
    await world.cycle()
    (run,) = await world.claim("Parent")
    await world.finish(run, state=TrainState.FAILED)
    assert world.manifest("parent")["end_count"] == 0, "the next instant is the next attempt"
    world.advance(hours=1)
    await world.seed(manifest("parent", schedule=dense, train="Parent", max_retries=1), *children())
    await world.cycle()


FAILED, LAST = TrainState.FAILED, {"max_retries": 1}


@dataclass(frozen=True)
class Way:
    """How a parent ends, and which of its dependents follow."""

    end: Callable[[World], Awaitable[object]]
    followed_by: tuple[str, ...]
    options: dict[str, Any]


WAYS: Final = {
    "completed": Way(ended(TrainState.COMPLETED), ("end", "success"), {}),
    "failed, with attempts left": Way(ended(FAILED), (), {}),
    "failed, and completed by the next attempt": Way(retried_and_completed, ("end", "success"), {}),
    "failed, and the next attempt was cancelled": Way(retry_cancelled, ("end",), {}),
    "failed for the last time": Way(ended(FAILED), ("end", "failure"), LAST),
    "failed for the last time, its letter left to the manager": Way(
        ended(FAILED, is_bare=True), ("end", "failure"), LAST
    ),
    "failed without retries": Way(ended(FAILED), ("end", "failure"), {"is_retried": False}),
    "given up": Way(ended(FAILED, gives_up=True), ("end", "failure"), {}),
    "timed out for the last time": Way(ended(FAILED, ended_by=EndedBy.TIMEOUT), ("end", "failure"), LAST),
    "interrupted by a shutdown": Way(ended(FAILED, ended_by=EndedBy.SHUTDOWN), (), LAST),
    "failed by hand, with attempts left": Way(failed_by_hand, (), {}),
    "failed by hand without retries": Way(failed_by_hand, ("end", "failure"), {"is_retried": False}),
    "parked when its limit was lowered": Way(parked_when_the_limit_is_lowered, ("end", "failure"), {}),
    "cancelled while it ran": Way(ended(TrainState.CANCELLED, ended_by=EndedBy.OPERATOR), ("end",), {}),
    "cancelled before it began": Way(queued_and_cancelled, ("end",), {}),
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
async def test_an_end_starts_the_dependents_that_follow_it_once(world: World, way: Way) -> None:
    parent = manifest("parent", schedule=Manual(), train="Parent", **way.options)
    await world.seed(parent, *children())

    await way.end(world)
    await world.cycle()
    await world.cycle()

    assert await followers(world) == way.followed_by
    for _ in range(2):  # what was followed is not followed again
        await world.cycle()
        assert await followers(world) == ()


async def followers(world: World) -> tuple[str, ...]:
    """Run the dependents that are queued, and name the ends that they follow."""
    runs = await world.claim("Child")
    await world.finish(*runs)
    names = {world.manifest(f"on-{kind}")["id"]: kind for kind in KINDS}
    return tuple(sorted(names[run.manifest_id or 0] for run in runs))


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
async def test_the_counters_say_how_it_ended(world: World, way: Way) -> None:
    parent = manifest("parent", schedule=Manual(), train="Parent", **way.options)
    await world.seed(parent, *children())
    await way.end(world)
    await world.cycle()

    row = world.manifest("parent")
    counts = {"success": row["success_count"], "failure": row["final_failure_count"], "end": row["end_count"]}
    assert counts == {kind: int(kind in way.followed_by) for kind in KINDS}


async def test_a_parked_job_that_is_requeued_ends_again(world: World) -> None:
    await world.seed(manifest("parent", schedule=Manual(), train="Parent", **LAST), *children())
    await ended(FAILED)(world)
    await world.cycle()
    assert await followers(world) == ("end", "failure")
    (letter,) = world.rows("SELECT id FROM dead_letter")

    await world.database.run(requeue_letters([letter["id"]], SOMEBODY, owners=OWNERS))
    await world.finish(*await world.claim("Parent"))
    await world.cycle()

    assert await followers(world) == ("end", "success")


@pytest.mark.parametrize("kind", KINDS)
async def test_a_dependent_added_later_follows_no_earlier_end(world: World, kind: str) -> None:
    parent = manifest("parent", schedule=Manual(), train="Parent", is_retried=False)
    child = manifest("child", schedule=Dependent("parent", on=EdgeKind(kind)), train="Child")
    await world.seed(parent)
    for state in (TrainState.COMPLETED, FAILED):
        await ended(state)(world)

    await world.seed(parent, child)
    await world.cycle()

    assert world.entries("child") == []
    for state in (TrainState.COMPLETED, FAILED):
        await ended(state)(world)
    await world.cycle()
    assert len(world.entries("child")) == 1


async def test_a_dependent_that_changes_its_kind_follows_what_waits_of_that_kind(world: World) -> None:
    parent = manifest("parent", schedule=Manual(), train="Parent", is_retried=False)
    await world.seed(parent, manifest("child", schedule=Dependent("parent"), train="Child"))
    await ended(TrainState.COMPLETED)(world)  # not followed yet
    await ended(FAILED)(world)

    await world.seed(
        parent, manifest("child", schedule=Dependent("parent", on=EdgeKind.FAILURE), train="Child")
    )
    await world.cycle()

    assert len(world.entries("child")) == 1
    await world.finish(*await world.claim("Child"))
    await ended(TrainState.COMPLETED)(world)
    assert (await world.cycle()).queued == 0
