"""Why it waits, what comes next, who did it: by REST and on pages, each leading to the others."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING

from tests.web.shop import Parcel, send_parcel

if TYPE_CHECKING:
    import httpx

    from gandy import Gandy

API = "/api/v1"


async def queue_behind_a_switched_off_group(client: httpx.AsyncClient, shop: Gandy) -> int:
    answer = await client.post(f"{API}/groups/etl/set", json={"is_enabled": False, "reason": "no relay"})
    assert answer.status_code == 200, answer.text
    job = await shop.enqueue(send_parcel, Parcel(address="Oslo"), group="etl")
    async with shop.running(("worker",)):
        pass
    return job.id


async def test_an_entry_says_what_it_waits_for_in_lists_by_its_id_and_on_its_page(
    client: httpx.AsyncClient, shop: Gandy
) -> None:
    entry_id = await queue_behind_a_switched_off_group(client, shop)

    listed = (await client.get(f"{API}/queue?group=etl&status=queued")).json()["items"]
    shown = (await client.get(f"{API}/queue/{entry_id}")).json()
    explained = (await client.get(f"{API}/queue/{entry_id}/explain")).json()
    page = (await client.get(f"/queue/{entry_id}")).text

    (entry,) = [each for each in listed if each["id"] == entry_id]
    assert entry["waits_for"] == shown["waits_for"] == explained["waits_for"] == "group"
    assert entry["why"] == "group etl is switched off by token: no relay"
    assert (shown["input"], shown["state"]) == ({"address": "Oslo", "weight": 1}, "queued")
    assert [each["holds"] for each in explained["conditions"]][:2] == [False, True]
    assert "gandy groups set etl --enable" in page
    assert 'href="/groups/etl"' in page


async def test_a_run_that_has_not_started_shows_its_entry(client: httpx.AsyncClient, shop: Gandy) -> None:
    job = await shop.enqueue(send_parcel, Parcel(address="Oslo"), delay=timedelta(hours=1))
    ended = (await client.get(f"{API}/runs?state=completed")).json()["items"][0]["id"]

    shown = (await client.get(f"{API}/runs/{job.id}")).json()
    page = await client.get(f"/runs/{job.id}")
    gone = await client.get(f"{API}/queue/{ended}")
    moved = await client.get(f"/queue/{ended}")

    assert (shown["state"], shown["waits_for"]) == ("queued", "time")
    assert (page.status_code, page.headers["location"]) == (303, f"/queue/{job.id}")
    assert (gone.status_code, "gandy runs show" in gone.json()["detail"]) == (404, True)
    assert (moved.status_code, moved.headers["location"]) == (303, f"/runs/{ended}")


async def test_run_letter_entry_and_manifest_lead_to_each_other_with_who_did_what(
    client: httpx.AsyncClient, shop: Gandy
) -> None:
    await shop.trigger("bad/feed")
    await shop.work(asyncio.Event(), until_idle=True)
    await shop.tick("manifest-manager")
    letter = next(
        each for each in (await client.get(f"{API}/dead-letters")).json()["items"] if each["manifest"]
    )
    letter_id, run_id = letter["id"], letter["run_id"]
    run_page = (await client.get(f"/runs/{run_id}")).text
    requeued = await client.post(f"{API}/dead-letters/requeue", json={"ids": [letter_id]})
    (entry,) = (await client.get(f"{API}/audit?on={letter_id}")).json()["items"][0]["detail"]["entries"]

    pages = {
        "letter": (await client.get(f"/dead-letters/{letter_id}")).text,
        "entry": (await client.get(f"/queue/{entry}")).text,
        "manifest": (await client.get(f"/manifests/{letter['manifest']}")).text,
    }

    assert requeued.status_code == 200
    assert f'href="/dead-letters/{letter_id}"' in run_page
    for name in ("letter", "entry"):
        assert f'href="/runs/{run_id}"' in pages[name], name
        assert "requeue dead letter" in pages[name], name
    assert f'href="/queue/{entry}"' in pages["letter"]
    assert f'href="/queue/{entry}"' in pages["manifest"]


async def test_the_trail_has_the_same_filters_in_rest_and_on_its_page(client: httpx.AsyncClient) -> None:
    await client.post(f"{API}/manifests/nightly/disable", json={"reason": "holidays"})
    await client.post(f"{API}/manifests/extract/disable")

    async def subjects(query: str) -> list[str]:
        return [each["subject"] for each in (await client.get(f"{API}/audit?{query}")).json()["items"]]

    assert await subjects("on=nightly") == ["nightly"]
    assert await subjects("by=token&since=3600&limit=1") == ["extract"]
    assert await subjects("by=eve") == []
    assert "holidays" in (await client.get("/audit?on=nightly&since=86400")).text
    assert "No matches" in (await client.get("/audit?by=eve&since=")).text
    assert (await client.get(f"{API}/audit?since=soon")).status_code == 422


async def test_what_comes_next_is_drawn_and_listed_page_by_page(client: httpx.AsyncClient) -> None:
    await client.post(f"{API}/manifests/nightly/disable", json={"reason": "holidays"})

    first = (await client.get(f"{API}/upcoming?within=172800&limit=1")).json()
    rest = (await client.get(f"{API}/upcoming", params={"within": 172800, "after": first["next"]})).json()
    page = (await client.get("/upcoming?within=172800")).text

    names = [each["external_id"] for each in (*first["items"], *rest["items"])]
    assert sorted(names) == ["bad/feed", "extract", "nightly"]
    (nightly,) = [each for each in (*first["items"], *rest["items"]) if each["external_id"] == "nightly"]
    assert (nightly["held_by"], len(nightly["instants"])) == ("disabled", 2)
    assert page.count("<svg") >= len(names)
    assert "it is switched off: holidays" in page
    for refused in ("within=0", "within=x", "after=x", "within=nan", "within=1e300"):
        assert (await client.get(f"{API}/upcoming?{refused}")).status_code == 422, refused


async def test_home_counts_what_is_held_by_its_cause(client: httpx.AsyncClient, shop: Gandy) -> None:
    await queue_behind_a_switched_off_group(client, shop)

    assert "group etl is switched off" in (await client.get("/")).text
