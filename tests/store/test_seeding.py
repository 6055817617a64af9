from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from gandy.errors import (
    DependencyCycleError,
    ExcludedInstantError,
    ManifestDeclaredError,
    ParentNotFoundError,
)
from gandy.model.exclusion import Dates
from gandy.model.manifest import BatchDeclaration, GroupDeclaration
from gandy.model.schedule import Cron, Dependent, DormantDependent, Interval, Manual, Once
from gandy.store.declared import LEFT_OUT, from_stored, shape_text, with_input
from gandy.store.seeding import add_manifest
from tests.support.world import OWNER, START, manifest

if TYPE_CHECKING:
    from tests.support.world import World


async def test_a_new_cron_waits_for_its_first_occurrence(world: World) -> None:
    await world.seed(manifest(schedule=Cron("0 3 * * *", "Europe/Berlin")))

    row = world.manifest()
    assert world.instant(row["next_scheduled_run"]) == datetime(2026, 1, 6, 2, 0, tzinfo=UTC)
    assert row["next_look_at"] == row["next_scheduled_run"]


async def test_a_new_interval_is_due_at_once(world: World) -> None:
    await world.seed(manifest())

    assert world.instant(world.manifest()["next_look_at"]) == START


async def test_seeding_the_same_again_writes_nothing(world: World) -> None:
    declared = [manifest(f"m-{number}", schedule=Once(delay=timedelta(hours=1))) for number in range(3)]
    await world.seed(*declared)
    before = world.rows("SELECT * FROM manifest ORDER BY id")
    world.advance(hours=2)

    again = await world.seed(*declared)

    assert (again.created, again.updated, again.unchanged, again.orphaned) == (0, 0, 3, 0)
    assert world.rows("SELECT * FROM manifest ORDER BY id") == before


async def test_the_stored_form_of_older_versions_says_the_same(world: World) -> None:
    declared = [manifest("plain"), manifest("other", max_retries=7, variance=timedelta(minutes=1))]
    await world.seed(*declared)
    for each in declared:
        whole = with_input(shape_text(each, is_whole=True), each.input_json)
        world.rows("UPDATE manifest SET declared = ? WHERE external_id = ?", whole, each.external_id)
    before = world.rows("SELECT * FROM manifest ORDER BY id")

    again = await world.seed(*declared)

    assert (again.updated, again.unchanged) == (0, 2)
    assert world.rows("SELECT * FROM manifest ORDER BY id") == before


@pytest.mark.parametrize("is_whole", [False, True])
def test_a_declaration_is_read_as_it_was_stored(is_whole: bool) -> None:
    for each in (manifest(), manifest(max_retries=7, is_retried=False, keep_last=2, priority=0)):
        stored = with_input(shape_text(each, is_whole=is_whole), each.input_json)

        assert from_stored(each.external_id, stored) == each


def test_what_is_left_out_of_the_stored_form_is_a_part_of_it() -> None:
    usual = json.loads(shape_text(manifest(), is_whole=True))

    assert {name: usual[name] for name in LEFT_OUT} == LEFT_OUT
    assert sorted(json.loads(shape_text(manifest()))) == [
        "batch", "group", "input_type", "is_enabled", "schedule", "train",
    ]  # fmt: skip


async def test_a_changed_declaration_changes_what_it_says_and_keeps_the_cursor(world: World) -> None:
    await world.seed(manifest(schedule=Cron("0 3 * * *")))
    before = world.manifest()

    result = await world.seed(manifest(schedule=Cron("0 3 * * *"), max_retries=7, timeout=timedelta(hours=1)))

    after = world.manifest()
    assert result.updated == 1
    assert (after["max_retries"], after["timeout_seconds"]) == (7, 3600)
    assert after["next_scheduled_run"] == before["next_scheduled_run"]


async def test_a_changed_schedule_moves_the_cursor(world: World) -> None:
    await world.seed(manifest(schedule=Cron("0 3 * * *")))

    await world.seed(manifest(schedule=Cron("0 15 * * *")))

    assert world.instant(world.manifest()["next_look_at"]) == datetime(2026, 1, 5, 15, tzinfo=UTC)


async def test_what_is_no_longer_declared_is_marked_and_declaring_it_again_clears_the_mark(
    world: World,
) -> None:
    await world.seed(manifest("stays"), manifest("goes"))

    result = await world.seed(manifest("stays"))

    assert result.orphaned == 1
    assert world.manifest("goes")["orphaned_at"] is not None
    assert world.manifest("stays")["orphaned_at"] is None
    world.advance(minutes=1)

    await world.seed(manifest("stays"), manifest("goes"))

    back = world.manifest("goes")
    assert back["orphaned_at"] is None
    assert world.instant(back["enabled_at"]) == world.clock.now
    assert back["next_look_at"] is not None


async def test_an_application_that_declares_nothing_prunes_nothing(world: World) -> None:
    await world.seed(manifest())

    result = await world.seed()

    assert result.orphaned == 0
    assert world.manifest()["orphaned_at"] is None


async def test_another_owners_manifests_are_not_pruned_and_their_ids_can_be_used_too(world: World) -> None:
    await world.seed(manifest("theirs"), manifest("both"), owner="warehouse")
    await world.seed(manifest("ours"), manifest("both"))

    assert world.manifest("theirs")["orphaned_at"] is None
    both = world.rows("SELECT owner, orphaned_at FROM manifest WHERE external_id = 'both' ORDER BY owner")
    assert both == [{"owner": OWNER, "orphaned_at": None}, {"owner": "warehouse", "orphaned_at": None}]


async def test_a_manifest_follows_only_those_of_its_own_application(world: World) -> None:
    await world.seed(manifest("theirs"), owner="warehouse")
    child = manifest("child", schedule=Dependent("theirs"))

    with pytest.raises(ParentNotFoundError, match="theirs"):
        await world.seed(child)

    await world.seed(manifest("theirs"), child)
    (link,) = world.rows("SELECT p.owner FROM manifest c JOIN manifest p ON p.id = c.depends_on_manifest_id")
    assert link == {"owner": OWNER}


async def test_a_refused_seeding_writes_nothing_at_all(world: World) -> None:
    with pytest.raises(ParentNotFoundError):
        await world.seed(manifest("ours"), manifest("child", schedule=Dependent("nowhere")))

    assert world.rows("SELECT 1 AS one FROM manifest WHERE external_id = 'ours'") == []


async def test_batch_sync_does_not_prune_batch_sync_users(world: World) -> None:
    users = manifest("sync-users-1", batch="sync-users", group="sync-users")
    await world.seed(users, manifest("sync-a", batch="sync"), manifest("sync-b", batch="sync"))

    await world.seed(users, manifest("sync-a", batch="sync"))

    assert world.manifest("sync-users-1")["orphaned_at"] is None
    assert world.manifest("sync-b")["orphaned_at"] is not None


async def test_an_empty_batch_prunes_its_members_only_when_told_to(world: World) -> None:
    other = manifest("other")
    await world.seed(other, manifest("sync-a", batch="sync"))

    await world.seed(other, batches=(BatchDeclaration(name="sync"),))
    assert world.manifest("sync-a")["orphaned_at"] is None

    await world.seed(batches=(BatchDeclaration(name="sync", prune_empty=True),))
    assert world.manifest("sync-a")["orphaned_at"] is not None
    assert world.manifest("other")["orphaned_at"] is None


async def test_members_of_one_batch_do_not_share_their_options(world: World) -> None:
    await world.seed(
        manifest("sync-a", batch="sync", input_json='{"t":"a"}', priority=3),
        manifest("sync-b", batch="sync", input_json='{"t":"b"}', priority=9),
    )

    assert (world.manifest("sync-a")["priority"], world.manifest("sync-b")["priority"]) == (3, 9)
    assert '"a"' in str(world.manifest("sync-a")["properties"]).replace("'", '"')


async def test_a_manifest_made_at_run_time_is_never_pruned(world: World) -> None:
    await world.seed(manifest("declared"))
    await world.database.run(add_manifest(OWNER, manifest("added")))

    await world.seed(manifest("declared"))

    assert world.manifest("added")["origin"] == "runtime"
    assert world.manifest("added")["orphaned_at"] is None


async def test_a_declared_manifest_cannot_be_added_beside_the_code(world: World) -> None:
    await world.seed(manifest("declared"))

    with pytest.raises(ManifestDeclaredError):
        await world.database.run(add_manifest(OWNER, manifest("declared", max_retries=1)))


async def test_dependents_find_their_parents_in_whatever_order_they_are_declared(world: World) -> None:
    chain = [
        manifest("third", schedule=Dependent("second")),
        manifest("second", schedule=DormantDependent("first")),
        manifest("first", schedule=Manual()),
    ]

    result = await world.seed(*chain)

    assert result.created == 3
    assert world.manifest("third")["depends_on_manifest_id"] == world.manifest("second")["id"]


async def test_a_parent_that_is_nowhere_is_named(world: World) -> None:
    with pytest.raises(ParentNotFoundError, match="'nowhere'"):
        await world.seed(manifest("child", schedule=Dependent("nowhere")))


async def test_a_cycle_is_refused_with_its_members_listed(world: World) -> None:
    with pytest.raises(DependencyCycleError, match="a -> b -> c -> a"):
        await world.seed(
            manifest("a", schedule=Dependent("b")),
            manifest("b", schedule=Dependent("c")),
            manifest("c", schedule=Dependent("a")),
        )


async def test_a_cycle_through_what_is_stored_is_refused_at_run_time_too(world: World) -> None:
    await world.database.run(add_manifest(OWNER, manifest("a", schedule=Manual())))
    await world.database.run(add_manifest(OWNER, manifest("b", schedule=Dependent("a"))))

    with pytest.raises(DependencyCycleError):
        await world.database.run(add_manifest(OWNER, manifest("a", schedule=Dependent("b"))))


async def test_a_delay_is_resolved_once_and_a_restart_does_not_arm_it_again(world: World) -> None:
    declared = manifest("once", schedule=Once(delay=timedelta(minutes=5)))
    await world.seed(declared)
    assert world.instant(world.manifest("once")["scheduled_at"]) == START + timedelta(minutes=5)
    world.advance(minutes=6)
    await world.cycle()
    assert await world.succeed() == 1
    assert world.manifest("once")["completed_at"] is not None

    await world.seed(declared)
    await world.cycle()

    assert await world.succeed() == 0


async def test_once_scheduled_again_under_its_id_runs_again(world: World) -> None:
    await world.seed(manifest("once", schedule=Once(at=START + timedelta(minutes=1))))
    world.advance(minutes=2)
    await world.cycle()
    assert await world.succeed() == 1

    await world.seed(manifest("once", schedule=Once(at=START + timedelta(minutes=10))))
    assert world.manifest("once")["completed_at"] is None
    world.advance(minutes=10)
    await world.cycle()

    assert await world.succeed() == 1


async def test_once_on_an_excluded_instant_is_refused(world: World) -> None:
    with pytest.raises(ExcludedInstantError):
        await world.seed(
            manifest(
                "once",
                schedule=Once(at=datetime(2026, 12, 24, 8, tzinfo=UTC)),
                exclusions=(Dates.on(date(2026, 12, 24)),),
            )
        )


async def test_a_manifest_takes_its_groups_priority_and_follows_its_changes(world: World) -> None:
    follows, has_own = manifest("follows", group="etl"), manifest("own", group="etl", priority=2)
    await world.seed(follows, has_own, groups=(GroupDeclaration(name="etl", priority=20),))
    assert (world.manifest("follows")["priority"], world.manifest("own")["priority"]) == (20, 2)

    await world.seed(follows, has_own, groups=(GroupDeclaration(name="etl", priority=25, max_active_jobs=4),))

    assert (world.manifest("follows")["priority"], world.manifest("own")["priority"]) == (25, 2)
    (group,) = world.rows("SELECT * FROM manifest_group WHERE name = 'etl'")
    assert (group["priority"], group["max_active_jobs"]) == (25, 4)


async def test_an_interval_that_becomes_shorter_is_counted_from_the_instant_before(world: World) -> None:
    await world.seed(manifest(schedule=Interval(timedelta(hours=1))))
    await world.cycle()
    world.advance(minutes=10)

    await world.seed(manifest(schedule=Interval(timedelta(minutes=30))))

    assert world.instant(world.manifest()["next_scheduled_run"]) == START + timedelta(minutes=30)
