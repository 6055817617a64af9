"""No input is lost beside a queued entry, however a run comes back, and a missed turn is healed."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from gandy.model.owners import Operator
from gandy.model.run import Activation, EndedBy, TrainState
from gandy.model.schedule import Cron, Dependent, DormantDependent, Interval, Manual, Once
from gandy.scheduler.repair import repair_hints
from gandy.store.cancelling import cancel_jobs
from gandy.store.finishing import finish_runs
from gandy.store.letters import acknowledge_letters, requeue_letters
from gandy.store.queueing import remove_manifest, trigger
from gandy.store.reading.checkup import find_stalled_turns
from gandy.store.reaping import Refusal, put_back, refuse_entries
from tests.store.work import RULES, WORKER, add_entry, count, ended, entry
from tests.support.world import OWNER, OWNERS, SPANS, START, manifest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gandy.model.run import ClaimedRun
    from gandy.model.schedule import Schedule
    from tests.support.world import World

ADA = Operator("ada", "cli")
KINDS: Mapping[str, Schedule] = {
    "manual": Manual(),
    "cron": Cron("0 3 * * *"),
    "interval": Interval(timedelta(hours=1)),
    "once": Once(at=START),
    "dependent": Dependent("parent"),
    "dormant": DormantDependent("parent"),
}
WAYS = ("failed", "timed out", "interrupted", "lost worker", "put back", "parked and requeued")
OTHER = '{"by": "hand"}'


async def _active(world: World, kind: str = "manual", **options: object) -> ClaimedRun:
    """A run of a manifest of any kind that goes on."""
    await world.seed(
        manifest("parent", schedule=Manual(), train="Parent"),
        manifest("report", schedule=KINDS[kind], **options),
    )
    add_entry(world, origin="schedule")
    (run,) = await world.claim("MakeReport")
    return run


async def _come_back(world: World, run: ClaimedRun, way: str) -> None:
    if way == "put back":
        await world.database.run(put_back([run.id], WORKER))
        return
    by = {"timed out": EndedBy.TIMEOUT, "interrupted": EndedBy.SHUTDOWN, "lost worker": EndedBy.LOST_WORKER}
    await world.finish(run, state=TrainState.FAILED, ended_by=by.get(way, EndedBy.ITSELF))
    if way == "parked and requeued":
        await world.cycle()
        (letter,) = world.rows("SELECT id FROM dead_letter WHERE status = 'awaiting_intervention'")
        await world.database.run(requeue_letters([letter["id"]], ADA, owners=OWNERS))


async def _work_off(world: World) -> list[str | None]:
    """Run all that is to come, each with success, and return the inputs in their order."""
    inputs: list[str | None] = []
    for _ in range(6):
        world.advance(minutes=10)
        runs = await world.claim("MakeReport")
        inputs += [run.input_json for run in runs]
        await world.finish(*runs)
    return inputs


@pytest.mark.parametrize("is_equal", [True, False], ids=["equal", "other"])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", KINDS)
async def test_whichever_way_a_run_comes_back_no_input_is_lost_beside_a_queued_entry(
    world: World, kind: str, way: str, is_equal: bool
) -> None:
    run = await _active(world, kind, max_retries=1 if way == "parked and requeued" else 3)
    given = run.input_json if is_equal else OTHER
    queued = await world.database.run(trigger("report", input_json=given, owner=OWNER))

    await _come_back(world, run, way)

    if not is_equal:
        assert (entry(world, queued.id)["status"]) == "waiting"
    assert await _work_off(world) == ([run.input_json] if is_equal else [run.input_json, OTHER])
    assert count(world, "work_queue", "status IN ('queued', 'waiting')") == 0


async def test_an_activation_of_a_child_that_another_version_left_out_is_kept(world: World) -> None:
    await world.seed(manifest(), manifest("child", schedule=DormantDependent("report"), train="Child"))
    add_entry(world, origin="schedule")
    (run,) = await world.claim()
    await world.seed(manifest())
    asked = (Activation("child", '{"n":1}'), Activation("child", '{"n":2}'))
    await world.database.run(finish_runs([ended(run, activations=asked)], RULES))
    assert world.rows("SELECT train_state FROM history") == [{"train_state": "completed"}]
    assert await world.claim("Child") == []

    await world.seed(manifest(), manifest("child", schedule=DormantDependent("report"), train="Child"))

    for expected in ('{"n":1}', '{"n":2}'):
        (child,) = await world.claim("Child")
        assert child.input_json == expected
        await world.finish(child)


ENDS = ("completed", "cancelled", "cancelled entry", "refused entry", "acknowledged")


@pytest.mark.parametrize("way", ENDS)
async def test_the_next_has_its_turn_in_the_transaction_that_ends_the_one_before(
    world: World, way: str
) -> None:
    await world.seed(manifest(), manifest("child", schedule=DormantDependent("report"), max_retries=1))
    add_entry(world, origin="schedule")
    (run,) = await world.claim()
    asked = tuple(Activation("child", f'{{"n":{number}}}') for number in range(2))
    await world.database.run(finish_runs([ended(run, activations=asked)], RULES))
    first, second = (
        row["id"] for row in world.rows("SELECT id FROM work_queue WHERE origin = 'dormant' ORDER BY id")
    )
    assert [entry(world, each)["status"] for each in (first, second)] == ["queued", "waiting"]

    if way == "cancelled entry":
        await world.database.run(cancel_jobs([first], SPANS, owners=OWNERS))
    elif way == "refused entry":
        await world.database.run(refuse_entries([Refusal(first, "it cannot be")]))
    else:
        await _end_first(world, way)

    assert entry(world, second)["status"] == "queued"


async def _end_first(world: World, way: str) -> None:
    (run,) = await world.claim()
    if way == "cancelled":
        await world.finish(run, state=TrainState.CANCELLED, ended_by=EndedBy.OPERATOR)
    elif way == "completed":
        await world.finish(run)
    else:
        await world.finish(run, state=TrainState.FAILED)
        await world.cycle()
        (letter,) = world.rows("SELECT id FROM dead_letter")
        await world.database.run(acknowledge_letters([letter["id"]], ADA, "seen", owners=OWNERS))


async def _left_behind(world: World) -> int:
    """An entry that waits although its turn has come, as code that knows no turns leaves it."""
    await world.seed(manifest(schedule=Manual()))
    waiting = add_entry(world, origin="dormant")
    world.rows("UPDATE work_queue SET status = 'waiting' WHERE id = ? RETURNING id", waiting)
    return waiting


async def test_a_turn_that_was_missed_is_named_by_the_check_up_and_healed_by_the_repair_pass(
    world: World,
) -> None:
    waiting = await _left_behind(world)
    assert await world.claim() == [], "a waiting entry is never claimed"
    assert [row.held_by for row in await world.database.read(find_stalled_turns(OWNERS))] == ["nothing"]

    healed = await repair_hints(world.database, page=10, is_requested=True)

    assert (healed.healed, entry(world, waiting)["status"]) == (1, "queued")
    assert await world.database.read(find_stalled_turns(OWNERS)) == []


async def test_an_entry_whose_manifest_is_gone_is_named_and_cancelled_by_the_repair_pass(
    world: World,
) -> None:
    waiting = await _left_behind(world)
    world.rows("DELETE FROM manifest WHERE external_id = ? RETURNING id", "report")
    assert [row.held_by for row in await world.database.read(find_stalled_turns(OWNERS))] == ["gone"]

    await repair_hints(world.database, page=10, is_requested=True)

    assert entry(world, waiting)["status"] == "cancelled"


async def test_a_retry_that_waits_for_an_orphan_is_named_with_what_waits_behind_it(world: World) -> None:
    run = await _active(world)
    await world.database.run(trigger("report", input_json=OTHER, owner=OWNER))
    await world.seed(manifest("parent", schedule=Manual(), train="Parent"))
    assert await world.database.read(find_stalled_turns(OWNERS)) == [], "it still runs"

    await world.finish(run, state=TrainState.FAILED)

    (named,) = await world.database.read(find_stalled_turns(OWNERS))
    assert (named.manifest, named.held_by, named.entries) == ("report", "orphaned", 2)


async def test_the_repair_pass_goes_on_from_page_to_page(world: World) -> None:
    names = [f"m{number}" for number in range(5)]
    await world.seed(*(manifest(name, schedule=Manual()) for name in names))
    for name in names:
        add_entry(world, name, origin="dormant")
    world.rows("UPDATE work_queue SET status = 'waiting' RETURNING id")

    healed = [(await repair_hints(world.database, page=2, is_requested=True)).healed for _ in range(3)]

    assert healed == [2, 2, 1]


async def test_what_waits_goes_with_a_manifest_that_is_removed(world: World) -> None:
    waiting = await _left_behind(world)
    world.rows("UPDATE manifest SET origin = 'runtime' RETURNING id")

    await world.database.run(remove_manifest("report", owner=OWNER))

    assert entry(world, waiting)["status"] == "cancelled"


async def test_a_trigger_that_stepped_back_passes_the_switches_like_any_trigger(world: World) -> None:
    run = await _active(world, max_retries=1)
    queued = await world.database.run(trigger("report", input_json=OTHER, owner=OWNER))
    await world.database.run(put_back([run.id], WORKER))
    (again,) = await world.claim("MakeReport")
    world.rows("UPDATE manifest SET is_enabled = false RETURNING id")

    await world.finish(again, state=TrainState.FAILED)

    assert entry(world, queued.id)["status"] == "queued"
    assert len(await world.claim("MakeReport")) == 1
