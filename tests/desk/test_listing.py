"""A search that may not look at everything says where it stopped, and goes on from there."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from gandy.desk.dead_letters import DeadLetterDesk
from gandy.desk.queue import QueueDesk
from gandy.desk.runs import RunInsights
from gandy.errors import PlaceNotFoundError
from gandy.model.owners import Operator
from gandy.store import runs
from gandy.store.cancelling import cancel_jobs
from gandy.store.queueing import EnqueueRequest, enqueue
from gandy.store.reading import listings as searching
from gandy.store.reading.listings import EntryFilter, LetterFilter, RunFilter
from tests.support.history import Past
from tests.support.statements import statements
from tests.support.world import OWNER, OWNERS, SPANS

if TYPE_CHECKING:
    from gandy.store.statements import Step
    from tests.support.world import World

__all__ = ["statements"]

ADA = Operator("ada", "cli")
SOON = timedelta(minutes=10)


async def queue(world: World, train: str, jobs: int) -> list[int]:
    request = EnqueueRequest(owner=OWNER, train=train, inputs=["{}"] * jobs, input_type_name="dict")
    return list((await world.database.run(enqueue(request))).ids)


async def delayed(world: World, minutes: int) -> list[int]:
    delay = timedelta(minutes=minutes)
    request = EnqueueRequest(owner=OWNER, train="Mail", inputs=["{}"], input_type_name="dict", delay=delay)
    return list((await world.database.run(enqueue(request))).ids)


@pytest.fixture
def short_sighted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "SEARCHED", 5)


@pytest.mark.usefixtures("short_sighted")
async def test_a_search_page_by_page_finds_everything_once_and_in_order(world: World) -> None:
    wanted = [*await queue(world, "Rare", 2)]
    for _ in range(3):
        await queue(world, "Frequent", 7)
        wanted += await queue(world, "Rare", 1)
    desk, found, before, cuts = QueueDesk(world.database, ADA, owners=OWNERS), [], None, 0

    while True:
        page = await desk.list(EntryFilter(train="Rare", before=before, limit=2))
        found += [entry.id for entry in page]
        cuts += page.is_cut
        if page.next is None:
            break
        before = int(page.next)

    assert found == sorted(wanted, reverse=True)
    assert cuts > 0


@pytest.mark.usefixtures("short_sighted")
async def test_what_an_index_holds_together_is_found_at_once(world: World) -> None:
    (early,) = await queue(world, "Rare", 1)
    late = await queue(world, "Frequent", 20)
    await world.database.run(cancel_jobs(late[1:], SPANS, owners=OWNERS))

    page = await QueueDesk(world.database, ADA, owners=OWNERS).list(EntryFilter(status="queued"))

    assert [entry.id for entry in page] == [late[0], early]
    assert (page.next, page.is_cut) == (None, False)


async def test_a_full_page_is_no_cut_and_the_last_one_has_no_next(world: World) -> None:
    ids = await queue(world, "Frequent", 4)
    desk = QueueDesk(world.database, ADA, owners=OWNERS)

    first = await desk.list(EntryFilter(limit=3))
    rest = await desk.list(EntryFilter(limit=3, before=first[-1].id))

    assert (first.next, first.is_cut) == (ids[1], False)
    assert [entry.id for entry in rest] == [ids[0]]
    assert (rest.next, rest.is_cut) == (None, False)


@pytest.mark.parametrize(
    ("timestamp", "text"),
    [("infinity", "9999-99-99T99:99:99.999999Z"), ("-infinity", "0000-00-00T00:00:00.000000Z")],
)
async def test_an_instant_that_python_has_no_date_for_hides_no_other_entry(
    world: World, timestamp: str, text: str
) -> None:
    ids = await queue(world, "Rare", 3)
    beyond = text if world.database.dialect == "sqlite" else timestamp
    world.rows("UPDATE work_queue SET created_at = ? WHERE id = ?", beyond, ids[1])
    desk = QueueDesk(world.database, ADA, owners=OWNERS)

    for _ in range(2):  # the connection is as good as before
        assert [entry.id for entry in await desk.list(EntryFilter(train="Rare"))] == ids[::-1]


async def test_a_summary_counts_the_newest_runs_alone(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "SUMMARISED", 3)
    past = Past(world)
    for name in ("Sell", "Sell", "Buy", "Buy"):
        past.run(name, lines=2)
    past.run("Buy", state="in_progress")

    tallies = await RunInsights(world.database, OWNERS).tally(world.clock.now - timedelta(hours=2))

    assert [(each.train, each.state, each.runs, each.log_lines) for each in tallies] == [
        ("Buy", "completed", 2, 4),
        ("Buy", "in_progress", 1, 0),
        ("Sell", "completed", 1, 2),
    ]


async def test_live_runs_of_another_application_fill_no_page(world: World, statements: list[Step]) -> None:
    past = Past(world)
    ids = [past.run("Sell") for _ in range(3)]
    for _ in range(20):
        past.run("Sell", state="in_progress", owner="bakery")
    insights = RunInsights(world.database, OWNERS)

    page = await insights.list(RunFilter(limit=2))

    assert [run.id for run in page] == ids[:0:-1]
    assert [step.name for step in statements if step.name != "keep_order"] == ["search_runs"]


async def by_time(world: World, before: int | None = None, *, limit: int = 2) -> list[int]:
    wanted = EntryFilter(gate="time", sort="scheduled_at", before=before, limit=limit)
    return [entry.id for entry in await QueueDesk(world.database, ADA, owners=OWNERS).list(wanted)]


async def test_a_walk_by_time_goes_on_after_an_entry_that_has_started_and_ended(world: World) -> None:
    ids = [(await delayed(world, minutes))[0] for minutes in (1, 2, 3, 4)]
    assert await by_time(world) == ids[:2]
    world.advance(minutes=2)
    await world.cycle()

    runs = await world.claim()
    assert [run.id for run in runs] == ids[:2]
    assert await by_time(world, ids[1]) == ids[2:]
    await world.finish(*runs)

    assert await by_time(world, ids[1]) == ids[2:]


async def test_a_walk_by_time_goes_on_after_a_retry_that_has_ended(world: World) -> None:
    past, now = Past(world), world.clock.now
    await queue(world, "Mail", 1)
    waiting = [past.entry(status="queued", gate="time", scheduled_at=now + span) for span in (SOON, 3 * SOON)]
    retry = past.run("Mail", due_at=now - 5 * SOON, scheduled_at=now + 2 * SOON, attempt=2)
    early = past.run("Mail", due_at=now + SOON / 2)

    assert await by_time(world, retry) == waiting[1:]
    assert await by_time(world, early) == waiting


async def test_a_walk_goes_on_after_an_entry_that_was_cancelled(world: World) -> None:
    ids = [(await delayed(world, minutes))[0] for minutes in (1, 2, 3)]
    await world.database.run(cancel_jobs(ids[1:2], SPANS, owners=OWNERS))

    assert await by_time(world, ids[1]) == ids[2:]


async def test_a_walk_after_a_row_that_was_pruned_says_that_it_is_gone(world: World) -> None:
    with pytest.raises(PlaceNotFoundError, match="no entry 77 after which a page can begin"):
        await by_time(world, 77)
    with pytest.raises(PlaceNotFoundError, match="no run 77 after which"):
        await RunInsights(world.database, OWNERS).list(RunFilter(train="Mail", sort="start_time", before=77))
    wanted = LetterFilter(status="retried", sort="resolved_at", before=77)
    with pytest.raises(PlaceNotFoundError, match="no dead letter 77 after which"):
        await DeadLetterDesk(world.database, ADA, owners=OWNERS).list(wanted)


async def test_a_walk_after_a_row_of_another_application_has_no_place(world: World) -> None:
    past = Past(world)
    run = past.run("Mail", owner="bakery", due_at=world.clock.now)

    with pytest.raises(PlaceNotFoundError):
        await by_time(world, run)


async def test_a_walk_by_start_repeats_runs_where_the_last_one_was_put_back(world: World) -> None:
    past = Past(world)
    run = past.run("SendMail")
    entry = past.entry(status="queued", gate="open")

    found = await RunInsights(world.database, OWNERS).list(
        RunFilter(train="SendMail", sort="start_time", before=entry)
    )

    assert [each.id for each in found] == [run]


async def test_a_walk_by_resolution_after_a_letter_that_waits_again_begins_again(world: World) -> None:
    past = Past(world)
    await queue(world, "Mail", 1)
    resolved = past.letter(status="retried", resolved_at=world.clock.now)
    awaiting = past.letter(status="awaiting_intervention")

    wanted = LetterFilter(status="retried", sort="resolved_at", before=awaiting)
    found = await DeadLetterDesk(world.database, ADA, owners=OWNERS).list(wanted)

    assert [each.id for each in found] == [resolved]
