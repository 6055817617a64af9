from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from gandy.web.hardening import LARGEST_BODY
from tests.web.conftest import OPERATOR, READER, bearer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from contextlib import AbstractAsyncContextManager

    import httpx

    from gandy import Gandy

    Calls = Callable[..., AbstractAsyncContextManager[httpx.AsyncClient]]


def form_token(page: str) -> str:
    found = re.search(r'name="form_token" value="([\w-]+)"', page)
    assert found is not None
    return found[1]


async def test_a_token_opens_and_is_asked_for_on_this_machine_too(calls: Calls) -> None:
    async with calls() as client:
        refused = await client.get("/api/v1/runs")
        opened = await client.get("/api/v1/runs", headers=bearer(OPERATOR))

    assert (refused.status_code, opened.status_code) == (401, 200)
    assert refused.headers["www-authenticate"] == "Bearer"


async def test_a_wrong_token_says_so(calls: Calls) -> None:
    async with calls(headers=bearer("guess")) as client:
        answer = await client.get("/api/v1/runs")

    assert answer.status_code == 401
    assert answer.json()["type"] == "urn:gandy:problem:token-wrong"
    assert "guess" not in answer.text


async def test_a_read_only_token_reads(calls: Calls) -> None:
    async with calls(headers=bearer(READER)) as client:
        assert (await client.get("/api/v1/manifests")).status_code == 200


async def test_the_login_form_opens_a_session_that_scripts_cannot_read(calls: Calls) -> None:
    async with calls() as client:
        sent_away = await client.get("/runs")
        opened = await client.post("/login", data={"token": OPERATOR, "name": "Ada", "next": "/runs"})
        page = await client.get("/runs")

    assert sent_away.headers["location"] == "/login?next=/runs"
    assert opened.headers["location"] == "/runs"
    cookie = opened.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=lax" in cookie
    assert "secure" not in cookie
    assert "Ada" in page.text


async def test_the_cookie_is_secure_behind_tls(calls: Calls) -> None:
    async with calls(headers={"X-Forwarded-Proto": "https"}) as client:
        opened = await client.post("/login", data={"token": OPERATOR})

    assert "; secure" in opened.headers["set-cookie"].lower()


async def test_a_wrong_token_in_the_login_form_opens_nothing(calls: Calls) -> None:
    async with calls() as client:
        answer = await client.post("/login", data={"token": "guess"})

    assert answer.status_code == 401
    assert "set-cookie" not in answer.headers


@pytest.mark.parametrize("place", ["https://evil.example/", "//evil.example", "/\\evil.example"])
async def test_the_login_form_leads_nowhere_else(calls: Calls, place: str) -> None:
    async with calls() as client:
        opened = await client.post("/login", data={"token": OPERATOR, "next": place})

    assert opened.headers["location"] == "/"


async def test_a_form_of_our_own_page_is_accepted(calls: Calls, guarded: Gandy) -> None:
    await guarded.seed()
    async with calls() as client:
        await client.post("/login", data={"token": OPERATOR})
        page = await client.get("/manifests/nightly")
        answer = await client.post(
            "/manifests/nightly/disable",
            data={"form_token": form_token(page.text), "reason": "holidays"},
            headers={"Sec-Fetch-Site": "same-origin", "Origin": "http://127.0.0.1:8423"},
        )
        after = await client.get("/manifests/nightly")

    assert answer.status_code == 303
    assert "holidays" in after.text


async def test_a_form_of_another_session_is_refused(calls: Calls, guarded: Gandy) -> None:
    await guarded.seed()
    async with calls() as mine, calls() as theirs:
        await mine.post("/login", data={"token": OPERATOR})
        await theirs.post("/login", data={"token": OPERATOR})
        page = await theirs.get("/manifests/nightly")
        answer = await mine.post("/manifests/nightly/disable", data={"form_token": form_token(page.text)})

    assert answer.status_code == 403


@pytest.mark.parametrize("path", ["/login", "/healthz", "/api/v1/runs", "/static/app.css", "/nowhere"])
async def test_every_answer_forbids_inline_scripts_frames_and_guessing(calls: Calls, path: str) -> None:
    async with calls() as client:
        answer = await client.get(path)

    policy = answer.headers["content-security-policy"]
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert answer.headers["x-content-type-options"] == "nosniff"


async def test_a_body_that_is_too_large_is_refused(calls: Calls) -> None:
    async with calls(headers=bearer(OPERATOR)) as client:
        answer = await client.post("/api/v1/queue/enqueue", content=b"x" * (LARGEST_BODY + 1))

    assert answer.status_code == 413
    assert str(LARGEST_BODY) in answer.json()["detail"]


async def test_a_body_that_grows_too_large_on_its_way_is_refused(calls: Calls) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(3):
            yield b"x" * (LARGEST_BODY // 2)

    async with calls(headers=bearer(OPERATOR)) as client:
        answer = await client.post("/api/v1/queue/enqueue", content=chunks())

    assert answer.status_code == 413


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/api/v1/runs?limit=-1", "query.limit"),
        ("/api/v1/runs?limit=100000", "query.limit"),
        ("/api/v1/runs?before=-5", "query.before"),
        ("/api/v1/runs?before=99999999999999999999", "query.before"),
        ("/api/v1/runs?colour=red", "query.colour"),
        ("/api/v1/runs?state=lost", "query.state"),
        ("/api/v1/runs?train=%00", "query.train"),
        ("/api/v1/runs/0", "path.run_id"),
        ("/api/v1/manifests?prefix=" + "x" * 300, "query.prefix"),
    ],
)
async def test_a_parameter_out_of_bounds_is_refused_by_its_name(calls: Calls, path: str, said: str) -> None:
    async with calls(headers=bearer(OPERATOR)) as client:
        answer = await client.get(path)

    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"
    assert said in answer.json()["detail"]


async def test_malformed_json_is_refused(calls: Calls) -> None:
    async with calls(headers=bearer(OPERATOR)) as client:
        answer = await client.post(
            "/api/v1/queue/enqueue", content=b"{", headers={"Content-Type": "application/json"}
        )

    assert answer.status_code == 400
    assert answer.json()["type"] == "urn:gandy:problem:malformed-json"
