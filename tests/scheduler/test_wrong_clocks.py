"""Clocks that are wrong for a while: nothing runs twice, and nothing is silent afterwards."""

from __future__ import annotations

import random
from collections import defaultdict
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from gandy import cron, every
from gandy.desk.audit import local_operator
from gandy.desk.doctor import Doctor
from gandy.desk.explain import explain_manifest
from gandy.desk.manifests import ManifestDesk
from gandy.desk.queue import QueueDesk
from gandy.desk.schedules import ManifestChanges
from gandy.model.owners import OneOwner
from gandy.model.schedule import MisfirePolicy
from gandy.settings import DatabaseSettings, Settings
from gandy.store.reading.listings import EntryFilter
from tests.scheduler.clocks import HALF_HOUR, SCHEDULES, START, instants, opened

if TYPE_CHECKING:
    from datetime import datetime

    from gandy.desk.explain import Explanation
    from gandy.model.schedule import Cron, Interval
    from tests.scheduler.clocks import Site

SHOP = OneOwner("shop")
JUMPS = {
    "two hours ahead": timedelta(hours=2),
    "a day less an hour ahead": timedelta(hours=23),
    "two days ahead": timedelta(days=2),
    "four hundred days ahead": timedelta(days=400),
    "two hours back": timedelta(hours=-2),
    "two days back": timedelta(days=-2),
    "four hundred days back": timedelta(days=-400),
}
FIVE_MINUTES = timedelta(minutes=5)
site_on = asynccontextmanager(opened)


@pytest.mark.parametrize("is_odd", [True, False], ids=["odd", "even"])
@pytest.mark.parametrize("number", range(len(JUMPS)), ids=JUMPS.keys())
async def test_a_clock_that_was_wrong_repeats_nothing_and_silences_nothing(
    migrated_url: str, number: int, *, is_odd: bool
) -> None:
    jump = list(JUMPS.values())[number]
    # Every jump meets a process that lives on and one that is started again, with and without work done.
    restarts, works = is_odd, (number % 2 == 0) == is_odd
    async with site_on(migrated_url) as site:
        await site.jump(jump, restarts=restarts)
        await site.step(works=works)
        await site.jump(-jump, restarts=restarts)
        right = site.clock.now
        await site.step()
        for _ in range(3):
            await site.step(HALF_HOUR)

        for name in SCHEDULES:
            ran = site.ran[name]
            assert len(ran) == len(set(ran)), f"{name} ran an instant twice: {sorted(ran)}"
            missing = set(instants(right, site.clock.now)) - set(ran)
            assert not missing, f"{name} did not run {sorted(missing)}; it ran {sorted(ran)}"


@pytest.mark.parametrize(
    ("keep_for", "stays"),
    [(None, timedelta(hours=1)), (timedelta(minutes=1), timedelta(hours=2))],
    ids=["runs kept", "runs deleted"],
)
async def test_an_instant_that_ran_early_does_not_run_again_once_its_entry_is_gone(
    migrated_url: str, keep_for: timedelta | None, stays: timedelta
) -> None:
    async with site_on(migrated_url, keep_for=keep_for) as site:
        await site.jump(timedelta(hours=5), restarts=False)
        for _ in range(stays // FIVE_MINUTES):
            await site.step(FIVE_MINUTES)
            await clean_up(site)
        assert len(await entries_of(site)) < 2 * len(SCHEDULES), "cleanup has taken the entries of that time"
        await site.jump(timedelta(hours=-5), restarts=False)
        right = site.clock.now
        await site.step()
        for _ in range(14):
            await site.step(HALF_HOUR)
        await clean_up(site)

    for name in SCHEDULES:
        ran = site.ran[name]
        assert len(ran) == len(set(ran)), f"{name} ran an instant twice: {ran}"
        missing = set(instants(right, site.clock.now)) - set(ran)
        assert not missing, f"{name} did not run {sorted(missing)}; it ran {sorted(ran)}"


async def test_a_manifest_that_was_made_under_a_clock_ahead_runs_the_instants_before_it(
    migrated_url: str,
) -> None:
    async with site_on(migrated_url, keep_for=timedelta(minutes=1)) as site:
        await site.jump(timedelta(hours=5), restarts=False)
        for _ in range(12):
            await site.step(FIVE_MINUTES)
        await site.close()
        site.more["late comer"] = (cron("*/30 * * * *"), MisfirePolicy.FIRE_ONCE_NOW)
        await site.open()
        for _ in range(12):
            await site.step(FIVE_MINUTES)
            await clean_up(site)
        await site.jump(timedelta(hours=-5), restarts=False)
        right = site.clock.now
        await site.step()
        for _ in range(14):
            await site.step(HALF_HOUR)
        await clean_up(site)

    ran = site.ran["late comer"]
    assert sorted(ran) == sorted(set(instants(right, site.clock.now)) | set(ran))
    assert len(ran) == len(set(ran))


@pytest.mark.parametrize("change", ["next", "next and reset", "another schedule"])
async def test_what_moves_the_cursor_before_it_is_put_right_repeats_nothing(
    migrated_url: str, change: str
) -> None:
    async with site_on(migrated_url, keep_for=timedelta(0)) as site:
        await away(site, timedelta(hours=5), rounds=8, step=timedelta(minutes=15))
        await site.jump(timedelta(hours=-5), restarts=False)
        if change == "another schedule":
            await site.close()
            site.more["interval"] = (cron("0,30 * * * *"), MisfirePolicy.FIRE_ONCE_NOW)
            site.more["cron"] = (cron("0,15,30 * * * *"), MisfirePolicy.FIRE_ONCE_NOW)
            await site.open()
        else:
            assert site.app is not None
            desk = ManifestDesk(site.app.database, local_operator("python"), owners=SHOP)
            for name in SCHEDULES:
                await desk.set(name, ManifestChanges(next_at=site.clock.now + timedelta(minutes=45)))
                if change == "next and reset":
                    await desk.reset(name)
        for _ in range(14):
            await site.step(HALF_HOUR)

    for name in SCHEDULES:
        assert len(site.ran[name]) == len(set(site.ran[name])), f"{name} ran an instant twice"
        assert max(site.ran[name]) > site.clock.now - timedelta(hours=1), f"{name} is silent"


@pytest.mark.parametrize("seed", [6, 30])
async def test_a_clock_that_is_set_again_and_again_repeats_nothing_and_loses_nothing(
    migrated_url: str, seed: int
) -> None:
    draw = random.Random(seed)  # noqa: S311 - not a secret
    ways = [timedelta(hours=hours) for hours in draw.sample([-20, -3, 2, 3, 5, 9, 30, 72], 4)]
    async with site_on(migrated_url, keep_for=timedelta(0)) as site:
        site.more |= MORE_SCHEDULES
        await site.close()
        await site.open()
        off = timedelta(0)
        for _ in range(6):
            to = draw.choice([*ways, timedelta(0)])
            await site.jump(to - off, restarts=draw.random() < 0.3)
            off = to
            await away(
                site, timedelta(0), rounds=draw.randrange(1, 8), step=timedelta(minutes=draw.randrange(5, 40))
            )
        await site.jump(-off, restarts=False)
        await site.step()
        right = site.clock.now
        for _ in range(8):
            await site.step(HALF_HOUR)
        settled = await skipped(site)

    for name, ran in site.ran.items():
        assert len(ran) == len(set(ran)), f"{name} ran twice: {sorted(at for at in ran if ran.count(at) > 1)}"
    for name in SCHEDULES.keys() - {"catch up"}:  # that one may have much to catch up with
        missing = set(instants(right, site.clock.now)) - set(site.ran[name])
        silent = {at for at in missing if not any(since <= at <= until for since, until in settled[name])}
        assert not silent, f"{name} did not run {sorted(silent)}, and no verdict says why"


MORE_SCHEDULES: dict[str, tuple[Cron | Interval, MisfirePolicy]] = {
    "every minute": (every(minutes=1), MisfirePolicy.FIRE_ONCE_NOW),
    "hourly, caught up": (cron("0 * * * *"), MisfirePolicy.CATCH_UP),
    "twice a day": (cron("30 3,17 * * *", timezone="Europe/Berlin"), MisfirePolicy.FIRE_ONCE_NOW),
}


async def away(site: Site, jump: timedelta, *, rounds: int, step: timedelta = FIVE_MINUTES) -> None:
    """Work for a while under another clock, with cleanup that deletes what it can."""
    await site.jump(jump, restarts=False)
    for _ in range(rounds):
        await site.step(step)
        await clean_up(site)


async def skipped(site: Site) -> dict[str | None, list[tuple[datetime, datetime]]]:
    """Find the instants that a verdict skips, by manifest."""
    assert site.app is not None
    desk = QueueDesk(site.app.database, local_operator("python"), owners=SHOP)
    found: dict[str | None, list[tuple[datetime, datetime]]] = defaultdict(list)
    for entry in await desk.list(EntryFilter(status="skipped", limit=1_000)):
        found[entry.manifest].append((entry.due_at, entry.due_until or entry.due_at))
    return found


async def clean_up(site: Site) -> None:
    assert site.app is not None
    await site.app.tick("metadata-cleanup", is_clock_right=True)
    await site.app.tick("lifecycle", is_clock_right=True)


async def entries_of(site: Site) -> list[int]:
    assert site.app is not None
    desk = QueueDesk(site.app.database, local_operator("python"), owners=SHOP)
    return [entry.id for entry in await desk.list(EntryFilter(status="dispatched"))]


async def test_explain_says_what_the_clock_did_until_it_is_put_right(migrated_url: str) -> None:
    async with site_on(migrated_url) as site:
        await site.jump(timedelta(days=400), restarts=True)
        await site.step(works=False)
        await site.jump(timedelta(days=-400), restarts=True)
        before = [await explained(site, name) for name in SCHEDULES]
        gates = await waiting_gates(site)
        await site.step()
        after = [await explained(site, name) for name in SCHEDULES]

    for why in before:
        assert any("a wrong clock" in reason for reason in why.holding_back), why.external_id
        assert not any("ready" in reason for reason in why.holding_back), why.external_id
    assert gates == {"time"}, "an entry of the year after next is not ready"
    for why in after:
        assert why.holding_back == (), why.external_id
        assert "skipped: clock" in {verdict.verdict for verdict in why.verdicts}, why.external_id
        assert why.next_instant == START + 3 * HALF_HOUR


async def test_doctor_names_the_cursors_and_doubts_the_clock(migrated_url: str) -> None:
    async with site_on(migrated_url) as site:
        assert await clock_findings(site) == []
        await site.jump(timedelta(days=400), restarts=True)
        [doubt] = await clock_findings(site)
        await site.step()
        await site.jump(timedelta(days=-400), restarts=True)
        [cursors] = await clock_findings(site)
        await site.step()
        after = await clock_findings(site)

    assert "more than a day beyond 2026-03-02 13:00Z" in doubt
    assert "interval (2027-04-06 13:30Z)" in cursors
    assert after == []


async def explained(site: Site, name: str) -> Explanation:
    assert site.app is not None
    return await explain_manifest(site.app.database, name, SHOP)


async def waiting_gates(site: Site) -> set[str | None]:
    assert site.app is not None
    desk = QueueDesk(site.app.database, local_operator("python"), owners=SHOP)
    return {entry.gate for entry in await desk.list(EntryFilter(status="queued"))}


async def clock_findings(site: Site) -> list[str]:
    settings = replace(Settings(), database=DatabaseSettings(url=site.url))
    doctor = Doctor(settings, owners=SHOP)
    report = await doctor.examine(clock=site.clock, host_now=lambda: site.clock.now)
    return [finding.what for finding in report.findings if finding.check == "clock"]
