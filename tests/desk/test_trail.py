"""Who did what: by operator, by what was changed, and since when; bulk actions are found, too."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from gandy.desk.audit import read_trail
from gandy.desk.cancelling import CancelDesk
from gandy.desk.dead_letters import DeadLetterDesk
from gandy.desk.manifests import ManifestDesk
from gandy.desk.queue import QueueDesk
from gandy.model.owners import ALL_OWNERS, OneOwner, Operator
from gandy.settings import Settings
from gandy.store.audit import DeedFilter
from tests.store.work import count, queue, run_statement
from tests.support.world import OWNERS, manifest

if TYPE_CHECKING:
    from gandy.model.owners import Owners
    from tests.support.world import World

ADA = Operator("ada", "cli")
BOB = Operator("bob", "dashboard")


async def deeds(
    world: World,
    owners: Owners = OWNERS,
    **wanted: Any,  # noqa: ANN401 any field of it
) -> list[tuple[str, str]]:
    trail = await read_trail(world.database, owners, DeedFilter(**wanted))
    return [(each.actor, each.action) for each in trail]


async def test_the_trail_is_listed_by_operator_by_subject_and_by_period(world: World) -> None:
    await world.seed(manifest("report"), manifest("sales"))
    await ManifestDesk(world.database, ADA, owners=OWNERS).disable("report")
    world.advance(hours=2)
    await ManifestDesk(world.database, BOB, owners=OWNERS).disable("sales")
    await ManifestDesk(world.database, BOB, owners=OWNERS).enable("report")

    assert await deeds(world, by="ada") == [("ada", "disable manifest")]
    assert await deeds(world, subject="report") == [("bob", "enable manifest"), ("ada", "disable manifest")]
    assert await deeds(world, subject="report", by="bob") == [("bob", "enable manifest")]
    assert await deeds(world, since=timedelta(hours=1)) == [
        ("bob", "enable manifest"),
        ("bob", "disable manifest"),
    ]
    assert await deeds(world, by="ada", since=timedelta(hours=1)) == []
    assert await deeds(world, ALL_OWNERS, subject="report", by="ada") == [("ada", "disable manifest")]
    assert await deeds(world, OneOwner("bakery"), subject="report") == []


async def test_a_job_finds_what_was_done_to_it_with_others(world: World) -> None:
    first, second, third = (await queue(world, None, None, None)).ids
    desk = CancelDesk(world.database, ADA, Settings(), owners=OWNERS)
    await desk.jobs([first, second])
    await world.succeed()
    again = await QueueDesk(world.database, BOB, owners=OWNERS).rerun(third)

    for job in (first, second):
        assert await deeds(world, subject=str(job)) == [("ada", "cancel run")]
    for job in (third, again.id):
        assert await deeds(world, subject=str(job)) == [("bob", "rerun")]


async def test_a_letter_and_its_new_entry_find_who_resolved_them(world: World) -> None:
    await queue(world, None, None, max_retries=1)
    assert await world.fail() == 2
    letters = [row["id"] for row in world.rows("SELECT id FROM dead_letter ORDER BY id")]

    result = await DeadLetterDesk(world.database, ADA, owners=OWNERS).requeue(letters)

    for letter in letters:
        assert ("ada", "requeue dead letter") in await deeds(world, subject=f"dead letter {letter}")
        assert ("ada", "requeue dead letter") in await deeds(world, subject=str(letter))
    for requeued in result.requeued:
        assert await deeds(world, subject=str(requeued.entry_id)) == [("ada", "requeue dead letter")]


async def test_pages_of_the_trail_meet(world: World) -> None:
    await world.seed(manifest())
    desk = ManifestDesk(world.database, ADA, owners=OWNERS)
    for _ in range(5):
        await desk.disable("report")
        await desk.enable("report")

    for wanted in ({}, {"by": "ada"}, {"subject": "report"}, {"since": timedelta(days=1)}):
        first = await read_trail(world.database, OWNERS, DeedFilter(limit=4, **wanted))
        assert first.next is not None
        rest = await read_trail(world.database, OWNERS, DeedFilter(before=int(first.next), **wanted))
        assert len({each.id for each in (*first, *rest)}) == 10


async def test_the_subjects_of_a_pruned_entry_go_with_it(world: World) -> None:
    await world.seed(manifest())
    await ManifestDesk(world.database, ADA, owners=OWNERS).disable("report")
    assert count(world, "audit_subject") == 1

    (row,) = world.rows("SELECT id FROM audit")
    later = world.clock.now + timedelta(days=1)
    await world.database.run(run_statement("delete_old_audit", ids=[row["id"]], before=later))

    assert (count(world, "audit"), count(world, "audit_subject")) == (0, 0)
