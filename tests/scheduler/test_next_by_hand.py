"""The next instant put right by hand: it holds, it is told, and no deploy or repair undoes it."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from gandy import Days, Gandy, Run, cron, every
from gandy.clock import ManualClock
from gandy.desk.audit import local_operator
from gandy.desk.explain import explain_manifest
from gandy.desk.manifests import ManifestDesk
from gandy.desk.schedules import ManifestChanges
from gandy.errors import OverrideError
from gandy.model.owners import OneOwner

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from gandy.model.schedule import Cron, Interval

NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)  # a Monday
SHOP = OneOwner("shop")
SCHEDULES: dict[str, Cron | Interval] = {
    "interval": every(hours=1),
    "cron": cron("0 * * * *"),
    "daily": cron("0 3 * * *", timezone="Europe/Berlin"),
}
#: The instants that may be set, whether the schedule knows them or not.
SET = [NOW + timedelta(minutes=90), NOW + timedelta(hours=2), NOW + timedelta(days=400, minutes=7)]


@asynccontextmanager
async def opened(url: str, clock: ManualClock, ran: list[tuple[str, datetime]]) -> AsyncIterator[Gandy]:
    """Give an application that notes what it ran."""
    app = Gandy("shop", url)

    @app.train
    async def note(name: str, run: Run) -> None:
        assert run.due_at is not None
        ran.append((name, run.due_at))

    for name, schedule in SCHEDULES.items():
        app.schedule(name, note, name, schedule, exclude=[Days.on("sun")])
    app.schedule("manual", note, "manual")
    app.use_clock(clock)
    async with app:
        await app.tick("manifest-manager")
        await app.work(asyncio.Event(), until_idle=True)
        yield app


def desk_of(app: Gandy) -> ManifestDesk:
    return ManifestDesk(app.database, local_operator("python"), owners=SHOP)


async def test_a_manual_manifest_gets_a_schedule_and_its_first_instant_at_once(migrated_url: str) -> None:
    clock, ran = ManualClock(NOW), list[tuple[str, datetime]]()
    async with opened(migrated_url, clock, ran) as app:
        changes = ManifestChanges(schedule=cron("0 * * * *"), next_at=SET[0])
        shown = await desk_of(app).set("manual", changes)
        clock.advance(timedelta(hours=3))
        await app.tick("manifest-manager")
        await app.work(asyncio.Event(), until_idle=True)

    assert shown.next_scheduled_run == SET[0]
    assert [name for name, _ in ran if name == "manual"] == ["manual"]


@pytest.mark.parametrize("set_to", SET, ids=str)
@pytest.mark.parametrize("name", SCHEDULES)
async def test_what_was_set_is_the_next_run_and_the_schedule_goes_on_from_there(
    migrated_url: str, name: str, set_to: datetime
) -> None:
    clock, ran = ManualClock(NOW), list[tuple[str, datetime]]()
    async with opened(migrated_url, clock, ran) as app:
        shown = await desk_of(app).set(name, ManifestChanges(next_at=set_to))
        await app.tick("manifest-manager")
        kept = await desk_of(app).show(name)
        why = await explain_manifest(app.database, name, SHOP)
        ran.clear()
        clock.advance(set_to - NOW)
        await app.tick("manifest-manager")
        await app.work(asyncio.Event(), until_idle=True)
        after = await desk_of(app).show(name)

    assert shown.next_scheduled_run == kept.next_scheduled_run == set_to
    assert shown.overrides == {"next": set_to}
    assert any("an operator set its next instant" in reason for reason in why.holding_back)
    assert [due_at for of, due_at in ran if of == name] == [set_to]
    assert after.overrides == {}, "it is over"
    assert after.next_scheduled_run is not None
    assert set_to < after.next_scheduled_run <= set_to + timedelta(days=1, hours=1)


async def test_a_reset_goes_back_to_the_schedule_and_a_restart_does_not(migrated_url: str) -> None:
    clock, ran = ManualClock(NOW), list[tuple[str, datetime]]()
    async with opened(migrated_url, clock, ran) as app:
        before = {name: (await desk_of(app).show(name)).next_scheduled_run for name in SCHEDULES}
        for name in SCHEDULES:
            await desk_of(app).set(name, ManifestChanges(next_at=SET[2]))
    async with opened(migrated_url, clock, ran) as app:
        kept = {(await desk_of(app).show(name)).next_scheduled_run for name in SCHEDULES}
        reset = {name: (await desk_of(app).reset(name)).next_scheduled_run for name in SCHEDULES}

    assert kept == {SET[2]}
    assert {name: reset[name] for name in ("cron", "daily")} == {
        name: before[name] for name in ("cron", "daily")
    }
    assert reset["interval"] is not None
    assert NOW < reset["interval"] <= NOW + timedelta(hours=1), "an interval keeps the beat that was set"


@pytest.mark.parametrize(
    ("name", "next_at", "problem"),
    [
        ("cron", NOW, "in the future"),
        ("interval", NOW - timedelta(days=1), "in the future"),
        ("cron", NOW + timedelta(days=6), "exclusions"),
        ("manual", NOW + timedelta(hours=1), "no instants"),
        ("cron", datetime(2026, 4, 1), "time zone"),  # noqa: DTZ001 that is the mistake
    ],
)
async def test_what_cannot_be_the_next_instant_is_refused(
    migrated_url: str, name: str, next_at: datetime, problem: str
) -> None:
    async with opened(migrated_url, ManualClock(NOW), []) as app:
        with pytest.raises(OverrideError, match=problem):
            await desk_of(app).set(name, ManifestChanges(next_at=next_at))
