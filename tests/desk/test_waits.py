"""Why a job waits: every cause by its name, in words, and in the order in which it counts."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from gandy.desk import doctor, home
from gandy.desk.dead_letters import DeadLetterDesk
from gandy.desk.groups import GroupChanges, GroupDesk
from gandy.desk.jobs import read_story
from gandy.desk.manifests import ManifestDesk
from gandy.desk.queue import QueueDesk
from gandy.errors import EntryOverError, JobNotFoundError
from gandy.model.owners import ALL_OWNERS, OneOwner, Operator
from gandy.settings import DispatcherSettings, Settings
from gandy.store.dispatching import dispatch
from gandy.store.queueing import trigger
from gandy.store.reading.listings import EntryFilter
from gandy.store.workers import WorkerRegistration, drain_worker, register_worker
from tests.store.work import ask, queue
from tests.support.statements import statements
from tests.support.world import OWNER, OWNERS, WORKER, manifest

if TYPE_CHECKING:
    from gandy.desk.entries import EntrySummary
    from gandy.store.statements import Step
    from tests.support.world import World

__all__ = ["statements"]

ADA = Operator("ada", "cli")
TRAINS = ["Sell", "MakeReport"]
CAPPED = replace(Settings(), dispatcher=replace(DispatcherSettings(), max_active_jobs=1))


def desk_of(world: World, settings: Settings | None = None) -> QueueDesk:
    return QueueDesk(world.database, ADA, owners=OWNERS, settings=settings)


async def listed(world: World, settings: Settings | None = None) -> list[EntrySummary]:
    """List what waits, the oldest first."""
    return list(await desk_of(world, settings).list(EntryFilter(status="undispatched")))[::-1]


async def register(world: World, *trains: str) -> None:
    worker = WorkerRegistration(
        id=WORKER, owner=OWNER, host="here", pid=7, version="1", slots=4, trains=trains or TRAINS
    )
    await world.database.run(register_worker(worker, 864_000.0))


async def test_a_ready_entry_waits_for_nothing(world: World) -> None:
    await register(world)
    first, second = (await queue(world, None, None)).ids

    found = await listed(world)
    explained = await desk_of(world).explain(second)

    assert [(entry.waits_for, entry.id) for entry in found] == [("nothing", first), ("nothing", second)]
    assert found[0].why == "it is ready, and the next poll of a worker takes it"
    assert all(condition.holds for condition in explained.conditions)
    assert (explained.ahead, explained.what_to_do) == (1, ())
    assert explained.why.endswith("; 1 of its group come first")


async def test_without_a_worker_or_with_one_that_drains_it_waits_for_a_worker(world: World) -> None:
    await queue(world)
    (alone,) = await listed(world)
    await register(world)
    await world.database.run(drain_worker(WORKER, OWNERS))
    (drained,) = await listed(world)

    assert (alone.waits_for, alone.why) == ("worker", "no worker is alive")
    assert (drained.waits_for, drained.why) == ("worker", "all live workers drain")


async def test_an_entry_of_an_unknown_train_waits_for_the_train(world: World) -> None:
    await register(world, "Other")
    (entry_id,) = (await queue(world)).ids

    (entry,) = await listed(world)

    assert (entry.waits_for, entry.why) == ("train", "no live worker has train Sell")
    assert "gandy queue cancel" in str((await desk_of(world).show(entry_id)).what_to_do)


async def test_a_delayed_entry_waits_for_its_time_and_says_which(world: World) -> None:
    await register(world)
    await queue(world, delay=timedelta(hours=2))

    (entry,) = await listed(world)

    assert entry.waits_for == "time"
    assert entry.why == "its time is 2026-01-05 14:00:00Z, in 2h"
    world.advance(hours=3)
    assert [each.waits_for for each in await listed(world)] == ["nothing"]


async def test_behind_a_group_that_is_switched_off_it_names_who_and_why(world: World) -> None:
    await register(world)
    await queue(world, group="mail")
    await GroupDesk(world.database, ADA, owners=OWNERS).set(
        "mail", GroupChanges(is_enabled=False, reason="the relay is down")
    )

    (entry,) = await listed(world)

    assert entry.waits_for == "group"
    assert entry.why == "group mail is switched off by ada: the relay is down"
    assert entry.gate == "open"


async def test_behind_a_full_group_or_the_global_cap_it_says_how_full(world: World) -> None:
    await register(world)
    await queue(world, None, None, group="mail")
    await world.database.run(dispatch(ask(1)))

    (capped,) = await listed(world, CAPPED)
    await GroupDesk(world.database, ADA, owners=OWNERS).set("mail", GroupChanges(max_active_jobs=1))
    (full,) = await listed(world)

    assert (capped.waits_for, capped.why) == ("cap", "the global cap is full: 1 of 1 runs")
    assert (full.waits_for, full.why) == ("group", "group mail is full: 1 of 1 runs")


async def test_behind_its_manifest_it_names_the_run_the_operator_or_the_missing_declaration(
    world: World,
) -> None:
    await register(world)
    await world.seed(manifest())
    await world.cycle()
    (ready,) = await listed(world)
    await ManifestDesk(world.database, ADA, owners=OWNERS).disable("report", "too noisy")
    (off,) = await listed(world)
    await ManifestDesk(world.database, ADA, owners=OWNERS).enable("report")
    world.rows("UPDATE manifest SET orphaned_at = ?", world.stamp())
    (orphaned,) = await listed(world)
    world.rows("UPDATE manifest SET orphaned_at = NULL, active_run_id = 77")
    (active,) = await listed(world)

    assert ready.waits_for == "nothing"
    assert (off.waits_for, off.why) == ("manifest", "manifest report is switched off by ada: too noisy")
    assert orphaned.why == "the application no longer declares manifest report"
    assert (active.waits_for, active.why) == ("manifest", "run 77 of manifest report has not ended")


async def test_a_trigger_passes_what_is_switched_off(world: World) -> None:
    await register(world)
    await world.seed(manifest(is_enabled=False))
    await world.database.run(trigger("report", owner=OWNER))

    (entry,) = await listed(world)
    explained = await desk_of(world).explain(entry.id)

    assert entry.waits_for == "nothing"
    assert "manifest report is switched off; a trigger runs all the same" in [
        condition.why for condition in explained.conditions
    ]


async def test_a_waiting_entry_names_the_entry_before_it_or_the_dead_letter(world: World) -> None:
    await register(world)
    await world.seed(manifest(max_retries=1))
    await world.cycle()
    (first,) = await listed(world)
    world.rows("UPDATE work_queue SET status = 'waiting'")
    (free,) = await listed(world)
    await world.database.run(trigger("report", owner=OWNER))
    behind, queued = await listed(world)

    assert (first.status, free.status, free.waits_for) == ("queued", "waiting", "nothing")
    assert (behind.waits_for, behind.why) == (
        "manifest",
        f"entry {queued.id} of manifest report comes first",
    )
    await world.fail()
    await world.cycle()
    letters = world.rows("SELECT id FROM dead_letter")
    waiting = [entry for entry in await listed(world) if entry.status == "waiting"]
    assert [entry.why for entry in waiting] == [
        f"manifest report has the open dead letter {letters[0]['id']}"
    ]


async def test_an_entry_that_has_gone_says_where_it_went(world: World) -> None:
    await register(world)
    (entry_id,) = (await queue(world)).ids
    await world.succeed()

    with pytest.raises(EntryOverError, match="completed"):
        await desk_of(world).show(entry_id)
    with pytest.raises(JobNotFoundError):
        await desk_of(world).explain(777)
    with pytest.raises(JobNotFoundError):
        await QueueDesk(world.database, ADA, owners=OneOwner("bakery")).explain(entry_id)


async def test_a_page_is_judged_in_as_many_statements_as_one_entry(
    world: World, statements: list[Step]
) -> None:
    await register(world)
    await queue(world, *[None] * 40, group="mail")
    await queue(world, *[None] * 40, group="post")
    statements.clear()

    await listed(world)

    assert len(statements) <= 10


async def test_every_attempt_of_a_job_leads_to_the_others_and_to_its_letter(world: World) -> None:
    await register(world)
    (first,) = (await queue(world, max_retries=2)).ids
    await world.fail()
    (retry,) = await listed(world)
    world.advance(hours=1)
    assert await world.fail() == 1

    stories = [await read_story(world.database, each, OWNERS) for each in (first, retry.id)]

    for story in stories:
        assert [(each.id, each.attempt, each.state) for each in story.attempts] == [
            (first, 1, "failed"),
            (retry.id, 2, "failed"),
        ]
        assert [letter.run_id for letter in story.letters] == [retry.id]
    assert (await read_story(world.database, first, OneOwner("bakery"))).attempts == ()


async def test_home_counts_what_is_held_by_its_cause(world: World) -> None:
    await register(world)
    await queue(world, None, None, group="mail")
    await queue(world, group="post")
    groups = GroupDesk(world.database, ADA, owners=OWNERS)
    await groups.set("mail", GroupChanges(is_enabled=False))
    await groups.set("post", GroupChanges(max_active_jobs=5))

    overview = await home.Home(world.database, OWNER).overview()

    assert [(each.said, each.count.value) for each in overview.held_by] == [("group mail is switched off", 2)]
    assert (overview.held.value, overview.all_held.value) == (0, 2)


async def test_the_doctor_names_what_has_waited_for_long(world: World) -> None:
    await register(world)
    await queue(world, group="mail")
    await GroupDesk(world.database, ADA, owners=OWNERS).set("mail", GroupChanges(is_enabled=False))
    settings = replace(Settings(), database=replace(Settings().database, url=world.url))

    async def found() -> list[str]:
        report = await doctor.Doctor(settings, owners=ALL_OWNERS).examine(clock=world.clock)
        return [finding.what for finding in report.findings if finding.check == "queue"]

    assert await found() == []
    world.advance(minutes=59)
    assert await found() == ["an entry of train Sell has waited 59m: group mail is switched off by ada"]


async def test_a_requeued_letter_goes_on_in_the_story_of_its_job(world: World) -> None:
    await register(world)
    (first,) = (await queue(world, max_retries=1)).ids
    await world.fail()
    letters = [row["id"] for row in world.rows("SELECT id FROM dead_letter")]
    (requeued,) = (await DeadLetterDesk(world.database, ADA, owners=OWNERS).requeue(letters)).requeued

    async def ids(job: int) -> list[int]:
        return [each.id for each in (await read_story(world.database, job, OWNERS)).attempts]

    assert await ids(first) == await ids(requeued.entry_id) == [first, requeued.entry_id]
    await world.succeed()
    assert await ids(first) == await ids(requeued.entry_id) == [first, requeued.entry_id]
