"""A once that has run is remembered for thirty days, so that a rollback does not run it again."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from gandy import Gandy, Run
from gandy.clock import ManualClock
from gandy.desk.audit import local_operator
from gandy.desk.cancelling import CancelDesk
from gandy.desk.manifests import ManifestDesk
from gandy.errors import ManifestNotFoundError
from gandy.model.owners import OneOwner
from gandy.model.schedule import Once

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
ME = local_operator("cli")
OWNERS = OneOwner("shop")


class Deploys:
    """Versions of one application that follow each other on one database, under one clock."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.clock = ManualClock(NOW)
        self.ran: list[str] = []

    async def deploy(self, *, declares: bool, fails: bool = False, made: bool = False) -> None:
        """Run one version for a while, with its upkeep."""
        app = Gandy("shop", self.url)
        app.use_clock(self.clock)

        @app.train(retry=False)
        async def migrate(name: str) -> None:
            self.ran.append(name)
            if fails:
                raise ValueError(name)

        app.schedule("other", migrate, "other")
        if declares:
            app.schedule_once("move-data", migrate, "move", at=NOW)
        async with app:
            await app.tick("manifest-manager")
            if made:
                await app.add_schedule("move-data", migrate, "move", Once(at=NOW))
            await app.tick("manifest-manager")
            await app.work(asyncio.Event(), until_idle=True)
            await app.tick("lifecycle")

    async def is_known(self) -> bool:
        app = Gandy("shop", self.url)
        app.use_clock(self.clock)
        async with app:
            try:
                await ManifestDesk(app.database, ME, owners=OWNERS).show("move-data")
            except ManifestNotFoundError:
                return False
        return True


@pytest.fixture
def deploys(migrated_url: str) -> Deploys:
    return Deploys(migrated_url)


@pytest.mark.parametrize("fails", [False, True], ids=["completed", "failed for the last time"])
@pytest.mark.parametrize("days", [1.5, 10, 29])
async def test_a_rollback_does_not_run_a_once_again(deploys: Deploys, days: float, fails: bool) -> None:
    await deploys.deploy(declares=True, fails=fails)
    assert deploys.ran == ["move"]
    await deploys.deploy(declares=False)
    deploys.clock.advance(timedelta(days=days))
    await deploys.deploy(declares=False)

    await deploys.deploy(declares=True)

    assert deploys.ran == ["move"]


@pytest.mark.parametrize("made", [False, True], ids=["declared", "made at run time"])
async def test_the_way_to_another_instant_and_back_repeats_none(migrated_url: str, made: bool) -> None:
    clock, ran = ManualClock(NOW), list[datetime | None]()
    first, second = NOW - timedelta(hours=1), NOW + timedelta(hours=1)
    for at in (first, second, first, second, first):
        app = Gandy("shop", migrated_url)
        app.use_clock(clock)

        @app.train
        async def migrate(run: Run) -> None:
            ran.append(run.due_at)

        if not made:
            app.schedule_once("move-data", migrate, at=at)
        async with app:
            if made:
                await app.add_schedule("move-data", migrate, schedule=Once(at=at))
            for _ in range(2):
                await app.tick("manifest-manager")
                await app.work(asyncio.Event(), until_idle=True)
                clock.advance(timedelta(hours=1))
                await app.tick("lifecycle")
            shown = await ManifestDesk(app.database, ME, owners=OWNERS).show("move-data")
            assert shown.completed_at is not None

    assert ran == [first, second]


async def test_a_once_that_left_the_code_is_forgotten_thirty_days_after_its_completion(
    deploys: Deploys,
) -> None:
    await deploys.deploy(declares=True)
    await deploys.deploy(declares=False)
    deploys.clock.advance(timedelta(days=29))
    await deploys.deploy(declares=False)
    assert await deploys.is_known()

    deploys.clock.advance(timedelta(days=2))
    await deploys.deploy(declares=False)

    assert not await deploys.is_known()


async def test_a_once_made_at_run_time_is_remembered_as_long(deploys: Deploys) -> None:
    await deploys.deploy(declares=False, made=True)
    deploys.clock.advance(timedelta(days=29))
    await deploys.deploy(declares=False, made=True)
    assert (deploys.ran, await deploys.is_known()) == (["move"], True)

    deploys.clock.advance(timedelta(days=2))
    await deploys.deploy(declares=False)

    assert not await deploys.is_known()


async def test_a_once_that_left_the_code_before_it_ran_goes_after_a_day(deploys: Deploys) -> None:
    app = Gandy("shop", deploys.url)
    app.use_clock(deploys.clock)

    @app.train
    async def migrate(name: str) -> None:
        deploys.ran.append(name)

    app.schedule_once("move-data", migrate, "move", at=NOW + timedelta(days=9))
    async with app:
        await app.seed()
        await CancelDesk(app.database, ME, app.settings, owners=OWNERS).manifest("move-data")
    await deploys.deploy(declares=False)
    deploys.clock.advance(timedelta(days=1, seconds=1))
    await deploys.deploy(declares=False)

    assert not await deploys.is_known()
