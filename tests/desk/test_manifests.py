from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from gandy.desk.explain import explain_manifest
from gandy.desk.groups import GroupChanges, GroupDesk
from gandy.desk.manifests import ManifestDesk
from gandy.desk.schedules import ManifestChanges, preview_manifest
from gandy.errors import (
    ManifestDeclaredError,
    ManifestInUseError,
    ManifestNotFoundError,
    OverrideError,
)
from gandy.model.manifest import GroupDeclaration
from gandy.model.owners import ALL_OWNERS, Operator
from gandy.model.schedule import Cron, Dependent, Interval, Manual
from gandy.store.queueing import RemovedManifest, remove_manifest
from gandy.store.reading.views import ManifestFilter
from gandy.store.seeding import add_manifest
from tests.support.world import OWNER, OWNERS, START, manifest

if TYPE_CHECKING:
    from gandy.model.owners import Owners
    from tests.support.world import World

ANNA = Operator("anna", "cli")


def desk(world: World, owners: Owners = OWNERS) -> ManifestDesk:
    return ManifestDesk(world.database, ANNA, owners=owners)


def deeds(world: World) -> list[tuple[str, str, str]]:
    return [
        (row["actor"], row["action"], row["subject"]) for row in world.rows("SELECT * FROM audit ORDER BY id")
    ]


async def test_a_deploy_never_undoes_an_operators_pause(world: World) -> None:
    await world.seed(manifest())
    shown = await desk(world).disable("report", "the source is down")
    assert (shown.state, shown.disabled_reason) == ("disabled", "the source is down")

    await world.seed(manifest(max_retries=9))

    assert (await desk(world).show("report")).state == "disabled"
    assert (await world.cycle()).queued == 0
    assert (await desk(world).show("report")).max_retries == 9, "the rest of the deploy counts"
    assert deeds(world) == [("anna", "disable manifest", "report")]


async def test_enabling_goes_on_with_the_next_occurrence_and_accounts_for_the_missed_ones(
    world: World,
) -> None:
    await world.seed(manifest(schedule=Cron("0 * * * *")))
    await desk(world).disable("report")
    world.advance(hours=2, minutes=30)
    await world.cycle()
    assert (await world.cycle()).looked_at == 0, "a pause costs nothing meanwhile"

    await desk(world).enable("report")
    await world.cycle()

    assert world.verdicts() == [("skipped", "disabled", 2)]
    world.advance(minutes=30)
    assert (await world.cycle()).queued == 1
    assert json.loads(json.dumps((await desk(world).show("report")).overrides)) == {}


async def test_an_override_wins_over_a_changed_declaration_until_it_is_cleared(world: World) -> None:
    await world.seed(manifest(timeout=timedelta(minutes=1)))
    changes = ManifestChanges(timeout=timedelta(hours=2), schedule=Cron("0 4 * * *"))

    await desk(world).set("report", changes)
    await world.seed(manifest(timeout=timedelta(minutes=5), schedule=Interval(timedelta(hours=1))))

    shown = await desk(world).show("report")
    assert (shown.timeout, shown.schedule) == (timedelta(hours=2), "at 04:00 (cron 0 4 * * *, UTC)")
    cleared = await desk(world).reset("report")
    assert (cleared.timeout, cleared.schedule) == (timedelta(minutes=5), "every hour")


async def test_only_schedules_of_a_kind_can_replace_each_other(world: World) -> None:
    await world.seed(manifest("parent", schedule=Manual()), manifest("child", schedule=Dependent("parent")))

    with pytest.raises(OverrideError, match="only a cron, an interval or a manual"):
        await desk(world).set("child", ManifestChanges(schedule=Cron("0 4 * * *")))


async def test_the_trail_does_not_keep_an_input(world: World) -> None:
    await world.seed(manifest())

    await desk(world).set("report", ManifestChanges(input_json='{"password": "hunter2"}'))

    assert "hunter2" not in json.dumps(world.rows("SELECT * FROM audit"), default=str)
    assert deeds(world) == [("anna", "set manifest", "report")]


async def test_manifests_are_listed_by_prefix_filter_and_page(world: World) -> None:
    await world.seed(
        *(manifest(f"sync-{n}", group="sync") for n in range(5)), manifest("other", schedule=Manual())
    )
    await desk(world).disable("sync-3")

    async def ids(**wanted: object) -> list[str]:
        found = await desk(world).list(ManifestFilter(**wanted))  # type: ignore[arg-type]
        return [each.external_id for each in found]

    assert await ids(prefix="sync-", limit=2) == ["sync-0", "sync-1"]
    assert await ids(prefix="sync-", after="sync-1") == ["sync-2", "sync-3", "sync-4"]
    assert await ids(is_enabled=False) == ["sync-3"]
    assert await ids(schedule_type="none") == ["other"]
    assert await ids(group="sync", train="MakeReport", limit=1) == ["sync-0"]


async def test_another_applications_manifest_is_not_there_but_for_one_who_asks_for_all(world: World) -> None:
    await world.seed(manifest(), owner="warehouse")

    with pytest.raises(ManifestNotFoundError):
        await desk(world).trigger("report")
    with pytest.raises(ManifestNotFoundError):
        await desk(world).disable("report")
    assert (await desk(world, ALL_OWNERS).trigger("report")).is_new


async def test_preview_lists_exactly_what_then_runs(world: World) -> None:
    await world.seed(manifest(schedule=Cron("0 */6 * * *", "Europe/Berlin"), variance=timedelta(minutes=9)))
    listed = await preview_manifest(world.database, "report", 4, owners=OWNERS)
    ran = []
    for _ in range(24 * 6):
        world.advance(minutes=10)
        await world.cycle()
        runs = await world.claim()
        ran += [(run.due_at, run.waited_since) for run in runs]
        await world.finish(*runs)

    assert [(each.due_at, each.scheduled_at) for each in listed] == ran[:4]


async def test_preview_marks_the_change_of_the_clocks(world: World) -> None:
    world.clock.advance(timedelta(days=80))
    await world.seed(manifest(schedule=Cron("0 12 * * *", "Europe/Berlin")))

    listed = await preview_manifest(world.database, "report", 7, owners=OWNERS)

    assert [each.note for each in listed].count("UTC offset changed") == 1
    assert {each.local[-6:] for each in listed} == {"+01:00", "+02:00"}


async def test_explain_names_what_holds_a_manifest_back_and_what_to_do(world: World) -> None:
    await world.seed(manifest(max_retries=1))
    await world.cycle()
    await world.fail()
    await world.cycle()
    await desk(world).disable("report", "broken")

    told = await explain_manifest(world.database, "report", owners=OWNERS)

    assert any("disabled: broken" in reason for reason in told.holding_back)
    assert any("open dead letter" in reason for reason in told.holding_back)
    assert any("gandy manifests enable report" in advice for advice in told.what_to_do)
    assert any("gandy dead-letters requeue" in advice for advice in told.what_to_do)
    assert told.verdicts[0].verdict == "dispatched"
    assert told.next_instant == START + timedelta(minutes=5)


async def test_explain_says_why_a_dependent_waits(world: World) -> None:
    await world.seed(manifest("parent", schedule=Manual()), manifest("child", schedule=Dependent("parent")))

    told = await explain_manifest(world.database, "child", owners=OWNERS)

    assert told.holding_back == ("parent has not succeeded since it was last queued",)


async def test_what_the_code_declares_is_not_deleted_beside_it(world: World) -> None:
    await world.seed(manifest())

    with pytest.raises(ManifestDeclaredError):
        await desk(world).delete("report")


async def test_a_manifest_made_at_run_time_is_removed_with_what_waits_for_it(world: World) -> None:
    await world.database.run(add_manifest(OWNER, manifest("extra")))
    await world.cycle()

    assert await desk(world).delete("extra") == RemovedManifest(is_gone=True, cancelled_entries=1)

    with pytest.raises(ManifestNotFoundError):
        await desk(world).show("extra")
    assert await world.claim() == []


async def test_a_running_manifest_is_removed_only_when_it_has_ended(world: World) -> None:
    await world.database.run(add_manifest(OWNER, manifest("extra")))
    await world.cycle()
    await world.claim()

    assert not await world.database.run(remove_manifest("extra", owner=OWNER))
    assert (await desk(world).show("extra")).state == "orphaned"


async def test_a_parent_is_not_removed_under_its_dependents(world: World) -> None:
    await world.database.run(add_manifest(OWNER, manifest("parent", schedule=Manual())))
    await world.database.run(add_manifest(OWNER, manifest("child", schedule=Dependent("parent"))))

    with pytest.raises(ManifestInUseError, match="'child' depends on it"):
        await desk(world).delete("parent")


async def test_a_group_is_switched_off_and_on_for_all_its_manifests(world: World) -> None:
    groups = GroupDesk(world.database, ANNA, owners=OWNERS)
    declared = (*(manifest(f"m-{n}", group="etl") for n in range(3)), manifest("other"))
    await world.seed(*declared, groups=(GroupDeclaration(name="etl", priority=3),))
    await groups.set("etl", GroupChanges(is_enabled=False, reason="maintenance"))
    assert (await world.cycle()).queued == 1
    await world.seed(*declared, groups=(GroupDeclaration(name="etl", priority=4),))
    assert not (await groups.show("etl")).is_enabled, "a deploy does not undo it"
    (audited,) = world.rows("SELECT detail FROM audit")
    assert "maintenance" in str(audited["detail"])

    await groups.set("etl", GroupChanges(is_enabled=True))

    world.advance(minutes=5)
    await world.cycle()
    assert (
        len(world.rows("SELECT 1 AS n FROM work_queue WHERE status = 'queued' AND manifest_id IS NOT NULL"))
        == 4
    )


async def test_a_groups_overridden_priority_reaches_its_manifests_and_is_cleared(world: World) -> None:
    groups = GroupDesk(world.database, ANNA, owners=OWNERS)
    await world.seed(manifest(group="etl"), groups=(GroupDeclaration(name="etl", priority=3),))
    await groups.set("etl", GroupChanges(priority=30, max_active_jobs=2))
    assert world.manifest()["priority"] == 30

    shown = await groups.reset("etl")

    assert (shown.priority, shown.max_active_jobs, world.manifest()["priority"]) == (3, None, 3)


async def test_triggering_a_group_queues_each_of_its_manifests_once(world: World) -> None:
    await world.seed(*(manifest(f"m-{n}", group="etl", schedule=Manual()) for n in range(3)))

    triggered = await GroupDesk(world.database, ANNA, owners=OWNERS).trigger("etl")
    again = await GroupDesk(world.database, ANNA, owners=OWNERS).trigger("etl")

    assert [each.is_new for each in triggered] == [True] * 3
    assert [each.id for each in again] == [each.id for each in triggered]
