"""Doors that once stood open, each tried from outside as it was found."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from gandy.errors import SettingsError
from tests.web.access.calling import Caller
from tests.web.access.credentials import _first_form, bearer
from tests.web.shop import make_shop

if TYPE_CHECKING:
    from gandy import Gandy

TOKEN = "sixteen-letters-and-more"
ENQUEUE = "/api/v1/queue/enqueue"
JOB = {"train": "wait_for_ever"}


def client(app: Gandy) -> httpx.AsyncClient:
    """A client on this machine, or behind a proxy on it that says nothing about itself."""
    asgi: Any = app.asgi()
    transport = httpx.ASGITransport(asgi, client=("127.0.0.1", 1), raise_app_exceptions=False)
    return httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1")


@pytest.mark.parametrize("text", ["Bearer ", "Bearer", "bearer  "])
@pytest.mark.parametrize("setting", ["token", "readonly_token"])
async def test_an_empty_token_opens_nothing_whichever_is_set(
    sqlite_url: str, setting: str, text: str
) -> None:
    async with make_shop(sqlite_url, **{setting: TOKEN}) as app, client(app) as visitor:
        read = await visitor.get("/api/v1/runs", headers={"Authorization": text})
        changed = await visitor.post(ENQUEUE, json=JOB, headers={"Authorization": text})

    assert (read.status_code, changed.status_code) == (401, 401)


@pytest.mark.parametrize(
    "others", [["wrong-token-of-someone"], [TOKEN], [""], ["one-more-token-here", TOKEN]]
)
@pytest.mark.parametrize("is_first", [True, False], ids=["the right one first", "the right one last"])
async def test_several_tokens_in_one_request_open_nothing(
    sqlite_url: str, others: list[str], *, is_first: bool
) -> None:
    tokens = [TOKEN, *others] if is_first else [*others, TOKEN]
    headers = [("Authorization", f"Bearer {token}") for token in tokens]
    async with make_shop(sqlite_url, token=TOKEN) as app, client(app) as visitor:
        read = await visitor.get("/api/v1/runs", headers=headers)
        changed = await visitor.post(ENQUEUE, json=JOB, headers=headers)

    assert (read.status_code, changed.status_code) == (400, 400)
    assert "send one" in read.json()["detail"]


async def test_a_body_that_no_one_may_send_is_not_waited_for(sqlite_url: str) -> None:
    sent: list[Any] = []

    async def receive() -> Any:  # noqa: ANN401 the interface's own
        raise AssertionError("the body is read")

    async def send(message: Any) -> None:  # noqa: ANN401 the same
        sent.append(message)

    async with make_shop(sqlite_url, token=TOKEN) as app:
        scope = Caller(app.asgi())._scope("POST", ENQUEUE, {"Content-Length": "2000000000"})
        await app.asgi()(scope, receive, send)

    assert sent[0]["status"] == 401


async def test_the_holder_of_the_read_only_token_cannot_sign_an_operators_session(sqlite_url: str) -> None:
    async with make_shop(sqlite_url, readonly_token=TOKEN) as app, client(app) as visitor:
        visitor.cookies.set("gandy_session", _first_form(sha256(TOKEN.encode()).digest()))
        answer = await visitor.get("/api/v1/runs")

    assert answer.status_code == 401


async def test_a_proxy_on_this_host_lets_no_one_in_without_a_token(sqlite_url: str) -> None:
    async with make_shop(sqlite_url) as app, client(app) as visitor:
        answers = [await visitor.get("/api/v1/runs"), await visitor.post(ENQUEUE, json=JOB)]
        probes = [await visitor.get("/healthz"), await visitor.get("/readyz")]

    assert [answer.status_code for answer in answers] == [503, 503]
    assert all("GANDY_WEB_TOKEN" in answer.json()["detail"] for answer in answers)
    assert [probe.status_code for probe in probes] == [200, 200]


async def test_a_cookie_is_worth_nothing_after_logging_out(sqlite_url: str) -> None:
    async with make_shop(sqlite_url, token=TOKEN) as app, client(app) as visitor:
        await visitor.post("/login", data={"token": TOKEN})
        kept = visitor.cookies["gandy_session"]
        assert (await visitor.get("/api/v1/runs")).status_code == 200
        await visitor.post("/logout")
        visitor.cookies.set("gandy_session", kept.strip('"'))

        assert (await visitor.get("/api/v1/runs")).status_code == 401


async def test_guesses_do_not_come_by_the_hundred(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr("asyncio.sleep", sleep)
    async with make_shop(sqlite_url, token=TOKEN) as app, client(app) as visitor:
        for number in range(20):
            answer = await visitor.get("/api/v1/runs", headers=bearer(f"guess-number-{number:04}"))
            assert answer.status_code == 401

    assert sum(slept) > 20


@pytest.mark.parametrize("setting", ["token", "readonly_token"])
def test_a_token_of_one_character_is_refused(sqlite_url: str, setting: str) -> None:
    with pytest.raises(SettingsError, match="at least 16"):
        make_shop(sqlite_url, **{setting: "x"}).asgi()
