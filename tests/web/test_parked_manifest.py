"""A job whose dead letter waits goes on when the letter is resolved over HTTP, by whichever route."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from gandy import Gandy, every
from tests.support.backdating import MISSED, backdate_letters
from tests.web.conftest import client_of

if TYPE_CHECKING:
    import httpx

API = "/api/v1"
DOORS: list[tuple[str, dict[str, object]]] = [
    ("/dead-letters/1/requeue", {}),
    ("/dead-letters/1/acknowledge", {"note": "seen"}),
    ("/dead-letters/requeue", {"all": True}),
    ("/dead-letters/requeue", {"ids": [1]}),
    ("/dead-letters/acknowledge", {"all": True, "note": "seen"}),
    ("/dead-letters/acknowledge", {"ids": [1], "note": "seen"}),
]


@pytest.mark.parametrize(("path", "body"), DOORS)
async def test_a_resolution_settles_what_came_due_and_lets_the_job_go_on(
    migrated_url: str, path: str, body: dict[str, object]
) -> None:
    app = Gandy("billing", database=migrated_url)

    @app.train(max_retries=1)
    async def send(n: int) -> None:
        raise ValueError(n)

    app.schedule("hourly", send, 1, every(hours=1))
    async with app, client_of(app) as client:
        await app.tick("manifest-manager")
        await app.work(asyncio.Event(), until_idle=True)
        backdate_letters(migrated_url)
        assert await states(client) == [("parked", 1), ("parked", 1)]

        answer = await client.post(f"{API}{path}", json=body)

        assert answer.json()["resolved"] == [1]
        await says_what_was_skipped(client)
        assert "parked" not in dict(await states(client))


async def states(client: httpx.AsyncClient) -> list[tuple[str, int | None]]:
    """Ask the listing and the manifest itself."""
    (listed,) = (await client.get(f"{API}/manifests")).json()["items"]
    alone = (await client.get(f"{API}/manifests/hourly")).json()
    return [(each["state"], each["dead_letter_id"]) for each in (listed, alone)]


async def says_what_was_skipped(client: httpx.AsyncClient) -> None:
    explained = (await client.get(f"{API}/manifests/hourly/explain")).json()
    skipped = [line for line in explained["verdicts"] if line["verdict"] == "skipped: dead_letter"]
    assert [line["occurrences"] for line in skipped] == [MISSED]
    assert explained["next_instant"] > explained["now"]
