from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from gandy.errors import RunNotFoundError, RunNotOverError
from gandy.model.owners import OneOwner, Operator
from gandy.model.run import TrainState
from gandy.store.audit import list_deeds
from gandy.store.letters import (
    AcknowledgeResult,
    RequeueResult,
    acknowledge_letters,
    begin_letter_walk,
    load_letter,
    next_awaiting,
    requeue_letters,
)
from gandy.store.overriding import override_group
from gandy.store.queueing import EnqueueRequest, enqueue, trigger
from gandy.store.reading.listings import LetterFilter, list_letters, queue_rerun
from tests.support.world import OWNER, OWNERS, manifest, open_world

if TYPE_CHECKING:
    from tests.support.world import World

ADA = Operator("ada", "cli")
GRACE = Operator("grace", "dashboard")


async def park_jobs(world: World, count: int = 1, *, train: str = "SendInvoice") -> list[int]:
    """Let ad-hoc work fail until it is parked, and give its letters."""
    request = EnqueueRequest(
        owner=OWNER,
        train=train,
        inputs=[json.dumps({"n": number}) for number in range(count)],
        input_type_name="Invoice",
        max_retries=1,
        priority=7,
    )
    await world.database.run(enqueue(request))
    assert await world.fail() == count
    rows = world.rows("SELECT id FROM dead_letter WHERE train_name = ? ORDER BY id", train)
    assert len(rows) == count
    return [row["id"] for row in rows]


async def park_manifest(world: World) -> int:
    """Let a manifest fail until it is parked, and give its letter."""
    await world.seed(manifest(max_retries=1))
    await world.cycle()
    assert await world.fail() == 1
    await world.cycle()
    (row,) = world.rows("SELECT id FROM dead_letter WHERE status = 'awaiting_intervention'")
    return int(row["id"])


async def requeue(world: World, *ids: int, operator: Operator = ADA) -> RequeueResult:
    return await world.database.run(requeue_letters(ids, operator, owners=OWNERS))


def letter(world: World, letter_id: int) -> dict[str, Any]:
    (row,) = world.rows("SELECT * FROM dead_letter WHERE id = ?", letter_id)
    return row


def entry(world: World, entry_id: int) -> dict[str, Any]:
    (row,) = world.rows("SELECT * FROM work_queue WHERE id = ?", entry_id)
    return row


async def test_a_requeued_job_runs_again_with_its_own_input_and_a_clean_record(world: World) -> None:
    (parked,) = await park_jobs(world)
    assert letter(world, parked)["attempt"] == 1

    (done,) = (await requeue(world, parked)).requeued

    row = entry(world, done.entry_id)
    assert (row["origin"], row["attempt"], row["failures"], row["priority"]) == ("requeue", 2, 0, 7)
    assert (row["max_retries"], row["dead_letter_id"]) == (1, parked)
    (run,) = await world.claim()
    assert (run.id, run.input_json) == (done.entry_id, '{"n": 0}')
    row = letter(world, parked)
    assert (row["status"], row["resolved_by"], row["retry_metadata_id"]) == ("retried", "ada", run.id)


async def test_a_job_that_fails_again_after_its_requeue_is_parked_anew(world: World) -> None:
    (parked,) = await park_jobs(world)
    await requeue(world, parked)

    assert await world.fail() == 1

    statuses = [row["status"] for row in world.rows("SELECT status FROM dead_letter ORDER BY id")]
    assert statuses == ["retried", "awaiting_intervention"]


async def test_an_edited_input_takes_the_place_of_the_one_that_failed(world: World) -> None:
    (parked,) = await park_jobs(world)

    await world.database.run(requeue_letters([parked], ADA, input_json='{"n":42}', owners=OWNERS))

    (run,) = await world.claim()
    assert run.input_json == '{"n":42}'
    assert letter(world, parked)["input"] in ('{"n": 0}', {"n": 0})


async def test_a_parked_manifest_is_forgiven_and_goes_on_after_a_requeue(world: World) -> None:
    parked = await park_manifest(world)
    assert world.manifest()["failure_count"] == 1

    (done,) = (await requeue(world, parked)).requeued

    assert world.manifest()["failure_count"] == 0
    assert (done.was_waiting, done.is_held) == (False, False)
    assert await world.succeed() == 1
    world.advance(minutes=5)
    await world.cycle()
    assert [row["status"] for row in world.entries()][-1] == "queued"


async def test_a_requeue_finds_a_free_attempt_where_the_occurrence_was_tried_more_often(world: World) -> None:
    parked = await park_manifest(world)
    world.rows("UPDATE history SET attempt = ? WHERE manifest_id IS NOT NULL RETURNING id", 5)

    (done,) = (await requeue(world, parked)).requeued

    assert entry(world, done.entry_id)["attempt"] == 6


async def test_an_entry_that_already_waits_serves_and_is_linked(world: World) -> None:
    parked = await park_manifest(world)
    waiting = await world.database.run(trigger("report", owner=OWNER))

    (done,) = (await requeue(world, parked)).requeued

    assert (done.entry_id, done.was_waiting) == (waiting.id, True)
    (run,) = await world.claim()
    assert letter(world, parked)["retry_metadata_id"] == run.id == waiting.id


async def test_a_queued_entry_steps_back_for_a_letter_with_another_input(world: World) -> None:
    parked = await park_manifest(world)
    queued = await world.database.run(trigger("report", owner=OWNER))

    edited = requeue_letters([parked], ADA, input_json='{"month":2}', owners=OWNERS)
    (done,) = (await world.database.run(edited)).requeued

    assert (done.was_waiting, entry(world, queued.id)["status"]) == (False, "waiting")
    (run,) = await world.claim()
    assert (run.id, run.input_json) == (done.entry_id, '{"month":2}')
    await world.finish(run)
    (run,) = await world.claim()
    assert run.id == queued.id, "what stepped back has its turn"


async def test_the_letter_of_a_manifest_that_is_switched_off_waits_until_it_is_on(world: World) -> None:
    parked = await park_manifest(world)
    world.rows("UPDATE manifest SET is_enabled = false WHERE external_id = ? RETURNING id", "report")

    (done,) = (await requeue(world, parked)).requeued

    assert done.is_held
    assert await world.claim() == []


@pytest.mark.pair("group switch", "ad-hoc")
async def test_a_requeued_job_respects_its_groups_switch(world: World) -> None:
    (parked,) = await park_jobs(world)
    await world.database.run(override_group(OWNER, "default", {"is_enabled": False}))

    await requeue(world, parked)

    assert await world.claim() == []


async def test_an_acknowledged_letter_forgives_its_manifest_and_runs_nothing(world: World) -> None:
    parked = await park_manifest(world)

    result = await world.database.run(
        acknowledge_letters([parked], ADA, "the supplier was down", owners=OWNERS)
    )

    assert result == AcknowledgeResult(acknowledged=(parked,))
    row = letter(world, parked)
    assert (row["status"], row["resolution_note"]) == ("acknowledged", "the supplier was down")
    assert world.manifest()["failure_count"] == 0
    assert await world.claim() == []
    world.advance(minutes=5)
    await world.cycle()
    assert await world.succeed() == 1


async def test_letters_that_are_resolved_or_unknown_are_told_apart(world: World) -> None:
    first, second = await park_jobs(world, 2)
    await world.database.run(acknowledge_letters([first], ADA, "seen", owners=OWNERS))

    result = await requeue(world, first, second, 777)

    assert [each.letter_id for each in result.requeued] == [second]
    assert (result.resolved_before, result.unknown) == ((first,), (777,))


@pytest.mark.parametrize("kind", ["job", "manifest"])
async def test_of_two_operators_at_once_one_resolves_the_letter(world: World, kind: str) -> None:
    parked = (await park_jobs(world))[0] if kind == "job" else await park_manifest(world)
    other = await open_world(world.url, world.clock.now)
    async with other.database.transaction() as first:
        mine = await first.run(requeue_letters([parked], ADA, owners=OWNERS))
        racing = asyncio.create_task(requeue(world, parked, operator=GRACE))
    theirs = await racing
    await other.database.close()

    assert len(mine.requeued) == 1
    assert theirs == RequeueResult(resolved_before=(parked,))
    queued = world.rows("SELECT id FROM work_queue WHERE status = 'queued'")
    assert [row["id"] for row in queued] == [mine.requeued[0].entry_id]
    assert letter(world, parked)["resolved_by"] == "ada"


async def test_many_operators_at_once_queue_every_letter_once(world: World) -> None:
    letters = await park_jobs(world, 30)
    others = [await open_world(world.url, world.clock.now) for _ in range(3)]
    parts = (letters, letters[::-1], letters[10:])

    acknowledging = asyncio.create_task(
        world.database.run(acknowledge_letters(letters[:10], GRACE, "enough", owners=OWNERS))
    )
    requeues = await asyncio.gather(*(requeue(each, *part) for each, part in zip(others, parts, strict=True)))
    acknowledged = await acknowledging
    for each in others:
        await each.database.close()

    won = [done.letter_id for each in requeues for done in each.requeued]
    assert sorted([*won, *acknowledged.acknowledged]) == letters
    queued = world.rows("SELECT dead_letter_id FROM work_queue WHERE status = 'queued'")
    assert sorted(row["dead_letter_id"] for row in queued) == sorted(won)


async def test_a_resolution_is_in_the_trail_with_its_actor_and_face(world: World) -> None:
    first, second = await park_jobs(world, 2)
    await requeue(world, first)
    await world.database.run(acknowledge_letters([second], GRACE, "seen", owners=OWNERS))

    deeds = (await world.database.read(list_deeds(owners=OWNERS))).rows

    assert [(deed.actor, deed.face, deed.action, deed.subject) for deed in deeds] == [
        ("grace", "dashboard", "acknowledge dead letter", f"dead letter {second}"),
        ("ada", "cli", "requeue dead letter", f"dead letter {first}"),
    ]
    assert json.loads(deeds[0].detail) == {"letters": [second], "note": "seen"}


async def test_what_resolves_nothing_leaves_no_trail(world: World) -> None:
    await requeue(world, 777)

    assert (await world.database.read(list_deeds(owners=OWNERS))).rows == []


async def test_letters_are_listed_by_pages_and_filters(world: World) -> None:
    invoices = await park_jobs(world, 3)
    await park_jobs(world, 1, train="SendReminder")
    await world.database.run(acknowledge_letters([invoices[0]], ADA, "seen", owners=OWNERS))

    page = (
        await world.database.read(list_letters(LetterFilter(train="SendInvoice", limit=2), owners=OWNERS))
    ).rows
    older = LetterFilter(train="SendInvoice", before=page[-1].id)
    rest = (await world.database.read(list_letters(older, owners=OWNERS))).rows
    awaiting = (
        await world.database.read(list_letters(LetterFilter(status="awaiting_intervention"), owners=OWNERS))
    ).rows

    assert [row.id for row in (*page, *rest)] == invoices[::-1]
    assert len(awaiting) == 3
    others = OneOwner("somebody else")
    assert (await world.database.read(list_letters(LetterFilter(), owners=others))).rows == []


async def test_a_walk_ends_where_the_letters_were_when_it_began(world: World) -> None:
    (first,) = await park_jobs(world)
    walk = await world.database.read(begin_letter_walk())
    await requeue(world, first)
    await world.fail()

    assert await world.database.read(next_awaiting(walk, LetterFilter(), owners=OWNERS)) == []
    later = await world.database.read(begin_letter_walk())
    assert len(await world.database.read(next_awaiting(later, LetterFilter(), owners=OWNERS))) == 1


async def test_one_letter_is_read_with_its_manifest(world: World) -> None:
    parked = await park_manifest(world)

    found = await world.database.read(load_letter(parked, owners=OWNERS))

    assert found is not None
    assert (found.manifest, found.group_name, found.train) == ("report", "default", "MakeReport")
    assert await world.database.read(load_letter(777, owners=OWNERS)) is None


async def test_a_run_of_a_manifest_is_run_again_beside_its_schedule(world: World) -> None:
    await world.seed(manifest(max_retries=9))
    await world.cycle()
    (run,) = await world.claim()
    await world.finish(run)

    again = await world.database.run(queue_rerun(run.id, owners=OWNERS))

    row = entry(world, again.id)
    assert (row["manifest_id"], row["origin"], row["parent_id"], row["max_retries"]) == (
        None,
        "ad_hoc",
        run.id,
        9,
    )
    (copy,) = await world.claim()
    assert (copy.id, copy.input_json) == (again.id, run.input_json)
    (kept,) = world.rows("SELECT parent_id, manifest_id FROM metadata WHERE id = ?", copy.id)
    assert (kept["parent_id"], kept["manifest_id"]) == (run.id, None)


async def test_a_retry_of_a_repeated_run_still_names_the_run_that_it_repeats(world: World) -> None:
    await world.seed(manifest())
    await world.cycle()
    (run,) = await world.claim()
    await world.finish(run)
    await world.database.run(queue_rerun(run.id, input_json='{"month":3}', owners=OWNERS))

    assert await world.fail() == 1

    (row,) = world.rows("SELECT parent_id, attempt FROM work_queue WHERE status = 'queued'")
    assert (row["parent_id"], row["attempt"]) == (run.id, 2)


async def test_only_what_is_over_can_be_run_again(world: World) -> None:
    await world.seed(manifest())
    await world.cycle()
    (run,) = await world.claim()

    with pytest.raises(RunNotOverError, match="in_progress"):
        await world.database.run(queue_rerun(run.id, owners=OWNERS))
    with pytest.raises(RunNotFoundError):
        await world.database.run(queue_rerun(777, owners=OWNERS))
    await world.finish(run, state=TrainState.FAILED)
    assert (await world.database.run(queue_rerun(run.id, owners=OWNERS))).repeats == run.id
