"""What goes by row, by which setting, and what never goes."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from gandy.model.schedule import Dependent, Once
from tests.support.world import manifest

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.history import Past

SECOND = timedelta(seconds=1)
DAY = timedelta(days=1)


def worker(past: Past, state: str, age: timedelta) -> str:
    now = past.world.clock.now
    found: str = past.insert(
        "worker",
        id=f"{state}-{age}",
        owner="shop",
        host="h",
        pid=1,
        version="1",
        started_at=now - 2 * age,
        last_seen_at=now - age,
        lease_expires_at=now - age,
        slots=1,
        state=state,
    )
    return found


def audit(past: Past, age: timedelta) -> Any:  # noqa: ANN401 an id
    return past.insert(
        "audit",
        at=past.world.clock.now - age,
        owner="shop",
        actor="me",
        face="cli",
        action="disable",
        subject="report",
    )


def state(past: Past, age: timedelta) -> Any:  # noqa: ANN401 a key
    return past.insert(
        "service_state", owner="shop", key=f"idle:{age}", value="null", updated_at=past.world.clock.now - age
    )


def settled(status: str) -> Callable[[Past, timedelta], int]:
    def write(past: Past, age: timedelta) -> int:
        now = past.world.clock.now
        return past.entry(status=status, created_at=now - 400 * DAY, settled_at=now - age)

    return write


@pytest.mark.parametrize(
    ("setting", "span", "table", "write"),
    [
        ("skipped", 7 * DAY, "work_queue", settled("skipped")),
        ("cancelled_entries", 7 * DAY, "work_queue", settled("cancelled")),
        ("workers", DAY, "worker", lambda past, age: worker(past, "stopped", age)),
        ("workers", DAY, "worker", lambda past, age: worker(past, "lost", age)),
        ("workers", DAY, "worker", lambda past, age: worker(past, "running", age)),
        ("audit", 90 * DAY, "audit", audit),
        ("audit", 90 * DAY, "service_state", state),
    ],
)
async def test_a_row_goes_after_its_span_and_the_span_is_a_setting(
    past: Past, setting: str, span: timedelta, table: str, write: Callable[[Past, timedelta], Any]
) -> None:
    write(past, span + SECOND)
    young = write(past, span)
    younger = write(past, span / 2 + SECOND)
    column = "key" if table == "service_state" else "id"

    def left() -> set[Any]:
        rows = past.world.rows(f"SELECT {column} AS id FROM {table}")  # noqa: S608 names of this test
        return {row["id"] for row in rows} & {young, younger} | {
            row["id"] for row in rows if str(row["id"]).endswith(str(span + SECOND))
        }

    await past.table_maintenance()
    assert left() == {young, younger}
    await past.table_maintenance(**{setting: span / 2})
    assert left() == set()


async def test_a_session_or_code_of_the_dashboard_goes_once_its_time_is_over(past: Past) -> None:
    now = past.world.clock.now
    for kind in ("session", "code"):
        for name, age in (("over", SECOND), ("just over", 0 * SECOND), ("valid", -SECOND)):
            past.insert(
                "web_key",
                id=f"{kind} {name}",
                owner="shop",
                kind=kind,
                secret="s",
                token="operator",
                name="ada",
                created_at=now - DAY,
                expires_at=now - age,
            )

    await past.table_maintenance()

    left = {row["id"] for row in past.world.rows("SELECT id FROM web_key")}
    assert left == {"session valid", "code valid"}


async def test_an_entry_stays_for_as_long_as_its_run_is_unfinished(past: Past) -> None:
    entries = {
        past.run("SendMail", state=state, started=timedelta(days=9)) for state in ("pending", "in_progress")
    }

    await past.table_maintenance()

    assert past.ids("work_queue") == entries


async def test_a_queued_entry_of_any_age_stays(past: Past) -> None:
    entry = past.entry(status="queued", created_at=past.world.clock.now - timedelta(days=3650))

    await past.table_maintenance()

    assert past.ids("work_queue") == {entry}


async def test_a_silent_worker_stays_for_as_long_as_a_run_of_its_is_to_be_settled(past: Past) -> None:
    silent = worker(past, "running", timedelta(days=9))
    run = past.run("SendMail", state="in_progress", started=timedelta(days=9), worker_id=silent)

    await past.table_maintenance()
    assert past.ids("worker") == {silent}

    past.world.rows("DELETE FROM work_queue WHERE id = ?", run)
    await past.table_maintenance()
    assert past.ids("worker") == set()


async def test_a_run_that_is_kept_by_row_goes_when_its_own_date_has_passed(past: Past) -> None:
    alive = past.run("SendMail", started=timedelta(hours=2), keep_for=timedelta(hours=3), lines=1)
    past.run("SendMail", started=timedelta(hours=2), keep_for=timedelta(hours=1), lines=3)

    result = await past.table_maintenance()

    assert result.rows["metadata"] == 1
    assert past.ids("metadata", "output IS NULL") == {alive}
    assert past.count("log") == 1


async def test_an_expired_key_goes_and_one_without_expiry_stays(past: Past) -> None:
    now = past.world.clock.now
    for key, expires_at in (("past", now), ("future", now + SECOND), ("never", None)):
        past.insert(
            "unique_key", owner="shop", key=key, holder_id=1, held_until="success", expires_at=expires_at
        )

    await past.table_maintenance()

    assert {row["key"] for row in past.world.rows("SELECT key FROM unique_key")} == {"future", "never"}


async def test_lines_that_a_lost_worker_left_follow_their_run(postgres_past: Past) -> None:
    past = postgres_past
    kept = past.run("SendMail", started=timedelta(hours=1))
    live = past.run("SendMail", state="in_progress")
    for run in (kept, live, 999):
        past.line(run, bucket="infinity")

    await past.table_maintenance()

    rows = past.world.rows("SELECT metadata_id, bucket::text AS bucket FROM log ORDER BY 1")
    assert [(row["metadata_id"], row["bucket"]) for row in rows] == [(kept, "-infinity"), (live, "infinity")]


async def test_only_the_newest_runs_of_a_manifest_are_kept_where_it_says_how_many(past: Past) -> None:
    await past.world.seed(manifest("capped", keep_last=3), manifest("free"))
    await past.table_maintenance()
    capped, free = (past.world.manifest(name)["id"] for name in ("capped", "free"))
    days = [past.day(3), past.day(5), None]
    runs = [past.run("MakeReport", manifest_id=capped, bucket=days[n % 3], lines=1) for n in range(8)]
    active = past.run("MakeReport", manifest_id=capped, state="in_progress")
    others = {past.run("MakeReport", manifest_id=free) for _ in range(5)}

    result = await past.table_maintenance()

    assert past.ids("metadata", "output IS NULL") == {*runs[-3:], active, *others}
    assert (result.rows["metadata"], result.rows["log"]) == (5, 5)


async def test_the_caps_of_many_manifests_are_seen_to_over_several_cycles(past: Past) -> None:
    await past.world.seed(*(manifest(f"m{n}", keep_last=1) for n in range(1_050)))
    last = past.world.manifest("m1049")["id"]
    for _ in range(3):
        past.run("MakeReport", manifest_id=last)

    first = await past.table_maintenance()
    second = await past.table_maintenance()

    assert (first.rows.get("metadata", 0), second.rows["metadata"]) == (0, 2)


async def test_an_orphan_goes_after_a_day_with_its_waiting_entry_cancelled(past: Past) -> None:
    await past.world.seed(manifest("old"), manifest("kept"))
    await past.world.cycle()
    await past.world.seed(manifest("kept"))
    past.world.advance(hours=24)
    await past.table_maintenance()
    assert past.count("manifest") == 2

    past.world.advance(seconds=1)
    await past.table_maintenance()

    assert [row["external_id"] for row in past.world.rows("SELECT external_id FROM manifest")] == ["kept"]
    statuses = past.world.rows("SELECT status FROM work_queue ORDER BY id")
    assert sorted(row["status"] for row in statuses) == ["cancelled", "queued"]


@pytest.mark.parametrize("status", ["queued", "waiting"])
@pytest.mark.parametrize("origin", ["retry", "trigger", "dormant", "requeue"])
async def test_an_orphan_stays_for_as_long_as_an_input_of_its_own_waits(
    past: Past, origin: str, status: str
) -> None:
    await past.world.seed(manifest("old"), manifest("kept"))
    entry = past.entry(status=status, origin=origin, manifest_id=past.world.manifest("old")["id"])
    await past.world.seed(manifest("kept"))
    past.world.advance(days=2)

    await past.table_maintenance()
    assert (past.count("manifest"), past.count("work_queue", f"status = '{status}'")) == (2, 1)

    past.world.rows("UPDATE work_queue SET status = 'cancelled' WHERE id = ? RETURNING id", entry)
    await past.table_maintenance()
    assert past.count("manifest") == 1


async def test_an_orphan_stays_with_an_unfinished_run_or_a_letter_that_awaits_a_person(past: Past) -> None:
    await past.world.seed(manifest("running"), manifest("parked"), manifest("resolved"), manifest("kept"))
    await past.world.cycle()
    (run,) = [run for run in await past.world.claim() if run.manifest == "running"]
    for name, status in (("parked", "awaiting_intervention"), ("resolved", "acknowledged")):
        past.letter(
            status=status,
            manifest_id=past.world.manifest(name)["id"],
            resolved_at=None if status == "awaiting_intervention" else past.world.clock.now,
        )
    past.world.rows(
        "UPDATE manifest SET active_run_id = NULL WHERE external_id IN ('parked', 'resolved', 'kept')"
    )
    await past.world.seed(manifest("kept"))
    past.world.advance(days=2)

    await past.table_maintenance()
    names = {row["external_id"] for row in past.world.rows("SELECT external_id FROM manifest")}
    assert names == {"running", "parked", "kept"}
    assert past.count("dead_letter", "status = 'acknowledged' AND manifest_id IS NULL") == 1

    await past.world.finish(run)
    await past.table_maintenance()
    names = {row["external_id"] for row in past.world.rows("SELECT external_id FROM manifest")}
    assert names == {"parked", "kept"}


async def test_orphans_go_before_the_orphans_they_depend_on(past: Past) -> None:
    await past.world.seed(
        manifest("parent"), manifest("child", schedule=Dependent("parent")), manifest("kept")
    )
    await past.world.seed(manifest("kept"))
    past.world.advance(days=2)

    for _ in range(2):
        await past.table_maintenance()

    assert [row["external_id"] for row in past.world.rows("SELECT external_id FROM manifest")] == ["kept"]


@pytest.mark.parametrize(("origin", "is_kept"), [("runtime", False), ("declared", True)])
async def test_a_completed_once_goes_after_thirty_days_unless_it_is_declared(
    past: Past, origin: str, is_kept: bool
) -> None:
    now = past.world.clock.now
    await past.world.seed(manifest("once", schedule=Once(now)))
    await past.world.cycle()
    await past.world.succeed()
    past.world.rows("UPDATE manifest SET origin = ?", origin)
    past.world.advance(days=30)
    await past.table_maintenance()
    assert past.count("manifest") == 1

    past.world.advance(seconds=1)
    await past.table_maintenance()

    assert past.count("manifest") == int(is_kept)


@pytest.mark.parametrize("setting", ["orphaned", "once_completed"])
async def test_how_long_manifests_are_kept_is_a_setting(past: Past, setting: str) -> None:
    now = past.world.clock.now
    await past.world.seed(manifest("one"), manifest("two"))
    column = {"orphaned": "orphaned_at", "once_completed": "completed_at"}[setting]
    past.world.rows(
        f"UPDATE manifest SET {column} = ?, origin = 'runtime', next_look_at = NULL "  # noqa: S608 names of this test
        "WHERE external_id = 'one'",
        past.value(now - timedelta(hours=5)),
    )

    await past.table_maintenance()
    assert past.count("manifest") == 2
    await past.table_maintenance(**{setting: timedelta(hours=4)})
    assert past.count("manifest") == 1


def group(past: Past, name: str, **columns: object) -> int:
    made_at = past.world.clock.now - DAY - SECOND
    values = {"owner": "shop", "name": name, "created_at": made_at, "updated_at": made_at, **columns}
    return int(past.insert("manifest_group", **values))


async def test_names_of_groups_that_were_made_up_go_when_nothing_bears_them_any_more(past: Past) -> None:
    await past.world.seed(manifest("report", group="reports"))
    past.world.rows(
        "UPDATE manifest_group SET updated_at = ?", past.value(past.world.clock.now - DAY - SECOND)
    )
    (scheduled,) = past.world.rows("SELECT manifest_group_id AS id FROM manifest")
    for number in range(20):
        group(past, f"x-{number}")
    kept = {
        "a manifest": scheduled["id"],
        "young": group(past, "young", updated_at=past.world.clock.now - DAY),
        "a cap": group(past, "capped", declared='{"max_active_jobs": 2}', max_active_jobs=2),
        "set by a person": group(past, "set", overrides='{"priority": 3}', priority=3),
        "paused": group(past, "paused", is_enabled=False),
        "an entry": group(past, "waiting"),
        "a run": group(past, "running"),
        "a letter": group(past, "lettered"),
    }
    past.run("SendMail", state="in_progress", started=9 * DAY, manifest_group_id=kept["a run"])
    past.entry(status="queued", manifest_group_id=kept["an entry"])
    past.letter(status="awaiting_intervention", manifest_group_id=kept["a letter"])
    past.letter(
        status="acknowledged", resolved_at=past.world.clock.now, manifest_group_id=group(past, "past")
    )

    await past.table_maintenance()
    assert past.ids("manifest_group") == set(kept.values())

    past.world.rows("DELETE FROM work_queue WHERE status = 'queued'")
    past.world.advance(days=1)
    await past.table_maintenance()
    assert kept["an entry"] in past.ids("manifest_group"), "it was in use a day ago"
    past.world.advance(seconds=1)
    await past.table_maintenance()
    assert past.ids("manifest_group") == set(kept.values()) - {kept["an entry"], kept["young"]}


async def test_an_entry_whose_groups_name_went_while_it_was_written_is_dispatched_all_the_same(
    past: Past,
) -> None:
    entry = past.entry(status="queued", manifest_group_id=4711)
    assert 4711 not in past.ids("manifest_group")

    (claimed,) = await past.world.claim()

    assert claimed.id == entry
