"""The work of another application in the same database, over HTTP: what can be seen and done is one's own."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from gandy import Gandy
from tests.support.worlds import migrated_url

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

__all__ = ["migrated_url"]

TOKEN = "an-operator-of-the-shop"


async def send(n: int) -> int:
    if not n:
        raise ValueError("nothing to send")
    return n


def make(name: str, url: str) -> Gandy:
    app = Gandy(name, url, web={"port": 0, "token": TOKEN})
    app.train(max_retries=1)(send)
    return app


@pytest.fixture
async def bakery(migrated_url: str) -> AsyncIterator[Gandy]:
    async with make("bakery", migrated_url) as app:
        yield app


@pytest.fixture
async def client(migrated_url: str) -> AsyncIterator[httpx.AsyncClient]:
    """The operator of the shop, which shares its database with the bakery."""
    async with make("shop", migrated_url) as app:
        asgi: Any = app.asgi()
        transport = httpx.ASGITransport(asgi, client=("127.0.0.1", 50_000))
        headers = {"Authorization": f"Bearer {TOKEN}"}
        async with httpx.AsyncClient(
            transport=transport, base_url="http://127.0.0.1:8423", headers=headers
        ) as found:
            yield found


async def test_its_jobs_are_neither_cancelled_nor_run_again(bakery: Gandy, client: httpx.AsyncClient) -> None:
    done = await bakery.enqueue(send, 1)
    await bakery.work(asyncio.Event(), until_idle=True)
    waiting = await bakery.enqueue(send, 2, delay=timedelta(days=1))

    for path in (f"/api/v1/runs/{waiting.id}/cancel", f"/api/v1/queue/{waiting.id}/cancel"):
        assert (await client.post(path)).status_code == 404
    for path in (f"/runs/{waiting.id}/cancel", f"/queue/{waiting.id}/cancel"):
        assert (await client.post(path, data={})).status_code == 404
    again = await client.post(f"/api/v1/runs/{done.id}/rerun", json={"input": 99})
    assert again.status_code == 404

    async with _of(bakery) as own:
        queued = (await own.get("/api/v1/queue?status=queued")).json()["items"]
    assert [entry["id"] for entry in queued] == [waiting.id]


async def test_its_dead_letters_are_not_resolved_in_bulk(bakery: Gandy, client: httpx.AsyncClient) -> None:
    await bakery.enqueue_many(send, [0, 0, 0])
    await bakery.work(asyncio.Event(), until_idle=True)
    async with _of(bakery) as own:
        before = (await own.get("/api/v1/dead-letters")).json()["items"]
    ids = [letter["id"] for letter in before]

    assert (await client.post("/api/v1/dead-letters/requeue", json={"ids": ids})).status_code == 404
    body = {"ids": ids, "note": "no"}
    assert (await client.post("/api/v1/dead-letters/acknowledge", json=body)).status_code == 404
    for verb in ("requeue", "acknowledge"):
        form = {"verb": verb, "scope": "selected", "ids": ids, "note": "no"}
        assert (await client.post("/dead-letters/resolve", data=form)).status_code == 404
        await client.post("/dead-letters/resolve", data={"verb": verb, "scope": "all", "note": "no"})

    async with _of(bakery) as own:
        assert (await own.get("/api/v1/dead-letters")).json()["items"] == before
    assert [letter["status"] for letter in before] == ["awaiting_intervention"] * 3


async def test_both_may_use_the_same_external_id(bakery: Gandy, client: httpx.AsyncClient) -> None:
    await bakery.add_schedule("nightly", send, 1)
    assert (await client.get("/api/v1/manifests/nightly")).status_code == 404
    async with make("shop", bakery.settings.database.url) as shop:
        await shop.add_schedule("nightly", send, 2)

    assert (await client.get("/api/v1/manifests/nightly")).json()["input"] == 2
    assert (await client.post("/api/v1/manifests/nightly/delete")).status_code == 200
    async with _of(bakery) as own:
        assert (await own.get("/api/v1/manifests/nightly")).json()["input"] == 1


def _of(app: Gandy) -> httpx.AsyncClient:
    asgi: Any = app.asgi()
    transport = httpx.ASGITransport(asgi, client=("127.0.0.1", 50_000))
    headers = {"Authorization": f"Bearer {TOKEN}"}
    return httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8423", headers=headers)
