"""Nothing goes by age under a clock that cannot be believed, and nothing stays under one that can."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from gandy import Gandy, Train, every
from gandy.clock import ManualClock
from gandy.errors import ClockDoubtedError
from gandy.lifecycle import Table, older_than
from tests.lifecycle.ground import Ground

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)
PRUNERS = ("metadata-cleanup", "dead-letter-cleanup", "lifecycle")
#: How far a clock may be from what was written last, by size: whether it is believed at once.
JUMPS = {
    timedelta(hours=2): True,
    timedelta(hours=23): True,
    timedelta(hours=26): False,
    timedelta(days=9): False,
    timedelta(days=400): False,
    timedelta(hours=-2): True,
    timedelta(days=-9): False,
}


def sell() -> None:
    """Do nothing, and leave a run behind."""


class Sell(Train[None, None]):
    """A job of the application."""

    route = (sell,)


@asynccontextmanager
async def opened(url: str, clock: ManualClock) -> AsyncIterator[Gandy]:
    """Give an application with a table of its own that is kept for a week."""
    app = Gandy("shop", url)
    app.register(Sell)
    week = Table("visits", [older_than("at", keep_for="7d")])
    app.lifecycle("visits", every(minutes=5), tables=[week])
    app.use_clock(clock)
    async with app:
        yield app


async def lived_in(url: str) -> Ground:
    """Leave a run and a row behind, and what every service writes."""
    ground = Ground(url)
    ground.run("CREATE TABLE visits (id {key}, at {instant})", "CREATE INDEX by_at ON visits (at)")
    ground.fill("visits", [(1, NOW)])
    async with opened(url, ManualClock(NOW)) as app:
        await app.enqueue(Sell)
        await app.work(asyncio.Event(), until_idle=True)
        for service in ("manifest-manager", *PRUNERS):
            await app.tick(service)
    return ground


def left(ground: Ground) -> tuple[int, int]:
    """Count what there is: runs of Gandy and of the application, and rows of the application."""
    schema = "gandy." if ground.kind == "postgresql" else ""
    [(runs,)] = ground.rows(f"SELECT count(*) FROM {schema}metadata")  # noqa: S608 a test's name
    return runs, len(ground.ids("visits"))


async def is_refused(app: Gandy, service: str) -> bool:
    """Tell whether one cycle refuses to go by the clock."""
    try:
        await app.tick(service)
    except ClockDoubtedError:
        return True
    return False


@pytest.mark.parametrize("jump", JUMPS, ids=str)
async def test_a_command_removes_nothing_under_a_clock_that_is_far_from_what_was_written(
    migrated_url: str, jump: timedelta
) -> None:
    ground = await lived_in(migrated_url)
    before = left(ground)
    async with opened(migrated_url, ManualClock(NOW + jump)) as app:
        refused = {service: await is_refused(app, service) for service in PRUNERS}

    assert set(refused.values()) == {not JUMPS[jump]}, refused
    if not JUMPS[jump]:
        assert left(ground) == before


async def test_services_of_other_kinds_do_not_vouch_for_a_wrong_clock(migrated_url: str) -> None:
    ground = await lived_in(migrated_url)
    visits = left(ground)[1]
    async with opened(migrated_url, ManualClock(NOW + timedelta(days=400))) as app:
        await app.tick("manifest-manager")
        await app.enqueue(Sell)
        await app.work(asyncio.Event(), until_idle=True)
        assert await is_refused(app, "lifecycle")
    async with opened(migrated_url, ManualClock(NOW + timedelta(days=400))) as app:
        assert await is_refused(app, "metadata-cleanup")
    async with opened(migrated_url, ManualClock(NOW + timedelta(minutes=5))) as app:
        assert not await is_refused(app, "lifecycle"), "the clock is right again"

    assert left(ground)[1] == visits


async def test_an_idle_database_goes_on_after_ten_steady_minutes(migrated_url: str) -> None:
    ground = await lived_in(migrated_url)
    clock = ManualClock(NOW + timedelta(days=200))
    async with opened(migrated_url, clock) as app:
        assert await is_refused(app, "lifecycle")
        clock.advance(timedelta(minutes=9))
        assert await is_refused(app, "lifecycle")
        clock.advance(timedelta(minutes=1))
        assert not await is_refused(app, "lifecycle")
    assert left(ground)[1] == 0
    async with opened(migrated_url, ManualClock(clock.now)) as app:
        assert not await is_refused(app, "metadata-cleanup"), "what was believed once is on record"


async def test_a_person_can_vouch_for_the_clock(migrated_url: str) -> None:
    ground = await lived_in(migrated_url)
    async with opened(migrated_url, ManualClock(NOW + timedelta(days=200))) as app:
        ticked = await app.tick("lifecycle", is_clock_right=True)
        assert not await is_refused(app, "metadata-cleanup")

    assert "'doubt': None" in str(ticked["contracts"])
    assert left(ground)[1] == 0


@pytest.mark.parametrize("jump", [timedelta(hours=2), timedelta(days=3), timedelta(hours=-2)], ids=str)
async def test_a_process_that_sees_its_clock_jump_waits_ten_minutes(
    migrated_url: str, jump: timedelta
) -> None:
    await lived_in(migrated_url)
    clock = ManualClock(NOW)
    async with opened(migrated_url, clock) as app:
        clock.jump(jump)
        assert all([await is_refused(app, service) for service in PRUNERS])
        clock.advance(timedelta(minutes=10))
        assert not any([await is_refused(app, service) for service in PRUNERS])


async def test_summer_time_is_no_jump_and_a_fresh_database_is_not_doubted(migrated_url: str) -> None:
    clock = ManualClock(datetime(2026, 3, 29, 0, 59, tzinfo=UTC))
    async with opened(migrated_url, clock) as app:
        for service in PRUNERS:
            assert not await is_refused(app, service)
        clock.advance(timedelta(minutes=2))
        for service in PRUNERS:
            assert not await is_refused(app, service)
