from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING

import httpx
import pytest

from gandy import Gandy
from tests.support.waiting import eventually
from tests.web.conftest import OPERATOR, browser_of, client_of, log_in
from tests.web.shop import EVIL, Parcel, make_shop, send_parcel, wait_for_ever
from tests.web.test_access import form_token

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

PAGES = [
    "/",
    "/manifests",
    "/groups",
    "/runs",
    "/queue",
    "/dead-letters",
    "/workers",
    "/trains",
    "/stats",
    "/tables",
    "/audit",
]


@pytest.fixture
async def client(shop: Gandy) -> AsyncIterator[httpx.AsyncClient]:
    """A browser in which an operator has logged in."""
    async with browser_of(shop) as found:
        yield found


@pytest.fixture
async def empty(sqlite_url: str) -> AsyncIterator[httpx.AsyncClient]:
    """The dashboard of an application that has done nothing yet."""
    async with make_shop(sqlite_url) as app, browser_of(app) as client:
        yield client


async def submit(client: httpx.AsyncClient, page: str, action: str, **fields: str) -> httpx.Response:
    """Send a form as a browser would: with the token of the page, from our own origin."""
    shown = await client.get(page)
    return await client.post(
        action,
        data={"form_token": form_token(shown.text), **fields},
        headers={"Sec-Fetch-Site": "same-origin"},
        follow_redirects=True,
    )


async def test_an_empty_page_of_a_search_that_stopped_does_not_say_that_there_is_nothing(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An application with many rows, beside newer ones of another."""
    monkeypatch.setattr("gandy.store.reading.listings.SEARCHED", 1)
    shop, smithy = make_shop(sqlite_url), Gandy("smithy", sqlite_url)
    smithy.train(send_parcel)
    async with shop as app, smithy as other:
        for each in (app, other):
            await each.enqueue_many(send_parcel, [Parcel(address="quay")] * 60, delay=timedelta(days=1))
        async with browser_of(app) as client:
            first = await client.get("/queue")
            following = await client.get(re.findall(r'href="(/queue[^"]*)" rel="next"', first.text)[0])

    assert "Nothing among the newest rows" in first.text
    assert "The queue is empty" not in first.text
    assert "Continue the search" in first.text
    assert "send_parcel" in following.text


async def test_each_application_of_a_process_shows_its_own_name(sqlite_url: str) -> None:
    titles = []
    for name in ("bakery", "smithy"):
        async with Gandy(name, sqlite_url) as app, client_of(app) as client:
            titles += re.findall("<title>(.*)</title>", (await client.get("/login")).text)

    assert titles == ["Log in · bakery · Gandy", "Log in · smithy · Gandy"]


async def test_every_page_shows_something_sensible_when_there_is_nothing(empty: httpx.AsyncClient) -> None:
    for path in PAGES:
        answer = await empty.get(path)

        assert answer.status_code == 200, path
        assert "<h1>" in answer.text


async def test_every_page_is_shown_with_content_whole_and_in_part(client: httpx.AsyncClient) -> None:
    for path in [*PAGES, "/manifests/bad/feed", "/groups/etl", "/dead-letters/1"]:
        whole = await client.get(path)
        part = await client.get(path, headers={"HX-Request": "true"})

        assert (whole.status_code, part.status_code) == (200, 200), path
        assert "<html" in whole.text
        assert "<html" not in part.text


async def test_no_page_has_a_script_or_a_style_in_it(client: httpx.AsyncClient) -> None:
    for path in PAGES:
        page = (await client.get(path)).text

        assert re.findall(r"<script(?![^>]*\bsrc=)", page) == [], path
        assert re.findall(r"<style|\sstyle=|\son\w+=", page) == [], path
        assert re.findall(r"(?:src|href)=\"https?://", page) == [], path


async def test_what_a_run_says_is_shown_as_text(client: httpx.AsyncClient) -> None:
    runs = (await client.get("/api/v1/runs?train=read_feed")).json()["items"]
    for path in ("/runs", f"/runs/{runs[0]['id']}", "/dead-letters", "/dead-letters/1"):
        page = (await client.get(path)).text

        assert EVIL not in page
        assert "&lt;script&gt;alert" in page


async def test_a_run_s_page_leaves_no_stored_value_out(client: httpx.AsyncClient) -> None:
    failed = (await client.get("/api/v1/runs", params={"state": "failed"})).json()["items"][0]
    run = (await client.get(f"/api/v1/runs/{failed['id']}")).json()
    page = (await client.get(f"/runs/{run['id']}")).text
    for label in ("Id", "Owner", "Worker id", "Keep until"):
        assert f"<dt>{label}</dt>" in page
    for name in ("train", "failure_exception", "owner", "worker_id"):
        assert str(run[name]) in page


async def test_an_unknown_page_is_a_page(client: httpx.AsyncClient) -> None:
    answer = await client.get("/nowhere")

    assert answer.status_code == 404
    assert "<h1>" not in answer.text or "Not Found" in answer.text
    assert answer.headers["content-type"].startswith("text/html")


async def test_the_home_page_says_what_needs_a_person(client: httpx.AsyncClient) -> None:
    page = (await client.get("/")).text

    assert "2 dead letters wait for a decision" in page


async def test_the_home_page_is_calm_when_nothing_does(empty: httpx.AsyncClient) -> None:
    assert "Nothing. No dead letters" in (await empty.get("/")).text


async def test_the_chart_counts_what_ended(client: httpx.AsyncClient) -> None:
    points = (await client.get("/charts/throughput")).json()
    ended, failed = (sum(series["values"]) for series in points["series"])

    assert (ended, failed) == (4, 2)
    assert len(points["at"]) == 60


async def test_a_manifest_is_found_by_the_beginning_of_its_id(client: httpx.AsyncClient) -> None:
    page = (await client.get("/manifests?q=night&state=enabled&train=")).text

    assert "/manifests/nightly" in page
    assert "/manifests/extract" not in page


async def test_the_graph_names_who_follows_whom(client: httpx.AsyncClient) -> None:
    page = (await client.get("/groups/etl")).text

    assert (
        "&#34;from&#34;: &#34;extract&#34;, &#34;to&#34;: &#34;load&#34;, &#34;kind&#34;: &#34;success&#34;"
        in page
    )
    assert "&#34;to&#34;: &#34;delta-7&#34;, &#34;kind&#34;: &#34;activation&#34;" in page


async def test_the_graph_and_the_page_of_a_manifest_show_every_parent_and_kind(
    client: httpx.AsyncClient, shop: Gandy
) -> None:
    await shop.add_schedule("merge", wait_for_ever, after=["extract", "load"], on="end")

    graph = (await client.get("/groups")).text
    page = (await client.get("/manifests/merge")).text

    for parent in ("extract", "load"):
        edge = f"'from': '{parent}', 'to': 'merge', 'kind': 'end', 'label': 'on any end'"
        assert edge.replace("'", "&#34;") in graph
        assert f'href="/manifests/{parent}"' in page
    assert "Follows each end of" in page
    assert "after any end of extract and load" in page


async def test_a_run_is_run_again_with_an_edited_form(client: httpx.AsyncClient) -> None:
    (run,) = (await client.get("/api/v1/runs?train=send_parcel")).json()["items"]
    form = {"field:address": "Bergen", "field:weight": "12"}
    answer = await submit(client, f"/runs/{run['id']}", f"/runs/{run['id']}/rerun", **form)

    assert "is queued again as" in answer.text


async def test_a_form_fails_a_run_and_the_page_of_one_that_is_over_offers_none(
    client: httpx.AsyncClient, shop: Gandy
) -> None:
    async with shop.running(("worker",)):
        job = await shop.enqueue(wait_for_ever, retry=False)

        async def running() -> bool:
            return "Fail…" in (await client.get(f"/runs/{job.id}")).text

        await eventually(running, "the run has begun")
        answer = await submit(client, f"/runs/{job.id}", f"/runs/{job.id}/fail", reason="it hangs")

    assert f"Run {job.id} is failed." in answer.text
    assert "Fail…" not in answer.text


async def test_a_form_with_a_value_that_does_not_fit_says_which(client: httpx.AsyncClient) -> None:
    (run,) = (await client.get("/api/v1/runs?train=send_parcel")).json()["items"]
    form = {"field:address": "Bergen", "field:weight": "heavy"}
    answer = await submit(client, f"/runs/{run['id']}", f"/runs/{run['id']}/rerun", **form)

    assert answer.status_code == 422
    assert "weight" in answer.text


async def test_a_manifest_is_changed_by_a_form_shows_it_and_is_cleared(client: httpx.AsyncClient) -> None:
    place = "/manifests/nightly"
    form = {
        "cron": "30 4 * * *",
        "timezone": "Asia/Tokyo",
        "timeout": "1h30m",
        "max_retries": "7",
        "exclude": '[{"days": ["sun"]}]',
        "retry": "",
        "group": "",
    }
    changed = await submit(client, f"{place}/set", f"{place}/set", **form)

    assert "Set by an operator" in changed.text
    shown = (await client.get(f"/api/v1{place}")).json()
    assert set(shown["overrides"]) == {"schedule", "timeout", "max_retries", "exclusions"}
    assert "30 4 * * *, Asia/Tokyo" in shown["schedule"]
    assert (shown["timeout"], shown["max_retries"]) == (5400.0, 7)
    assert "set manifest" in (await client.get("/audit")).text

    await submit(client, f"{place}/set", f"{place}/reset")
    assert (await client.get(f"/api/v1{place}")).json()["overrides"] == {}


async def test_an_instant_without_an_offset_is_in_the_zone_that_a_page_without_a_script_names(
    client: httpx.AsyncClient,
) -> None:
    place = "/manifests/nightly"
    await submit(client, f"{place}/set", f"{place}/set", next="2090-01-01 03:00")

    shown = (await client.get(f"/api/v1{place}")).json()
    assert shown["next_scheduled_run"] == "2090-01-01T03:00:00Z"


@pytest.mark.parametrize(
    ("form", "said"),
    [
        ({"timeout": "soon"}, "timeout"),
        ({"cron": "0 3 * * *", "every": "5m"}, "exclude each other"),
        ({"exclude": "weekends"}, "not JSON"),
        ({"input": '{"weight": 1}'}, "address"),
        ({"priority": "99"}, "priority"),
        ({"next": "2090-13-01T03:00:00"}, "time zone"),
        ({"next": "2020-01-01 03:00"}, "in the future"),
        ({"next": "2020-01-01T03:00:00Z"}, "in the future"),
        ({}, "nothing to set"),
    ],
)
async def test_a_change_that_does_not_fit_says_why_and_changes_nothing(
    client: httpx.AsyncClient, form: dict[str, str], said: str
) -> None:
    answer = await submit(client, "/manifests/nightly/set", "/manifests/nightly/set", **form)

    assert answer.status_code == 422
    assert said in answer.text
    assert (await client.get("/api/v1/manifests/nightly")).json()["overrides"] == {}


async def test_a_mask_is_filled_into_a_form_in_place_of_a_secret(client: httpx.AsyncClient) -> None:
    (run,) = (await client.get("/api/v1/runs?train=log_in")).json()["items"]
    page = (await client.get(f"/runs/{run['id']}")).text

    assert '<input type="password" name="field:password" value="**********"' in page


async def test_a_job_is_queued_from_a_train_s_form(client: httpx.AsyncClient) -> None:
    place = "/queue/new/send_parcel"
    answer = await submit(client, place, place, **{"field:address": "Bergen", "field:weight": "2"})

    assert "send_parcel is queued as" in answer.text


async def test_bulk_actions_say_how_many_they_are_about_first(client: httpx.AsyncClient) -> None:
    preview = await submit(client, "/dead-letters", "/dead-letters/preview", verb="acknowledge", scope="all")
    resolved = await submit(
        client, "/dead-letters", "/dead-letters/resolve", verb="acknowledge", scope="all", note="known"
    )

    assert "Acknowledge 2 dead letters?" in preview.text
    assert "2 acknowledged." in resolved.text


async def test_an_acknowledgement_without_a_note_changes_nothing(client: httpx.AsyncClient) -> None:
    answer = await submit(client, "/dead-letters", "/dead-letters/resolve", verb="acknowledge", scope="all")

    assert answer.status_code == 422
    assert len((await client.get("/api/v1/dead-letters?status=awaiting_intervention")).json()["items"]) == 2


async def test_a_group_is_switched_off_and_on(client: httpx.AsyncClient) -> None:
    off = await submit(client, "/groups/etl", "/groups/etl/disable", reason="audit")
    on = await submit(client, "/groups/etl", "/groups/etl/enable")

    assert "audit" in off.text
    assert "etl is on." in on.text


async def test_mounted_elsewhere_every_link_leads_there(shop: Gandy) -> None:
    from fastapi import FastAPI  # noqa: PLC0415 for this test alone

    shop.configure({"web": {"token": OPERATOR}})
    outer = FastAPI(lifespan=shop.lifespan)
    outer.mount("/ops/gandy", shop.asgi())
    transport = httpx.ASGITransport(outer, client=("127.0.0.1", 1))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        await log_in(client, at="/ops/gandy")
        page = await client.get("/ops/gandy/runs")
        answer = await submit(client, "/ops/gandy/manifests/nightly", "/ops/gandy/manifests/nightly/trigger")
        rest = await client.get("/ops/gandy/api/v1/runs")
        missing = await client.get("/ops/gandy/api/v1/runs/999999")

    links = set(re.findall(r'(?:href|src|action)="(/[^"]*)"', page.text))
    assert links
    assert all(link.startswith("/ops/gandy/") for link in links)
    assert "nightly" in answer.text
    assert rest.status_code == 200
    assert missing.json()["type"] == "urn:gandy:problem:run-not-found"


async def test_the_runs_of_gandys_own_trains_are_shown_on_request(
    shop: Gandy, client: httpx.AsyncClient
) -> None:
    await shop.tick("manifest-manager")
    hidden = (await client.get("/runs?state=completed")).text
    switch = "/runs?state=completed&amp;own=True"

    shown = (await client.get(switch.replace("&amp;", "&"))).text
    named = (await client.get("/runs?train=ManifestManagerTrain")).text

    assert f'<a href="{switch}">Show Gandy&#39;s own</a>' in hidden
    assert "ManifestManagerTrain</span>" not in hidden
    assert "send_parcel</span>" in hidden
    assert '<a href="/runs?state=completed">Hide Gandy&#39;s own</a>' in shown
    assert "ManifestManagerTrain</span>" in shown
    assert "ManifestManagerTrain</span>" in named
    assert "Gandy&#39;s own</a>" not in named
