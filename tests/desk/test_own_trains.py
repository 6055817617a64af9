"""Lists of runs with and without those of Gandy's own trains, at a bounded cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gandy.desk import runs as desk
from gandy.desk.runs import RunInsights
from gandy.store.reading.listings import RunFilter
from tests.support.history import Past
from tests.support.world import OWNERS

if TYPE_CHECKING:
    from tests.support.world import World


@pytest.fixture
def past(world: World) -> Past:
    return Past(world)


@pytest.fixture
def insights(world: World) -> RunInsights:
    return RunInsights(world.database, OWNERS)


async def pages_of(insights: RunInsights, wanted: RunFilter) -> list[list[int]]:
    """Read page by page until there is no next one."""
    pages: list[list[int]] = []
    before: int | None = None
    while not pages or before is not None:
        page = await insights.list(
            RunFilter(state=wanted.state, limit=wanted.limit, before=before), with_own=False
        )
        pages.append([run.id for run in page])
        before = None if page.next is None else int(page.next)
    return pages


async def test_gandys_own_runs_are_left_out_unless_they_are_wanted_or_named(
    past: Past, insights: RunInsights
) -> None:
    first = past.run("Sell")
    own = past.run("ManifestManagerTrain")
    last = past.run("Sell")

    everything = await insights.list(RunFilter())
    applications = await insights.list(RunFilter(), with_own=False)
    named = await insights.list(RunFilter(train="ManifestManagerTrain"), with_own=False)

    assert [run.id for run in everything] == [last, own, first]
    assert [run.id for run in applications] == [last, first]
    assert [run.id for run in named] == [own]
    assert (applications.next, applications.is_cut) == (None, False)


async def test_pages_without_gandys_own_are_full_and_find_every_run_once(
    past: Past, insights: RunInsights
) -> None:
    wanted = []
    for _ in range(5):
        for _ in range(4):
            past.run("TableMaintenanceTrain")
        wanted.append(past.run("Sell"))

    pages = await pages_of(insights, RunFilter(limit=2))

    assert pages == [wanted[:2:-1], wanted[2:0:-1], wanted[:1]]


async def test_only_own_runs_behind_the_last_page_make_no_further_one(
    past: Past, insights: RunInsights
) -> None:
    wanted = []
    for _ in range(2):
        past.run("JobDispatcherTrain")
        wanted.append(past.run("Sell"))

    assert await pages_of(insights, RunFilter(limit=2)) == [wanted[::-1]]


async def test_a_page_reads_over_own_runs_a_few_times_and_then_says_where_it_stopped(
    past: Past, insights: RunInsights, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(desk, "_FURTHER", (3,))
    rare = past.run("Sell")
    own = [past.run("MetadataCleanupTrain") for _ in range(8)]

    first = await insights.list(RunFilter(limit=2), with_own=False)
    second = await insights.list(RunFilter(limit=2, before=int(first.next or 0)), with_own=False)

    assert (list(first), first.next, first.is_cut) == ([], own[3], True)
    assert [run.id for run in second] == [rare]
    assert (second.next, second.is_cut) == (None, False)
