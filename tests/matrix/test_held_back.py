"""What holds a subject of each kind back, and what becomes of it afterwards."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from gandy import Dates
from tests.matrix.stage import GROUP, RECURRING, START, SUBJECT, staged

if TYPE_CHECKING:
    from tests.matrix.stage import Stage


async def runs_again(stage: Stage) -> bool:
    """Say whether the subject runs once, now that nothing holds it: a schedule at its next instant."""
    if stage.kind in RECURRING:
        assert await stage.work() == [], "the instants meanwhile are settled"
        await stage.make_due()
    return len(await stage.work()) == 1


MINUTE = timedelta(minutes=1)


@pytest.mark.pair("disable", "cron interval once success failure end fan-in output dormant")
async def test_a_disabled_manifest_waits_until_it_is_enabled(migrated_url: str, kind: str) -> None:
    async with staged(migrated_url, kind) as stage:
        await stage.app.manifests.disable(SUBJECT)

        await stage.make_due()
        assert await stage.work() == []

        await stage.advance(MINUTE)
        await stage.app.manifests.enable(SUBJECT)
        assert await runs_again(stage)


@pytest.mark.pair("group switch", "cron interval once success failure end fan-in output dormant ad-hoc")
async def test_a_disabled_group_waits_until_it_is_enabled(migrated_url: str, kind: str) -> None:
    async with staged(migrated_url, kind) as stage:
        await stage.app.groups.set(GROUP, enabled=False)

        await stage.make_due()
        assert await stage.work() == []

        await stage.advance(MINUTE)
        await stage.app.groups.set(GROUP, enabled=True)
        assert await runs_again(stage)


@pytest.mark.pair("cap", "manual cron interval once success failure end fan-in output dormant ad-hoc")
async def test_a_full_group_starts_nothing_until_a_place_is_free(migrated_url: str, kind: str) -> None:
    async with staged(migrated_url, kind) as stage:
        await stage.app.groups.set(GROUP, max_active_jobs=1)
        await stage.app.enqueue(stage.other, "takes the place", group=GROUP)
        (run,) = await stage.world.claim("other")

        await stage.make_due()
        assert await stage.world.claim(SUBJECT) == []

        await stage.world.finish(run)
        assert len(await stage.world.claim(SUBJECT)) == 1


@pytest.mark.pair("misfire", "cron interval")
async def test_a_late_instant_follows_the_policy(migrated_url: str, kind: str) -> None:
    async with staged(migrated_url, kind, misfire="do_nothing") as stage:
        await stage.advance(timedelta(minutes=8))
        assert await stage.work() == []
        assert [each.reason for each in await stage.entries("skipped")] == ["misfired"]

        await stage.advance(timedelta(minutes=2))
        assert len(await stage.work()) == 1


@pytest.mark.pair("exclusion", "cron interval once")
async def test_an_excluded_instant_is_skipped(migrated_url: str, kind: str) -> None:
    async with staged(migrated_url, kind) as stage:
        await stage.app.manifests.set(SUBJECT, exclude=Dates(frozenset({START.date()})))

        await stage.make_due()
        assert await stage.work() == []

        assert [each.reason for each in await stage.entries("skipped")] == ["excluded"]
