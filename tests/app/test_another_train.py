"""A manifest that is declared with another train: what it still has to do is done by that one."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from gandy import Gandy, Run, every
from gandy.clock import ManualClock
from gandy.desk.audit import local_operator
from gandy.desk.dead_letters import DeadLetterDesk
from gandy.desk.queue import QueueDesk
from gandy.model.owners import OneOwner
from gandy.store.reading.listings import EntryFilter, LetterFilter

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
ME = local_operator("python")
OWNERS = OneOwner("shop")


class Versions:
    """Two versions of an application on one database: in the second its trains have other names."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.clock = ManualClock(NOW)
        self.ran: list[tuple[str, str]] = []
        self.fails = True
        self.is_child_on = True

    def make(self, version: str, *, during: Callable[[Run], Awaitable[None]] | None = None) -> Gandy:
        """Declare a parent with a dormant child, whose trains are named for the version."""
        app = Gandy("shop", self.url)
        app.use_clock(self.clock)

        @app.train(name=f"parent {version}", max_retries=2, retry_delay=timedelta(minutes=1))
        async def parent(what: str, run: Run) -> None:
            self.ran.append((run.train, what))
            if during is not None:
                await during(run)
            if self.fails:
                raise ValueError(what)

        @app.train(name=f"child {version}")
        async def child(what: str, run: Run) -> None:
            self.ran.append((run.train, what))

        every_hour = app.schedule("parent", parent, f"input {version}", every(hours=1))
        every_hour.then("child", child, "unused", dormant=True, enabled=self.is_child_on)
        return app

    async def until_idle(self, app: Gandy) -> None:
        """Evaluate and run until nothing is left that could run now."""
        for _ in range(4):
            await app.tick("manifest-manager")
            await app.tick("dispatcher")
            await app.work(asyncio.Event(), until_idle=True)

    async def left(self, app: Gandy) -> list[str]:
        """Name the trains of what has not run."""
        entries = await QueueDesk(app.database, ME, owners=OWNERS).list(EntryFilter(status="undispatched"))
        return [entry.train for entry in entries]


@pytest.fixture
def versions(migrated_url: str) -> Versions:
    return Versions(migrated_url)


@pytest.mark.pair("rename", "interval")
async def test_what_the_schedule_queued_runs_the_new_train_with_the_new_input(versions: Versions) -> None:
    async with versions.make("one") as app:
        await app.tick("manifest-manager")
        assert await versions.left(app) == ["parent one"]

    versions.fails = False
    async with versions.make("two") as app:
        await versions.until_idle(app)

    assert versions.ran == [("parent two", "input two")]


async def test_what_was_held_for_an_unknown_train_is_held_no_longer(versions: Versions) -> None:
    versions.fails = False
    async with versions.make("one") as app:
        await app.tick("manifest-manager")
    stranger = Gandy("shop", versions.url)
    stranger.use_clock(versions.clock)
    async with stranger:
        await versions.until_idle(stranger)

    async with versions.make("two") as app:
        await versions.until_idle(app)

    assert versions.ran == [("parent two", "input two")]


@pytest.mark.pair("rename", "interval")
async def test_a_retry_runs_the_new_train_with_its_own_input(versions: Versions) -> None:
    async with versions.make("one") as app:
        await versions.until_idle(app)

    versions.fails = False
    versions.clock.advance(timedelta(minutes=2))
    async with versions.make("two") as app:
        await versions.until_idle(app)

    assert versions.ran == [("parent one", "input one"), ("parent two", "input one")]


async def test_a_run_that_fails_after_the_change_is_retried_by_the_new_train(versions: Versions) -> None:
    async with versions.make("two") as two:

        async def deploy(_run: Run) -> None:
            await two.tick("manifest-manager")

        async with versions.make("one", during=deploy) as one:
            await one.tick("manifest-manager")
            await one.work(asyncio.Event(), until_idle=True)
        versions.fails = False
        versions.clock.advance(timedelta(minutes=2))
        await versions.until_idle(two)

    assert versions.ran == [("parent one", "input one"), ("parent two", "input one")]


@pytest.mark.pair("rename", "dormant")
async def test_activations_that_wait_run_the_new_train_in_their_order(versions: Versions) -> None:
    versions.fails = versions.is_child_on = False

    async def activate(run: Run) -> None:
        for what in ("a", "b", "c"):
            run.activate("child", what)

    async with versions.make("one", during=activate) as app:
        await app.tick("manifest-manager")
        await app.work(asyncio.Event(), until_idle=True)
        assert await versions.left(app) == ["child one"] * 3

    versions.is_child_on = True
    async with versions.make("two") as app:
        await versions.until_idle(app)

    assert versions.ran[1:] == [("child two", "a"), ("child two", "b"), ("child two", "c")]


async def test_a_letter_is_requeued_to_the_new_train(versions: Versions) -> None:
    async with versions.make("one") as app:
        await versions.until_idle(app)
        versions.clock.advance(timedelta(minutes=2))
        await versions.until_idle(app)
    assert len(versions.ran) == 2

    versions.fails = False
    async with versions.make("two") as app:
        await app.tick("manifest-manager")
        letters = DeadLetterDesk(app.database, ME, owners=OWNERS)
        await letters.requeue([letter.id for letter in await letters.list(LetterFilter())])
        await versions.until_idle(app)

    assert versions.ran[2:] == [("parent two", "input one")]
