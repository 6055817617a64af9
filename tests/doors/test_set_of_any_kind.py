"""A value is set on a manifest of any kind, at every door; a schedule cannot replace those of some kinds."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from gandy import Gandy, cron, every
from gandy.errors import GandyError
from gandy.store.drivers.opening import migrate
from tests.cli.process import run_gandy
from tests.web.conftest import client_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

REFUSED = "only a cron, an interval or a manual schedule can be replaced"
#: How the new version of the application declares the manifest.
KINDS: dict[str, Callable[[Gandy, Any], object]] = {
    "once": lambda app, train: app.schedule_once("news", train, delay=timedelta(hours=1)),
    "dependent": lambda app, train: app.schedule("news", train, after="parent"),
    "dormant": lambda app, train: app.schedule("parent-2", train).then("news", train, dormant=True),
    "of two parents": lambda app, train: app.schedule(
        "news", train, after=[app.schedule("first", train), app.schedule("second", train)]
    ),
    "manual": lambda app, train: app.schedule("news", train),
}


def version(url: str, declare: Callable[[Gandy, Any], object]) -> Gandy:
    app = Gandy("shop", url)

    @app.train
    async def read() -> None: ...

    app.schedule("parent", read)
    declare(app, read)
    return app


class Doors:
    """Set values of the manifest, each time at one door; gives what the door says, or None if it was done."""

    def __init__(self, app: Gandy, url: str, folder: Path) -> None:
        self.app = app
        self.url = url
        self.folder = folder

    async def python(self, **values: int | str) -> str | None:
        schedule = {"schedule": cron(str(values.pop("cron")))} if "cron" in values else {}
        try:
            await self.app.manifests.set("news", **schedule, **values)  # type: ignore[arg-type]
        except GandyError as error:
            return str(error)
        return None

    async def command_line(self, **values: int | str) -> str | None:
        words = [word for name, value in values.items() for word in (f"--{name}", str(value))]
        at = ("--owner", "shop", "--database", self.url)
        done = await asyncio.to_thread(run_gandy, self.folder, *at, "manifests", "set", "news", *words)
        return done.stderr if done.returncode else None

    async def rest(self, **values: int | str) -> str | None:
        async with client_of(self.app) as client:
            answer = await client.post("/api/v1/manifests/news/set", json=values)
        return None if answer.is_success else answer.text

    async def page(self, **values: int | str) -> str | None:
        async with client_of(self.app) as client:
            answer = await client.post("/manifests/news/set", data=values)
        return answer.text if answer.is_error else None


@pytest.mark.timeout(120)
@pytest.mark.parametrize("kind", KINDS)
async def test_a_priority_is_set_beside_a_schedule_that_an_operator_had_set(
    kind: str, database_url: str, tmp_path: Path
) -> None:
    migrate(database_url)
    async with version(
        database_url, lambda app, train: app.schedule("news", train, cron("@daily"))
    ) as before:
        await before.seed()
        await before.manifests.set("news", schedule=every(minutes=5))
    async with version(database_url, KINDS[kind]) as app:
        await app.seed()
        at = Doors(app, database_url, tmp_path)
        shown = (await app.manifests.show("news")).schedule
        for number, door in enumerate((at.python, at.command_line, at.rest, at.page), 3):
            assert await door(priority=number) is None
            detail = await app.manifests.show("news")
            assert (detail.priority, detail.schedule) == (number, shown)
            refused = await door(cron="@hourly")
            assert (REFUSED in (refused or "")) == (kind != "manual")
            shown = (await app.manifests.show("news")).schedule
            assert (await app.manifests.show("news")).priority == number
