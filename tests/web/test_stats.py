"""Statistics and growth by REST and on their pages."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from gandy.store.drivers.opening import open_database
from gandy.store.stats.growth import TableSample, write_samples
from tests.web.conftest import browser_of

if TYPE_CHECKING:
    import httpx

    from gandy import Gandy


async def test_the_figures_of_each_train_come_for_the_hour_the_day_and_the_week(
    client: httpx.AsyncClient,
) -> None:
    items = (await client.get("/api/v1/stats")).json()["items"]

    assert {each["window"] for each in items} == {3_600.0, 86_400.0, 604_800.0}
    failing = [each for each in items if each["train"] == "read_feed"]
    assert {(each["failure_rate"], each["completed"]) for each in failing} == {(1.0, 0)}
    parcels = next(each for each in items if each["train"] == "send_parcel")
    assert parcels["duration_p50"] <= parcels["duration_p95"] <= parcels["duration_p99"]
    assert len(parcels["slots"]) == 60
    assert sum(slot["completed"] for slot in parcels["slots"]) == parcels["completed"] == parcels["runs"]


async def test_a_span_a_train_and_an_order_can_be_asked_for(client: httpx.AsyncClient) -> None:
    one = (await client.get("/api/v1/stats", params={"since": 7200, "train": "log_in"})).json()["items"]
    by_rate = (await client.get("/api/v1/stats", params={"since": 7200, "sort": "failure_rate"})).json()

    assert [each["train"] for each in one] == ["log_in"]
    assert by_rate["items"][0]["train"] == "read_feed"


@pytest.mark.parametrize("query", ["sort=colour", "since=1", "by=group", "limit=0", "colour=red"])
async def test_what_cannot_be_asked_is_refused(client: httpx.AsyncClient, query: str) -> None:
    assert (await client.get(f"/api/v1/stats?{query}")).status_code == 422


async def test_the_page_shows_a_window_sorted_by_a_column_with_charts_that_have_a_text(shop: Gandy) -> None:
    async with browser_of(shop) as browser:
        page = (await browser.get("/stats?window=hour&sort=failure_rate")).text

    rows = re.findall(r'<td class="of">.*?title="(\w+)"', page, re.DOTALL)
    assert rows[0] == "read_feed"
    assert re.search(r'aria-sort="descending">\s*<a href="[^"]*sort=failure_rate', page)
    assert 'aria-current="true">Last hour' in page
    charts = re.findall(r"<svg class=\"spark\".*?</svg>", page, re.DOTALL)
    assert charts
    assert all('role="img"' in chart and "<title>" in chart for chart in charts)
    assert "2 runs, 2 failed" in page


async def test_the_growth_of_tables_is_on_their_page_and_in_rest(
    shop: Gandy, client: httpx.AsyncClient
) -> None:
    database = open_database(shop.settings.database)
    await database.open()
    await database.run(write_samples("rules", [TableSample("outbox", 12_345, 4_096, 90.0)], owner="shop"))
    await database.close()

    [found] = (await client.get("/api/v1/lifecycle/growth")).json()["items"]
    async with browser_of(shop) as browser:
        page = (await browser.get("/tables")).text

    assert (found["table"], found["rows"], found["bytes"], found["lag"]) == ("outbox", 12_345, 4_096, 90.0)
    assert found["rows_in_30_days"] is None
    assert "outbox" in page
    assert "size: 4.0 KiB at first" in page
