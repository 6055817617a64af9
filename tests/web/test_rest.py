from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from pydantic import SecretStr

from gandy import every
from tests.support.waiting import eventually
from tests.web.shop import EVIL, PASSWORD, Account, log_in, wait_for_ever

if TYPE_CHECKING:
    import httpx

    from gandy import Gandy

API = "/api/v1"


async def items(client: httpx.AsyncClient, path: str, **query: Any) -> list[dict[str, Any]]:  # noqa: ANN401 any parameter
    answer = await client.get(f"{API}{path}", params=query)
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["items"]
    return found


async def post(client: httpx.AsyncClient, path: str, body: object = None, **headers: str) -> dict[str, Any]:
    answer = await client.post(f"{API}{path}", json=body, headers=headers)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def test_runs_are_listed_newest_first_and_filtered(client: httpx.AsyncClient) -> None:
    runs = await items(client, "/runs")
    failed = await items(client, "/runs", state="failed", train="read_feed")

    assert [run["id"] for run in runs] == sorted((run["id"] for run in runs), reverse=True)
    assert {run["state"] for run in failed} == {"failed"}
    assert len(failed) == 2


async def test_pages_follow_each_other_without_gap_or_repetition(client: httpx.AsyncClient) -> None:
    everything = [run["id"] for run in await items(client, "/runs")]
    walked: list[int] = []
    before: int | None = None
    while True:
        query = {"limit": 1} if before is None else {"limit": 1, "before": before}
        page = (await client.get(f"{API}/runs", params=query)).json()
        walked += [run["id"] for run in page["items"]]
        before = page["next"]
        if before is None:
            break

    assert walked == everything


async def test_manifests_are_paged_by_their_ids(client: httpx.AsyncClient) -> None:
    first = (await client.get(f"{API}/manifests?limit=2")).json()
    second = (await client.get(f"{API}/manifests", params={"limit": 2, "after": first["next"]})).json()

    ids = [each["external_id"] for each in first["items"] + second["items"]]
    assert ids == ["bad/feed", "delta-7", "extract", "load"]


async def test_a_run_shows_its_timings_output_and_log(client: httpx.AsyncClient) -> None:
    (found,) = await items(client, "/runs", train="send_parcel")
    run = (await client.get(f"{API}/runs/{found['id']}")).json()
    lines = await items(client, f"/runs/{found['id']}/logs")

    assert run["output"] == "sent to Oslo"
    assert run["junctions"][0]["junction"] == "send_parcel"
    assert run["took"] >= 0
    assert [line["message"] for line in lines] == ["sent to Oslo"]


async def test_secrets_are_masked(client: httpx.AsyncClient) -> None:
    (found,) = await items(client, "/runs", train="log_in")
    answer = await client.get(f"{API}/runs/{found['id']}")
    page = await client.get(f"/runs/{found['id']}")

    assert answer.json()["input"] == {"user": "ada", "password": "**********"}
    assert PASSWORD not in answer.text + page.text


async def test_a_secret_that_an_operator_set_is_masked(client: httpx.AsyncClient, shop: Gandy) -> None:
    await shop.add_schedule("login", log_in, Account(user="ada", password=SecretStr("x")), every(hours=1))
    answer = await client.post(
        f"{API}/manifests/login/set", json={"input": {"user": "ada", "password": PASSWORD}}
    )
    page = await client.get("/manifests/login")
    trail = await client.get("/audit")

    assert answer.json()["overrides"]["input"]["password"] == "**********"
    assert PASSWORD not in answer.text + page.text + trail.text


async def test_a_failure_keeps_what_the_exception_said(client: httpx.AsyncClient) -> None:
    found = await items(client, "/runs", train="read_feed")
    run = (await client.get(f"{API}/runs/{found[0]['id']}")).json()

    assert run["failure_exception"] == "ValueError"
    assert EVIL in run["failure_reason"]


async def test_a_job_is_queued_once_for_one_key(client: httpx.AsyncClient) -> None:
    body = {"train": "send_parcel", "input": {"address": "Bergen"}, "delay": 3600}
    first = await post(client, "/queue/enqueue", body, **{"Idempotency-Key": "k1"})
    again = await post(client, "/queue/enqueue", body, **{"Idempotency-Key": "k1"})
    other = await post(client, "/queue/enqueue", body, **{"Idempotency-Key": "k2"})

    assert first["is_new"]
    assert again == {"id": first["id"], "is_new": False}
    assert other["id"] != first["id"]


async def test_requests_with_one_key_at_once_come_to_one_job(client: httpx.AsyncClient) -> None:
    body = {"train": "send_parcel", "input": {"address": "Bergen"}, "delay": 3600}
    answers = await asyncio.gather(
        *(post(client, "/queue/enqueue", body, **{"Idempotency-Key": "k"}) for _ in range(5))
    )

    assert len({answer["id"] for answer in answers}) == 1
    assert sum(answer["is_new"] for answer in answers) == 1


async def test_a_request_that_is_refused_does_not_use_up_its_key(client: httpx.AsyncClient) -> None:
    key = {"Idempotency-Key": "k"}
    refused = await client.post(
        f"{API}/queue/enqueue", json={"train": "send_parcel", "input": {"weight": 1}}, headers=key
    )
    assert refused.status_code == 422
    made = await post(
        client, "/queue/enqueue", {"train": "send_parcel", "input": {"address": "Bergen"}, "delay": 60}, **key
    )

    assert made["is_new"]


async def test_an_input_that_does_not_fit_is_refused_with_the_field(client: httpx.AsyncClient) -> None:
    answer = await client.post(f"{API}/queue/enqueue", json={"train": "send_parcel", "input": {"address": 7}})

    assert answer.status_code == 422
    assert answer.json()["type"] == "urn:gandy:problem:payload"
    assert "address" in answer.json()["detail"]


async def test_a_train_that_nobody_knows_is_not_found(client: httpx.AsyncClient) -> None:
    answer = await client.post(f"{API}/queue/enqueue", json={"train": "sned_parcel"})

    assert answer.status_code == 404
    assert "send_parcel" in answer.json()["detail"]


async def test_an_entry_is_cancelled(client: httpx.AsyncClient) -> None:
    waiting = await items(client, "/queue", status="queued", train="send_parcel")
    rome = next(entry for entry in waiting if entry["manifest"] is None)
    result = await post(client, f"/queue/{rome['id']}/cancel")
    after = await items(client, "/queue", status="cancelled")

    assert result["cancelled"] == [rome["id"]]
    assert [entry["id"] for entry in after] == [rome["id"]]


async def test_many_entries_are_cancelled_by_a_filter_or_their_ids(client: httpx.AsyncClient) -> None:
    queued = [entry["id"] for entry in await items(client, "/queue", status="undispatched")]
    train = {"train": "no_such_train"}

    unknown = await client.post(f"{API}/queue/cancel", json=train)
    assert (unknown.status_code, unknown.json()["type"]) == (404, "urn:gandy:problem:unknown-train")
    one = await post(client, "/queue/cancel", {"ids": [queued[0], 999_999]})
    assert (one["cancelled"], one["unknown"]) == ([queued[0]], [999_999])
    assert (await client.post(f"{API}/queue/cancel", json={"ids": [999_999]})).status_code == 404
    for body in ({}, {"ids": queued, **train}):
        refused = await client.post(f"{API}/queue/cancel", json=body)
        assert refused.status_code == 422
        assert "must be chosen by ids, or by" in refused.json()["detail"]
    assert set((await post(client, "/queue/cancel", {"status": "undispatched"}))["cancelled"]) == set(
        queued[1:]
    )


async def test_runs_that_have_not_ended_are_cancelled_by_a_filter(client: httpx.AsyncClient) -> None:
    assert (await post(client, "/runs/cancel", {"state": "in_progress"}))["over"] == []
    for body in ({}, {"state": "failed"}):
        assert (await client.post(f"{API}/runs/cancel", json=body)).status_code == 422


async def test_a_running_run_is_cancelled_and_its_progress_shown(
    client: httpx.AsyncClient, shop: Gandy
) -> None:
    async with shop.running(("worker",)):
        job = await shop.enqueue(wait_for_ever)

        async def progressing() -> bool:
            run = (await client.get(f"{API}/runs/{job.id}")).json()
            return bool(run.get("progress_done") == 3)

        await eventually(progressing, "the run reports its progress")
        page = await client.get(f"/runs/{job.id}")
        home = await client.get("/")
        result = await post(client, f"/runs/{job.id}/cancel")

        async def cancelled() -> bool:
            return bool((await client.get(f"{API}/runs/{job.id}")).json()["state"] == "cancelled")

        await eventually(cancelled, "the run is cancelled")

    assert 'max="10" value="3"' in page.text
    assert f'href="/runs/{job.id}"' in home.text
    assert result["asked"] == [job.id]


async def test_a_run_is_run_again_with_another_input(client: httpx.AsyncClient) -> None:
    (found,) = await items(client, "/runs", train="send_parcel")
    again = await post(client, f"/runs/{found['id']}/rerun", {"input": {"address": "Bergen"}})
    entry = next(each for each in await items(client, "/queue") if each["id"] == again["id"])

    assert entry["train"] == "send_parcel"
    assert again["is_new"]


async def test_a_run_is_failed_by_hand_and_what_is_over_is_a_conflict(
    client: httpx.AsyncClient, shop: Gandy
) -> None:
    (over,) = await items(client, "/runs", train="send_parcel")
    async with shop.running(("worker",)):
        job = await shop.enqueue(wait_for_ever, retry=False)

        async def running() -> bool:
            answer = await client.get(f"{API}/runs/{job.id}")
            return bool(answer.status_code == 200 and answer.json()["state"] == "in_progress")

        await eventually(running, "the run has begun")
        page = await client.get(f"/runs/{job.id}")
        failed = await post(client, f"/runs/{job.id}/fail", {"reason": "it hangs"})
        shown = (await client.get(f"{API}/runs/{job.id}")).json()

    assert f'action="/runs/{job.id}/fail"' in page.text
    assert (failed["state"], failed["next_attempt"]) == ("failed", None)
    assert (shown["failure_exception"], "it hangs" in shown["failure_reason"]) == ("FailedByOperator", True)
    again = await client.post(f"{API}/runs/{over['id']}/fail")
    assert (again.status_code, "is over" in again.json()["detail"]) == (409, True)
    assert (await client.post(f"{API}/runs/{over['id']}/fail", json={"reason": 7})).status_code == 422


async def test_a_run_that_is_not_there_is_not_found(client: httpx.AsyncClient) -> None:
    for path in ("/runs/999999/cancel", "/runs/999999/fail", "/runs/999999/rerun", "/queue/999999/cancel"):
        answer = await client.post(f"{API}{path}")
        assert answer.status_code == 404, path


async def test_a_manifest_is_triggered_paused_set_and_reset(client: httpx.AsyncClient) -> None:
    triggered = await post(client, "/manifests/nightly/trigger")
    paused = await post(client, "/manifests/nightly/disable", {"reason": "holidays"})
    changed = await post(
        client,
        "/manifests/nightly/set",
        {"cron": "30 4 * * *", "priority": 7, "exclude": [{"days": ["sun"]}]},
    )
    ahead = await post(client, "/manifests/nightly/set", {"next": "2090-01-02T04:30:00+00:00"})
    cancelled = await post(client, "/manifests/nightly/cancel")
    reset = await post(client, "/manifests/nightly/reset")

    assert not triggered["is_new"], "it waited already and was brought forward"
    assert paused["state"] == "disabled"
    assert (changed["priority"], "30 4" in changed["schedule"]) == (7, True)
    assert changed["exclusions"] == [{"days": ["sun"]}]
    assert ahead["next_scheduled_run"] == ahead["overrides"]["next"] == "2090-01-02T04:30:00Z"
    assert cancelled["cancelled"] == [triggered["id"]]
    assert (reset["state"], reset["overrides"]) == ("enabled", {})


async def test_what_a_schedule_may_be_is_the_same_here(client: httpx.AsyncClient) -> None:
    longest = "0 0 * * " + ",".join(["1"] * 121)
    refused = {
        "too long": {"cron": f"{longest},1,1"},
        "no nickname": {"cron": "@reboot"},
        "nothing left": {"cron": "0 3 * * *", "exclude": [{"start": "02:00", "end": "04:00"}]},
    }
    for said, body in refused.items():
        answer = await client.post(f"{API}/manifests/nightly/set", json=body)
        assert answer.status_code in {400, 422}, said

    taken = await post(client, "/manifests/nightly/set", {"cron": longest})
    daily = await post(client, "/manifests/nightly/set", {"cron": "@daily"})

    assert longest in taken["schedule"]
    assert "0 0 * * *" in daily["schedule"]


async def test_an_id_with_a_slash_is_reached(client: httpx.AsyncClient) -> None:
    shown = await client.get(f"{API}/manifests/bad/feed")
    explained = await client.get(f"{API}/manifests/bad/feed/explain")
    triggered = await post(client, "/manifests/bad/feed/trigger")

    assert shown.json()["external_id"] == "bad/feed"
    assert explained.json()["train"] == "read_feed"
    assert triggered["id"] > 0


async def test_the_instants_to_come_are_previewed(client: httpx.AsyncClient) -> None:
    found = await items(client, "/manifests/nightly/preview", count=3)

    assert len(found) == 3
    assert all("T03:00:00" in each["local"] for each in found)


async def test_a_declared_manifest_is_not_deleted(client: httpx.AsyncClient) -> None:
    answer = await client.post(f"{API}/manifests/nightly/delete")

    assert answer.status_code == 409
    assert answer.json()["type"] == "urn:gandy:problem:manifest-declared"


async def test_a_group_is_switched_off_changed_and_triggered(client: httpx.AsyncClient) -> None:
    off = await post(client, "/groups/etl/set", {"is_enabled": False, "reason": "audit"})
    wider = await post(client, "/groups/etl/set", {"max_active_jobs": 9})
    triggered = await post(client, "/groups/etl/trigger")
    cancelled = await post(client, "/groups/etl/cancel")
    reset = await post(client, "/groups/etl/reset")

    assert (off["is_enabled"], off["disabled_reason"]) == (False, "audit")
    assert wider["max_active_jobs"] == 9
    assert cancelled["cancelled"] == triggered["jobs"]
    assert (reset["is_enabled"], reset["max_active_jobs"]) == (True, 4)


async def test_nothing_to_set_is_refused(client: httpx.AsyncClient) -> None:
    answer = await client.post(f"{API}/groups/etl/set", json={})

    assert answer.status_code == 422
    assert "nothing to set" in answer.json()["detail"]


async def test_dead_letters_are_requeued_and_acknowledged(client: httpx.AsyncClient) -> None:
    letters = await items(client, "/dead-letters", status="awaiting_intervention")
    assert len(letters) == 2
    first, second = (letter["id"] for letter in letters)
    requeued = await post(client, f"/dead-letters/{first}/requeue", {"input": {"line": "mended"}})
    again = await post(client, f"/dead-letters/{first}/requeue")
    closed = await post(client, f"/dead-letters/{second}/acknowledge", {"note": "not needed"})

    assert requeued["resolved"] == [first]
    assert again["resolved_before"] == [first], "a second request changes nothing"
    assert closed["resolved"] == [second]
    assert (await client.get(f"{API}/dead-letters/{second}")).json()["resolution_note"] == "not needed"


async def test_all_dead_letters_are_resolved_at_once(client: httpx.AsyncClient) -> None:
    result = await post(client, "/dead-letters/acknowledge", {"all": True, "note": "known"})

    assert len(result["resolved"]) == 2
    assert await items(client, "/dead-letters", status="awaiting_intervention") == []


async def test_an_acknowledgement_needs_a_note(client: httpx.AsyncClient) -> None:
    answer = await client.post(f"{API}/dead-letters/1/acknowledge", json={"note": ""})

    assert answer.status_code == 422


async def test_workers_are_listed_and_drained(client: httpx.AsyncClient, shop: Gandy) -> None:
    async with shop.running(("worker",)):

        async def alive() -> list[dict[str, Any]]:
            return await items(client, "/workers", is_alive="true")

        (worker,) = await eventually(alive, "the worker is there")
        answer = await client.post(f"{API}/workers/{worker['id']}/drain")
        (draining,) = await items(client, "/workers", is_alive="true")

    assert answer.status_code == 204
    assert draining["state"] == "draining"


async def test_whatever_was_done_is_in_the_trail(client: httpx.AsyncClient) -> None:
    await post(client, "/manifests/nightly/disable", {"reason": "holidays"})
    trail = await client.get("/audit")

    assert "disable manifest" in trail.text
    assert "holidays" in trail.text
    assert '<span class="tag">api</span>' in trail.text


async def test_the_document_describes_every_listing(client: httpx.AsyncClient) -> None:
    document = (await client.get(f"{API}/openapi.json")).json()

    for path in ("/runs", "/trains", "/workers", "/queue", "/groups", "/dead-letters", "/lifecycle/tables"):
        answer = document["paths"][f"{API}{path}"]["get"]["responses"]["200"]
        assert "$ref" in answer["content"]["application/json"]["schema"]
