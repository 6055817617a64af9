"""A once that has run is remembered for thirty days, so that a rollback does not run it again."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from gandy import Gandy, Run, every
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


class Instants:
    """A once that versions of an application declare for one instant or another, or not at all."""

    def __init__(self, url: str, *, made: bool) -> None:
        self.url = url
        self.made = made
        self.clock = ManualClock(NOW)
        self.began: list[datetime | None] = []
        self.ran: list[datetime | None] = []
        self.is_broken = False

    def version(self, at: datetime | None) -> Gandy:
        app = Gandy("shop", self.url)
        app.use_clock(self.clock)
        app.cleanup(trains=["migrate"], retention=timedelta(minutes=1))  # the record of its runs goes soon

        app.train(name="migrate", retry_delay=timedelta(hours=1))(self.migrate)
        app.schedule("other", self.migrate, every(days=900), enabled=False)
        if at is not None and not self.made:
            app.schedule_once("move-data", self.migrate, at=at)
        return app

    async def migrate(self, run: Run) -> None:
        """Do the work, or fail."""
        self.began.append(run.due_at)
        if self.is_broken:
            raise ValueError("broken")
        self.ran.append(run.due_at)

    async def deploy(self, at: datetime | None, *, works: bool = True, for_days: float = 0) -> None:
        """Run a version for an hour, and leave it until some days have passed."""
        app = self.version(at)
        async with app:
            if at is not None and self.made:
                await app.add_schedule("move-data", self.migrate, schedule=Once(at=at))
            for _ in range(3):
                await app.tick("manifest-manager")
                if works:
                    await app.work(asyncio.Event(), until_idle=True)
                self.clock.advance(timedelta(minutes=20))
                await app.tick("metadata-cleanup")
                await app.tick("lifecycle", is_clock_right=True)
        self.clock.advance(timedelta(days=for_days))


FIRST, SECOND, LATER = NOW - timedelta(hours=1), NOW + timedelta(minutes=30), NOW + timedelta(days=300)


# What was made at run time is forgotten thirty days after it last completed, which six deploys must not pass.
@pytest.mark.parametrize(("made", "days"), [(False, 0), (False, 9), (False, 25), (True, 0), (True, 4)])
async def test_the_way_to_another_instant_and_back_repeats_none(
    migrated_url: str, made: bool, days: float
) -> None:
    once = Instants(migrated_url, made=made)
    for at in (FIRST, SECOND, FIRST, LATER, SECOND, FIRST):
        await once.deploy(at, for_days=days)

    assert once.ran == [FIRST, SECOND]


@pytest.mark.parametrize("begun", [False, True], ids=["queued", "waiting for its retry"])
async def test_one_that_is_under_way_meanwhile_ends_as_it_would_have(migrated_url: str, begun: bool) -> None:
    once = Instants(migrated_url, made=False)
    once.is_broken = True
    await once.deploy(FIRST, works=begun)
    once.is_broken = False
    await once.deploy(LATER, works=False)
    await once.deploy(FIRST)
    await once.deploy(FIRST)
    assert once.ran == [FIRST]

    await once.deploy(None, for_days=2)
    await once.deploy(FIRST)

    assert once.ran == [FIRST]


async def test_one_that_left_the_code_while_another_instant_was_to_come_is_remembered(
    migrated_url: str,
) -> None:
    once = Instants(migrated_url, made=False)
    await once.deploy(FIRST)
    await once.deploy(LATER)
    await once.deploy(None, for_days=2)
    await once.deploy(None, for_days=2)
    await once.deploy(FIRST)

    assert once.ran == [FIRST]


async def test_one_that_was_cancelled_in_the_queue_does_not_run_after_it_left_the_code(
    migrated_url: str,
) -> None:
    once = Instants(migrated_url, made=False)
    await once.deploy(FIRST, works=False)
    app = once.version(FIRST)
    async with app:
        await CancelDesk(app.database, ME, app.settings, owners=OWNERS).manifest("move-data")
    await once.deploy(None, for_days=2)
    await once.deploy(None, for_days=2)
    await once.deploy(FIRST)

    assert once.began == []


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
