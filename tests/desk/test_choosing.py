"""Choosing among many jobs: texts, groups, times and orders; and what is done to all that match."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from gandy.desk.audit import read_trail
from gandy.desk.cancelling import CancelDesk
from gandy.desk.choosing import texts, walks
from gandy.desk.choosing.rerunning import RerunDesk
from gandy.desk.dead_letters import DeadLetterDesk
from gandy.desk.queue import QueueDesk
from gandy.desk.runs import RunInsights
from gandy.errors import ValueBoundsError
from gandy.model.layout import OPEN_LAYOUT, SECRET_LAYOUT
from gandy.model.owners import OneOwner, Operator
from gandy.settings import Settings
from gandy.store.audit import DeedFilter
from gandy.store.owners import TrainLayout, record_layouts
from gandy.store.queueing import EnqueueRequest, enqueue, trigger
from gandy.store.reading.listings import EntryFilter, LetterFilter, RunFilter
from tests.support.world import OWNER, OWNERS, manifest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.support.world import World

ADA = Operator("ada", "cli")
HOUR = timedelta(hours=1)
PARTLY: list[dict[str, Any]] = [{"keys": {"user": 1, "pin": 2}}, {"plain": True}, {"secret": True}]


@pytest.fixture
async def shop(world: World) -> World:
    """An application with an open train, one with a secret, and one of which nothing is known."""
    layouts = [
        TrainLayout("send_invoice", OPEN_LAYOUT, OPEN_LAYOUT),
        TrainLayout("log_in", PARTLY, OPEN_LAYOUT),
        TrainLayout("hidden", SECRET_LAYOUT, OPEN_LAYOUT),
    ]
    await world.database.run(record_layouts(OWNER, layouts))
    return world


async def queue(
    world: World,
    inputs: Sequence[object],
    *,
    train: str = "send_invoice",
    owner: str = OWNER,
    **more: Any,  # noqa: ANN401 any field of it
) -> list[int]:
    written = [json.dumps(each, ensure_ascii=False) for each in inputs]
    request = EnqueueRequest(owner=owner, train=train, inputs=written, input_type_name="dict", **more)
    return list((await world.database.run(enqueue(request))).ids)


def desk_of(world: World) -> QueueDesk:
    return QueueDesk(world.database, ADA, owners=OWNERS)


async def found(world: World, **chosen: Any) -> list[int]:  # noqa: ANN401 any field of it
    return [entry.id for entry in await desk_of(world).list(EntryFilter(**chosen))]


async def test_a_text_is_found_in_an_input_in_any_case_and_spelling(shop: World) -> None:
    ids = await queue(shop, [{"to": "Zoë Åberg", "number": 7}, {"to": 'say "hi"'}, {"to": "Bo", "n": 77}])

    assert await found(shop, input_has="zoë å") == [ids[0]]
    assert await found(shop, input_has='"number":7') == [ids[0]]
    assert await found(shop, input_has='"number": 7') == [ids[0]]
    assert await found(shop, input_has='say "hi"') == [ids[1]]
    assert await found(shop, input_has="7") == [ids[2], ids[0]]
    assert await found(shop, input_has="%") == []


@pytest.mark.parametrize("secret", ["1234", "12", '"pin":"1234"', "4711"])
async def test_a_text_is_never_found_behind_a_mask(shop: World, secret: str) -> None:
    ids = await queue(shop, [{"user": "ada", "pin": "1234"}, {"user": "bo", "pin": "4711"}], train="log_in")
    await queue(shop, [{"pin": "1234"}], train="hidden")
    await queue(shop, [{"pin": "1234"}], train="nothing_is_known")

    page = await desk_of(shop).list(EntryFilter(input_has=secret, limit=1))

    assert (list(page), page.next, page.is_cut) == ([], None, False)
    assert page.looked is not None
    assert page.looked.rows == 4, "what is looked at does not depend on what is hidden"
    assert await found(shop, input_has="ada") == [ids[0]]
    preview = await CancelDesk(shop.database, ADA, Settings(), owners=OWNERS).preview_entries(
        EntryFilter(input_has=secret)
    )
    assert (preview.jobs, preview.ids) == (0, ())


async def test_a_search_in_texts_says_how_far_it_looked_and_goes_on_from_there(
    shop: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(texts, "PAGE_ROWS", 5)
    wanted = await queue(shop, ["needle"])
    await queue(shop, ["hay"] * 7)
    wanted += await queue(shop, ["needle"])
    desk = desk_of(shop)

    first = await desk.list(EntryFilter(input_has="needle"))
    second = await desk.list(EntryFilter(input_has="needle", before=int(first.next or 0)))

    assert [entry.id for entry in first] == [wanted[1]]
    assert first.is_cut
    assert first.looked is not None
    assert (first.looked.rows, first.looked.back_to) == (5, first[0].created_at)
    assert [entry.id for entry in second] == [wanted[0]]
    assert not second.is_cut
    assert second.looked is not None
    assert second.looked.rows == 4


async def test_a_search_in_texts_stops_after_its_most_characters(
    shop: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(texts, "MOST_CHARACTERS", 200)  # a page has its part of them
    await queue(shop, ["x" * 20] * 9)

    page = await desk_of(shop).list(EntryFilter(input_has="needle"))

    assert page.is_cut
    assert page.looked is not None
    assert page.looked.rows == 3


async def test_an_input_that_is_too_large_is_not_searched(shop: World) -> None:
    large = [f"{number:06x}" for number in range(20_000)]
    ids = await queue(shop, [{"needle": large}, {"needle": 1}])

    assert await found(shop, input_has="needle") == [ids[1]]


async def test_entries_are_found_by_group_manifest_and_time(shop: World) -> None:
    early = await queue(shop, [1], group="mail")
    shop.advance(hours=2)
    late = await queue(shop, [2], group="mail")
    other = await queue(shop, [3])
    now = shop.clock.now

    assert await found(shop, group="mail") == [*late, *early]
    assert await found(shop, since=HOUR) == [*other, *late]
    assert await found(shop, until=HOUR) == early
    assert await found(shop, since=now - 3 * HOUR, until=now - HOUR, group="mail") == early
    assert await found(shop, group="nobody") == []


async def test_entries_of_a_manifest_are_found_by_its_index(world: World) -> None:
    await world.seed(manifest("report"), manifest("other"))
    await world.database.run(trigger("report", owner=OWNER))
    await world.database.run(trigger("other", owner=OWNER))
    (entry,) = world.entries("report")

    assert await found(world, manifest="report") == [entry["id"]]
    assert await found(world, manifest="report", status="waiting") == []
    assert await found(world, manifest="nobody") == []


async def fail_some(world: World, inputs: Sequence[object], **more: Any) -> list[int]:  # noqa: ANN401 any field
    ids = await queue(world, inputs, **more)
    assert await world.fail() == len(ids)
    return ids


async def test_runs_are_found_by_the_text_of_their_error_and_by_their_group(shop: World) -> None:
    failed = await fail_some(shop, [1, 2], group="mail")
    done = await queue(shop, [3])
    await shop.succeed()
    insights = RunInsights(shop.database, OWNERS)
    (run, _) = await insights.list(RunFilter(state="failed"))
    text = f"{run.failure_exception}: {run.failure_reason}"

    async def ids(**chosen: Any) -> list[int]:  # noqa: ANN401 any field of it
        return [each.id for each in await insights.list(RunFilter(**chosen))]

    assert await ids(error_has=text.upper()) == failed[::-1]
    assert await ids(error_has=text, input_has="2") == [failed[1]]
    assert await ids(error_has="never said") == []
    assert await ids(group="mail") == failed[::-1]
    assert await ids(input_has="3", since=HOUR) == done
    assert await ids(until=HOUR) == []


async def test_runs_of_a_train_are_sorted_by_their_start_page_by_page(shop: World) -> None:
    late = await queue(shop, [1], delay=2 * HOUR)
    early = await queue(shop, [2])
    await shop.succeed()
    shop.advance(hours=3)
    await shop.succeed()
    running = await queue(shop, [3, 4])
    shop.advance(hours=1)
    await shop.claim()
    insights = RunInsights(shop.database, OWNERS)
    seen: list[int] = []
    before = None

    while page := await insights.list(
        RunFilter(train="send_invoice", sort="start_time", before=before, limit=2)
    ):
        seen += [run.id for run in page]
        before = page[-1].id

    assert seen == [*running[::-1], *late, *early]
    since = RunFilter(train="send_invoice", sort="start_time", since=2 * HOUR, state="completed")
    assert [run.id for run in await insights.list(since)] == late


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        (RunFilter(sort="start_time"), "sort must be id, or with a train and a single owner also start_time"),
        (
            EntryFilter(sort="scheduled_at"),
            "sort must be id, or with gate time and a single owner also scheduled_at",
        ),
        (LetterFilter(sort="resolved_at"), "sort must be id, or with status retried or acknowledged also"),
    ],
)
async def test_an_order_that_no_index_serves_is_refused_with_those_that_one_does(
    world: World,
    wanted: Any,  # noqa: ANN401 one of the filters
    said: str,
) -> None:
    lists: dict[type, Any] = {
        RunFilter: RunInsights(world.database, OWNERS).list,
        EntryFilter: desk_of(world).list,
        LetterFilter: DeadLetterDesk(world.database, ADA, owners=OWNERS).list,
    }
    with pytest.raises(ValueBoundsError, match=said):
        await lists[type(wanted)](wanted)


async def test_entries_that_wait_for_their_time_are_sorted_by_it(shop: World) -> None:
    late = await queue(shop, [1], delay=3 * HOUR)
    same = await queue(shop, [2, 3], delay=2 * HOUR)
    soon = await queue(shop, [4], delay=HOUR)
    await queue(shop, [5])
    seen: list[int] = []
    before = None

    while page := await desk_of(shop).list(
        EntryFilter(gate="time", sort="scheduled_at", before=before, limit=2)
    ):
        seen += [entry.id for entry in page]
        before = page[-1].id

    assert seen == [*soon, *same, *late]


async def test_letters_are_sorted_by_their_resolution_and_resolved_by_their_texts(shop: World) -> None:
    await fail_some(shop, [{"n": 1}, {"n": 2}, {"n": 3}], max_retries=1)
    desk = DeadLetterDesk(shop.database, ADA, owners=OWNERS)
    third, second, first = [letter.id for letter in await desk.list(LetterFilter())]

    for letter, text in ((second, '"n":2'), (third, '"n":3'), (first, '"n":1')):
        shop.advance(minutes=1)
        wanted = LetterFilter(input_has=text)
        assert (await desk.preview(wanted)).ids == (letter,)
        assert (await desk.acknowledge_all(wanted, "seen")).acknowledged == (letter,)

    order = LetterFilter(status="acknowledged", sort="resolved_at", limit=2)
    page = await desk.list(order)
    assert [letter.id for letter in page] == [first, third]
    rest = LetterFilter(status="acknowledged", sort="resolved_at", before=page[-1].id)
    assert [letter.id for letter in await desk.list(rest)] == [second]


async def test_runs_are_repeated_by_a_filter_and_are_in_the_trail(shop: World) -> None:
    failed = await fail_some(shop, [1, 2, 3])
    bakery = await queue(shop, [1], owner="bakery")
    done = await queue(shop, [4])
    await shop.succeed()
    running = await queue(shop, [5])
    await shop.claim()
    desk = RerunDesk(shop.database, ADA, owners=OWNERS)
    wanted = RunFilter(train="send_invoice", state="failed")

    preview = await desk.preview(wanted)
    result = await desk.runs((), wanted)

    assert (preview.jobs, preview.is_at_least, preview.ids) == (3, False, tuple(failed[::-1]))
    assert [(part.train, part.state, part.jobs) for part in preview.parts] == [("send_invoice", "failed", 3)]
    assert sorted(each.repeats for each in result.rerun) == failed
    inputs = shop.rows("SELECT input FROM work_queue WHERE parent_id IS NOT NULL ORDER BY id")
    assert sorted(str(row["input"]) for row in inputs) == ["1", "2", "3"]
    (deed,) = await read_trail(shop.database, OWNERS, DeedFilter(subject=str(failed[0])))
    assert (deed.actor, deed.action) == ("ada", "rerun")
    assert set(deed.detail["entries"]) == {str(run_id) for run_id in failed}

    some = await desk.runs([*done, *running, *bakery, 777], RunFilter())
    assert [each.repeats for each in some.rerun] == done
    assert (some.not_over, some.unknown) == (tuple(running), (*bakery, 777))
    assert await desk.find(RunFilter(until=HOUR)) == ()


async def test_a_preview_counts_up_to_a_limit_and_a_walk_goes_on(
    shop: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(walks, "_COUNTED_AT_ONCE", 2)
    monkeypatch.setattr(walks, "COUNTED", 3)
    monkeypatch.setattr(walks, "AT_ONCE", 2)
    ids = await queue(shop, [1] * 7)
    desk = CancelDesk(shop.database, ADA, Settings(), owners=OWNERS)
    wanted = EntryFilter(train="send_invoice")

    preview = await desk.preview_entries(wanted)

    assert (preview.jobs, preview.is_at_least) == (4, True)
    assert set(await desk.find_entries(wanted)) == set(ids)


async def test_another_owners_texts_are_not_searched(shop: World) -> None:
    await queue(shop, ["needle"], owner="bakery")
    ids = await queue(shop, ["needle"])

    assert await found(shop, input_has="needle") == ids
    theirs = QueueDesk(shop.database, ADA, owners=OneOwner("bakery"))
    assert await theirs.list(EntryFilter(input_has="needle")) == (), "their layout is not known"
