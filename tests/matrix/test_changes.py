"""What an operator, a deploy, a restart or an upgrade changes for each kind."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta
from typing import Final

import pytest

from gandy import TimeWindow, cron, every
from gandy.rules.schedules import once
from tests.matrix.stage import PERIOD, RECURRING, SUBJECT, staged
from tests.support.world import WORKER

SUMMER: Final = datetime(2026, 7, 6, 12, tzinfo=UTC)
BERLIN: Final = "Europe/Berlin"
IN_BERLIN: Final = {
    "cron": {"schedule": cron("5 14 * * *", BERLIN)},
    "interval": {"schedule": every(minutes=5, timezone=BERLIN)},
    "once": {"schedule": once(at=SUMMER + PERIOD, timezone=BERLIN)},
}
#: What the subject is given, where that is not what was declared.
INPUTS: Final = {"output": "output", "dormant": "activated", "ad-hoc": "asked"}


@pytest.mark.pair("override", "manual cron interval once success failure end fan-in output dormant")
async def test_the_value_of_an_operator_survives_a_deploy(migrated_url: str, kind: str) -> None:
    async with staged(migrated_url, kind) as stage:
        await stage.app.manifests.set(SUBJECT, priority=7)
        await stage.open()

        await stage.make_due()

        (entry,) = await stage.entries()
        assert entry.priority == 7


@pytest.mark.pair("orphaning", "cron interval once success failure end fan-in output dormant")
async def test_what_is_no_longer_declared_has_no_new_runs(migrated_url: str, kind: str) -> None:
    async with staged(migrated_url, kind) as stage:
        await stage.open(external_id=None)

        await stage.make_due()
        assert await stage.work() == []


@pytest.mark.pair("rename", "manual cron interval once success failure end fan-in output dormant")
async def test_what_is_queued_is_run_by_another_train_of_the_manifest(migrated_url: str, kind: str) -> None:
    async with staged(migrated_url, kind) as stage:
        await stage.make_due()

        await stage.open(train="renamed")

        assert [each.split()[1] for each in await stage.work()] == ["renamed"]


@pytest.mark.pair("owner", "manual cron interval once success failure end fan-in output dormant ad-hoc")
async def test_another_application_leaves_it_alone(migrated_url: str, kind: str) -> None:
    async with staged(migrated_url, kind) as stage:
        await stage.make_due()
        async with stage.made(owner="other", external_id=None) as other:
            await other.tick("manifest-manager")
            await other.tick("dispatcher")
        assert stage.engine.taken == []

        assert [each.split()[0] for each in await stage.work()] == ["shop"]


@pytest.mark.pair("cleanup", "manual cron interval once success failure end fan-in output dormant ad-hoc")
async def test_deleting_what_ran_repeats_and_silences_nothing(migrated_url: str, kind: str) -> None:
    async with staged(migrated_url, kind) as stage:
        await stage.make_due()
        assert len(await stage.work()) == 1
        await stage.advance(timedelta(days=40))
        await stage.app.tick("lifecycle", is_clock_right=True)
        assert await stage.runs() == []

        assert len(await stage.work()) == (kind in RECURRING)
        await stage.make_due()
        assert len(await stage.work()) == (kind != "once")


@pytest.mark.pair("rename", "cron interval once success failure end fan-in output")
async def test_under_another_id_it_goes_on_and_the_former_one_does_not(migrated_url: str, kind: str) -> None:
    async with staged(migrated_url, kind) as stage:
        await stage.open(external_id="renamed")
        if kind == "interval":
            await stage.work()

        await stage.make_due()

        assert [each.split()[2] for each in await stage.work()] == ["renamed"]


@pytest.mark.pair("restart", "manual cron interval once success failure end fan-in output dormant ad-hoc")
async def test_a_run_that_was_lost_with_its_worker_is_given_to_another(migrated_url: str, kind: str) -> None:
    async with staged(migrated_url, kind) as stage:
        await stage.make_due()
        (run,) = await stage.world.claim(SUBJECT)
        stage.world.rows("UPDATE worker SET state = 'stopped' WHERE id = ?", WORKER)

        await stage.open()
        await stage.world.cycle(trusts_leases=True)

        assert [each.split()[2] for each in await stage.work()] == [str(run.manifest)]


@pytest.mark.pair("clock jump", "manual cron interval success failure end fan-in output dormant ad-hoc")
async def test_what_a_wrong_clock_queued_runs_once_when_it_is_right_again(
    migrated_url: str, kind: str
) -> None:
    async with staged(migrated_url, kind) as stage:
        await stage.jump(timedelta(days=2))
        await stage.make_due()
        await stage.jump(-timedelta(days=2))

        ran = await stage.work()
        await stage.advance(PERIOD)
        ran += await stage.work()

        assert len(ran) == 1


@pytest.mark.pair("DST", "cron interval once")
async def test_wall_clocks_are_those_of_the_season(migrated_url: str, kind: str) -> None:
    """At the start it is 14:00 in Berlin; were it winter there, it would be 13:00."""
    async with staged(migrated_url, kind, now=SUMMER, places=IN_BERLIN) as stage:
        if kind != "cron":
            await stage.app.manifests.set(SUBJECT, exclude=TimeWindow(time(14, 5), time(14, 6)))

        await stage.make_due()
        assert len(await stage.work()) == (kind == "cron")


@pytest.mark.pair(
    "both databases", "manual cron interval once success failure end fan-in output dormant ad-hoc"
)
async def test_it_runs_once_when_it_is_due(migrated_url: str, kind: str) -> None:
    async with staged(migrated_url, kind) as stage:
        assert await stage.work_by_worker() == []

        await stage.make_due()

        assert [each.split()[-1] for each in await stage.work_by_worker()] == [INPUTS.get(kind, "declared")]
        assert await stage.work_by_worker() == []
        assert [run.state for run in await stage.runs()][:1] == ["completed"]
