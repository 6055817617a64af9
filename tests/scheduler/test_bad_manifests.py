"""One manifest that cannot be evaluated, queued or parked: it has its own error, and the others go on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gandy.errors import SetRefusedError
from gandy.loops.wakeups import Wakeups
from gandy.model.run import TrainState
from gandy.scheduler.service import ManifestManagerService
from tests.support.poison import heal, poison
from tests.support.world import OWNER, manifest

if TYPE_CHECKING:
    from tests.support.world import World

BROKEN = {
    "cron of words": "cron_expression = 'when it rains', schedule_type = 'cron'",
    "cron of nothing": "cron_expression = '', schedule_type = 'cron'",
    "unknown zone": "timezone = 'Mars/Olympus', schedule_type = 'cron', cron_expression = '* * * * *'",
    "endless interval": "interval_seconds = 1e300",
    "an interval beyond the calendar": "interval_seconds = 1e11",
    "endless variance": "variance_seconds = 1e300",
    "endless threshold": "misfire_threshold_seconds = 1e300",
    "exclusions that are no list": "exclusions = '7'",
    "exclusions of numbers": "exclusions = '[1]'",
    "exclusions of unknown words": """exclusions = '[{"moons": ["full"]}]'""",
    "exclusions of wrong types": """exclusions = '[{"days": 3}]'""",
}


@pytest.mark.parametrize("broken", BROKEN)
async def test_what_cannot_be_evaluated_harms_only_itself(world: World, broken: str) -> None:
    await world.seed(manifest("bad"), *(manifest(f"good-{number}") for number in range(3)))
    world.rows(f"UPDATE manifest SET {BROKEN[broken]} WHERE external_id = 'bad'")  # noqa: S608 of the table above

    result = await world.cycle()

    assert result.queued >= 3
    for number in range(3):
        assert world.verdicts(f"good-{number}") == [("queued", None, 1)]
    if result.queued == 3:
        assert [verdict[:2] for verdict in world.verdicts("bad")] == [("skipped", "error")]
    assert (await world.cycle()).errors == 0, "it is not looked at again at once"
    assert not world.rows("SELECT id FROM manifest WHERE next_look_at <= ?", world.stamp())
    world.rows("DELETE FROM work_queue WHERE status = 'skipped'")
    world.rows("UPDATE manifest SET next_look_at = NULL, is_enabled = ? WHERE external_id = 'bad'", False)


@pytest.mark.parametrize("bad", [0, 3, 6])
async def test_a_manifest_whose_entry_is_refused_has_an_error_verdict(world: World, bad: int) -> None:
    await world.seed(*(manifest(f"m-{number}") for number in range(7)))
    refused = world.manifest(f"m-{bad}")["id"]
    poison(world, "work_queue", f"NEW.manifest_id = {refused} AND NEW.status = 'queued'")

    result = await world.cycle()

    assert (result.queued, result.errors) == (6, 1)
    assert world.verdicts(f"m-{bad}") == [("skipped", "error", 1)]
    assert "poisoned" in world.entries(f"m-{bad}")[0]["error"]


async def test_what_is_refused_alike_is_charged_to_none_until_the_third_cycle(world: World) -> None:
    declared = tuple(manifest(f"m-{number}") for number in range(3))
    await world.seed(*declared)
    poison(world, "work_queue", "NEW.status = 'queued'")

    for _ in range(2):
        with pytest.raises(SetRefusedError, match="all 3 items"):
            await service(world).tick()
        assert world.rows("SELECT id FROM work_queue") == []
    result = await service(world).tick()

    assert result is not None
    assert result.errors == 3
    assert [world.verdicts(f"m-{number}") for number in range(3)] == [[("skipped", "error", 1)]] * 3


async def test_a_database_that_recovers_in_time_has_charged_no_manifest(world: World) -> None:
    await world.seed(*(manifest(f"m-{number}") for number in range(3)))
    poison(world, "work_queue", "NEW.status = 'queued'")
    manager = service(world)
    for _ in range(2):
        with pytest.raises(SetRefusedError):
            await manager.tick()
    heal(world, "work_queue")

    result = await manager.tick()

    assert result is not None
    assert (result.queued, result.errors) == (3, 0)
    assert world.rows("SELECT key FROM service_state WHERE key = 'manifest_manager.refusals'") == []


async def test_a_letter_that_is_refused_keeps_no_other_from_being_parked(world: World) -> None:
    await world.seed(*(manifest(f"m-{number}", max_retries=1) for number in range(3)))
    await world.cycle()
    runs = await world.claim()
    await world.finish(*runs, state=TrainState.FAILED, is_bare=True)  # without optional parts such as letters
    refused = world.manifest("m-1")["id"]
    poison(world, "dead_letter", f"NEW.manifest_id = {refused}")

    result = await world.cycle()

    assert {letter.manifest for letter in result.parked} == {"m-0", "m-2"}
    heal(world, "dead_letter")
    world.rows("UPDATE manifest SET next_look_at = ? WHERE id = ?", world.stamp(), refused)
    assert [letter.manifest for letter in (await world.cycle()).parked] == ["m-1"]


async def test_a_verdict_that_is_refused_is_told_and_the_manifests_move_on(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    await world.seed(*(manifest(f"m-{number}") for number in range(3)))
    await world.cycle()
    await world.claim()
    refused = world.manifest("m-1")["id"]
    poison(world, "work_queue", f"NEW.manifest_id = {refused} AND NEW.status = 'skipped'")
    world.advance(minutes=7)

    assert (await world.cycle()).contended == 0

    assert "verdicts of manifest" in caplog.text
    kept = [len(world.verdicts(f"m-{number}")) for number in range(3)]
    assert kept == [2, 1, 2]


def service(world: World) -> ManifestManagerService:
    """A service as each process makes one: what has to be remembered is in the database."""
    return ManifestManagerService(world.context(), Wakeups(world.database, OWNER))
