"""Choosing among many jobs by REST and on pages: filters, orders, previews, confirmations."""

from __future__ import annotations

import html
import re
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest

from tests.web.conftest import browser_of
from tests.web.shop import PASSWORD
from tests.web.test_pages import submit

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import httpx

    from gandy import Gandy

API = "/api/v1"


@pytest.fixture
async def pages(shop: Gandy) -> AsyncIterator[httpx.AsyncClient]:
    """A browser in which an operator has logged in."""
    async with browser_of(shop) as found:
        yield found


async def found(client: httpx.AsyncClient, noun: str, **query: object) -> dict[str, Any]:
    answer = await client.get(f"{API}/{noun}", params={key: str(value) for key, value in query.items()})
    assert answer.status_code == 200, answer.text
    page: dict[str, Any] = answer.json()
    return page


async def changed(client: httpx.AsyncClient, place: str, **body: object) -> dict[str, Any]:
    answer = await client.post(f"{API}/{place}", json=body)
    assert answer.status_code == 200, answer.text
    result: dict[str, Any] = answer.json()
    return result


async def test_a_search_in_texts_is_in_the_envelope_of_the_answer(client: httpx.AsyncClient) -> None:
    errors = await found(client, "runs", error_has="CANNOT READ", state="failed")
    inputs = await found(client, "runs", input_has="oslo", since="1h")
    letters = await found(client, "dead-letters", error_has="cannot read", input_has='"line": "a"')
    plain = await found(client, "runs", since=3_600)

    assert {run["train"] for run in errors["items"]} == {"read_feed"}
    assert errors["looked"]["rows"] == len(errors["items"])
    assert [run["train"] for run in inputs["items"]] == ["send_parcel"]
    assert inputs["looked"]["back_to"] is not None
    assert len(letters["items"]) == 1
    assert plain["looked"] is None
    assert len(plain["items"]) >= 4


async def test_a_password_is_not_found(client: httpx.AsyncClient) -> None:
    for noun in ("runs", "queue", "dead-letters"):
        page = await found(client, noun, input_has=PASSWORD)
        assert (page["items"], page["next"], page["is_cut"]) == ([], None, False)
    assert [run["train"] for run in (await found(client, "runs", input_has='"ada"'))["items"]] == ["log_in"]


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("runs?sort=took", "'id' or 'start_time'"),
        ("runs?sort=start_time", "with a train and a single owner also start_time"),
        ("queue?sort=priority", "'id' or 'scheduled_at'"),
        ("dead-letters?sort=resolved_at", "with status retried or acknowledged also resolved_at"),
        ("runs?since=yesterday", "before now, or a datetime"),
    ],
)
async def test_what_cannot_be_served_is_refused_with_what_can(
    client: httpx.AsyncClient, place: str, said: str
) -> None:
    answer = await client.get(f"{API}/{place}")

    assert answer.status_code == 422
    assert said in answer.text


async def test_a_bulk_change_by_rest_is_previewed_and_then_done(client: httpx.AsyncClient) -> None:
    chosen = {"train": "read_feed", "state": "failed"}
    preview = await changed(client, "runs/rerun", **chosen, preview=True)
    assert preview["preview"]
    assert preview["parts"] == [{"train": "read_feed", "state": "failed", "jobs": preview["jobs"]}]
    assert (await found(client, "queue", train="read_feed", status="queued"))["items"] == []

    done = await changed(client, "runs/rerun", **chosen)
    assert sorted(each["repeats"] for each in done["rerun"]) == sorted(preview["ids"])

    queued = {"train": "read_feed", "since": 3_600}
    assert (await changed(client, "queue/cancel", **queued, preview=True))["jobs"] == len(done["rerun"])
    assert len((await changed(client, "queue/cancel", **queued))["cancelled"]) == len(done["rerun"])

    by_text = {"input_has": '"line":"b"', "note": "seen"}
    letters = await changed(client, "dead-letters/acknowledge", **by_text, all=True, preview=True)
    assert letters["jobs"] == 1
    assert letters["looked"]["rows"] >= 1
    closed = await changed(client, "dead-letters/acknowledge", **by_text, all=True)
    assert closed["resolved"] == letters["ids"]
    actions = {deed["action"] for deed in (await found(client, "audit"))["items"]}
    assert {"rerun", "cancel run"} <= actions


async def test_a_preview_of_ids_and_a_change_of_everything_are_refused(client: httpx.AsyncClient) -> None:
    for body in ({"ids": [1], "preview": True}, {}, {"ids": [1], "train": "send_parcel"}):
        for place in ("runs/cancel", "runs/rerun", "queue/cancel"):
            assert (await client.post(f"{API}/{place}", json=body)).status_code == 422, (place, body)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({}, "must be chosen by ids, or by all=True, not by nothing"),
        ({"train": "read_feed"}, "must be chosen by ids, or by all=True, not by nothing"),
        ({"train": "read_feed", "preview": True}, "must be chosen by ids, or by all=True, not by nothing"),
        ({"ids": [1], "all": True}, "must be chosen by ids, or by all=True, not by both"),
        ({"ids": [1], "train": "read_feed"}, "filters must be given with all=True"),
        ({"ids": []}, "at least 1 item"),
        ({"ids": [], "all": True}, "at least 1 item"),
    ],
)
async def test_letters_are_chosen_by_ids_or_by_all(
    client: httpx.AsyncClient, body: dict[str, Any], said: str
) -> None:
    before = await found(client, "dead-letters")
    for verb, more in (("requeue", {}), ("acknowledge", {"note": "seen"})):
        answer = await client.post(f"{API}/dead-letters/{verb}", json={**body, **more})
        assert answer.status_code == 422, (verb, answer.text)
        assert said in answer.text
    assert await found(client, "dead-letters") == before


async def test_an_empty_list_of_ids_is_not_a_filter(client: httpx.AsyncClient) -> None:
    for place in ("runs/cancel", "runs/rerun", "queue/cancel"):
        answer = await client.post(f"{API}/{place}", json={"ids": [], "train": "send_parcel"})
        assert answer.status_code == 422, (place, answer.text)


async def test_runs_of_a_filter_are_repeated_after_a_confirmation(pages: httpx.AsyncClient) -> None:
    listing = "/runs?state=failed&error_has=cannot+read"
    shown = (await pages.get(listing)).text
    assert "all that match the filters" in shown
    assert "Looked at the texts of the newest" in shown
    fields = {"verb": "rerun", "scope": "all", "state": "failed", "error_has": "cannot read"}

    asked = await submit(pages, listing, "/runs/preview", **fields)
    number = re.search(r"Rerun (\d+) runs\?", asked.text)
    assert number is not None
    assert "read_feed" in asked.text
    assert (await found(pages, "queue", train="read_feed", status="queued"))["items"] == []

    done = await submit(pages, listing, "/runs/apply", **fields)
    assert f"{number[1]} queued again." in done.text


FORM_FIELD = re.compile(r'<input type="hidden" name="(?!form_token)(\w+)" value="([^"]*)">')

BULK_PAGES = [
    ("/runs", "/runs/apply", {"verb": "rerun", "state": "failed", "train": "read_feed"}),
    ("/queue", "/queue/apply", {"verb": "cancel", "train": "send_parcel"}),
    ("/dead-letters", "/dead-letters/resolve", {"verb": "requeue", "train": "read_feed"}),
    ("/dead-letters", "/dead-letters/resolve", {"verb": "acknowledge", "train": "read_feed", "note": "seen"}),
]


def hidden_fields(page: str) -> dict[str, str]:
    return {name: html.unescape(value) for name, value in FORM_FIELD.findall(page)}


@pytest.mark.parametrize(("listing", "action", "fields"), BULK_PAGES)
async def test_the_form_of_a_confirmation_names_what_was_shown(
    pages: httpx.AsyncClient, listing: str, action: str, fields: dict[str, str]
) -> None:
    asked = await submit(pages, listing, f"{listing}/preview", **fields, scope="all")
    shown = re.search(r'Ids: <span class="mono">([\d, ]+)</span>', asked.text)
    assert shown is not None
    hidden = hidden_fields(asked.text)

    assert hidden["scope"] == "selected"
    assert hidden["ids"] == shown[1].replace(" ", "")
    assert "train" not in hidden
    note = {"note": fields["note"]} if "note" in fields else {}
    done = await submit(pages, listing, action, **hidden, **note)
    assert done.status_code == 200, done.text
    number = len(hidden["ids"].split(","))
    assert re.search(rf"\b{number} (queued again|cancelled|requeued|acknowledged)\.", done.text)


@pytest.mark.parametrize(("listing", "action", "fields"), BULK_PAGES)
async def test_a_confirmation_that_cannot_name_all_is_bounded_by_the_newest(
    pages: httpx.AsyncClient,
    listing: str,
    action: str,
    fields: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("gandy.desk.choosing.walks.MOST_NAMED", 0)

    asked = await submit(pages, listing, f"{listing}/preview", **fields, scope="all", since="2h")

    hidden = hidden_fields(asked.text)
    assert hidden["scope"] == "all"
    assert hidden["train"] == fields["train"]
    assert datetime.fromisoformat(hidden["since"]).tzinfo is not None
    newest = int(hidden["before"]) - 1
    assert f"up to the id {newest}; one that comes to match meanwhile is included" in asked.text
    note = {"note": fields["note"]} if "note" in fields else {}
    nothing = await submit(pages, listing, action, **{**hidden, **note, "before": "1"})
    assert re.search(r"\b0 (queued again|cancelled|requeued|acknowledged)\.", nothing.text)
    done = await submit(pages, listing, action, **hidden, **note)
    assert re.search(r"\b[1-9]\d* (queued again|cancelled|requeued|acknowledged)\.", done.text)


async def test_selected_rows_are_changed_and_their_filters_are_not(pages: httpx.AsyncClient) -> None:
    (entry, *_) = (await found(pages, "queue", status="queued", gate="time"))["items"]
    fields = {"verb": "cancel", "scope": "selected", "train": "nobody", "ids": str(entry["id"])}

    asked = await submit(pages, "/queue", "/queue/preview", **fields)
    assert "Cancel 1 entry?" in asked.text
    assert "1 cancelled." in (await submit(pages, "/queue", "/queue/apply", **fields)).text

    nothing = await submit(pages, "/runs", "/runs/preview", verb="cancel", scope="selected")
    assert "Select some rows first." in nothing.text


@pytest.mark.parametrize(
    ("place", "fields"),
    [
        ("/runs/apply", {"verb": "cancel", "train": "send_parcel"}),
        ("/runs/apply", {"verb": "rerun", "state": "failed"}),
        ("/queue/apply", {"verb": "cancel", "train": "send_parcel"}),
        ("/dead-letters/resolve", {"verb": "requeue", "train": "read_feed"}),
        ("/dead-letters/resolve", {"verb": "acknowledge", "note": "seen"}),
    ],
)
async def test_no_selected_row_is_not_a_filter(
    pages: httpx.AsyncClient, place: str, fields: dict[str, str]
) -> None:
    before = await everything(pages)

    refused = await submit(pages, place.rpartition("/")[0], place, **fields, scope="selected")

    assert refused.status_code == 422
    assert "must be chosen by ids" in refused.text
    assert await everything(pages) == before


async def everything(client: httpx.AsyncClient) -> list[list[dict[str, Any]]]:
    """List what can be chosen, but for how long each waits yet: that is less at every look."""
    pages = [await found(client, noun) for noun in ("runs", "queue", "dead-letters")]
    return [
        [{name: value for name, value in each.items() if name != "why"} for each in page["items"]]
        for page in pages
    ]


async def test_a_heading_sorts_where_an_index_serves_it(pages: httpx.AsyncClient) -> None:
    assert "sort=start_time" not in (await pages.get("/runs")).text
    of_a_train = (await pages.get("/runs?train=send_parcel")).text
    assert 'href="/runs?train=send_parcel&amp;sort=start_time"' in of_a_train
    sorted_page = (await pages.get("/runs?train=send_parcel&sort=start_time")).text
    assert 'aria-sort="descending"' in sorted_page
    assert "sort=scheduled_at" in (await pages.get("/queue?gate=time")).text
    fields = {"verb": "acknowledge", "scope": "all", "note": "seen"}
    await submit(pages, "/dead-letters", "/dead-letters/resolve", **fields)
    assert "sort=resolved_at" in (await pages.get("/dead-letters?status=acknowledged")).text
    assert (await pages.get("/runs?sort=start_time")).status_code == 200, "a lost filter is no error"


async def test_a_link_to_another_page_keeps_the_filters_as_they_were_typed(pages: httpx.AsyncClient) -> None:
    shown = (await pages.get("/runs?since=2h&train=send_parcel&error_has=x")).text

    assert 'value="2h"' in shown
    assert "since=2h" in shown
    assert (await pages.get("/runs?since=someday")).status_code == 422


async def test_a_name_that_nothing_has_is_told_on_pages_and_refused_by_verbs(
    client: httpx.AsyncClient, pages: httpx.AsyncClient
) -> None:
    wrong = ({"train": "send_parcle"}, {"group": "elt"}, {"manifest": "nigtly"})
    for noun in ("runs", "queue", "dead-letters"):
        for query in wrong:
            page = await found(client, noun, **query)
            assert (page["items"], page["next"], page["is_cut"]) == ([], None, False)
            text = (await pages.get(f"/{noun}", params=query)).text
            assert next(iter(query.values())) in text.split("stopped note")[1]
            assert "row limit" not in text
    for place in ("runs/cancel", "runs/rerun", "queue/cancel"):
        for query in wrong:
            for is_preview in (True, False):
                answer = await client.post(f"{API}/{place}", json={**query, "preview": is_preview})
                assert answer.status_code == 404, (place, query, answer.text)
    train = (await pages.get("/runs", params={"train": "send_parcle"})).text
    assert "did you mean send_parcel" in train
