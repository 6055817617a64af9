"""Which runs go, which never do, in which order, and what a failure leaves."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from gandy.model.run import ADMINISTRATIVE_TRAINS
from gandy.model.schedule import Dependent, Once
from gandy.scheduler.manager import ManifestManagerTrain
from gandy.settings import CleanupSettings
from gandy.store.cleanup import expired_runs, prune_batch
from gandy.store.statements import Batch, Statement
from gandy.upkeep.trains import DeadLetterCleanupTrain, MetadataCleanupTrain, TableMaintenanceTrain
from gandy.work.dispatcher import JobDispatcherTrain
from tests.support.world import manifest

if TYPE_CHECKING:
    from tests.support.history import Past

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
TERMINAL = ("completed", "failed", "cancelled")
OWN_TRAINS = (
    ManifestManagerTrain,
    JobDispatcherTrain,
    MetadataCleanupTrain,
    DeadLetterCleanupTrain,
    TableMaintenanceTrain,
)


def kept(past: Past) -> set[int]:
    """The runs that are left, but for the record of the cleanup itself, which alone has an output."""
    return past.ids("metadata", "output IS NULL")


def test_the_defaults_are_half_an_hour_every_minute_in_batches_of_a_thousand() -> None:
    settings = CleanupSettings()

    assert settings.retention == timedelta(minutes=30)
    assert settings.interval == timedelta(minutes=1)
    assert settings.batch_size == 1000
    assert settings.trains == ()


def test_the_route_is_one_junction() -> None:
    assert [step.__name__ for step in MetadataCleanupTrain.route] == ["delete_expired_metadata"]


def test_every_administrative_train_that_writes_runs_is_on_the_whitelist() -> None:
    assert sorted(train.definition.name for train in OWN_TRAINS) == sorted(ADMINISTRATIVE_TRAINS)


@pytest.mark.parametrize("name", ADMINISTRATIVE_TRAINS)
async def test_finished_runs_of_administrative_trains_go_after_half_an_hour(past: Past, name: str) -> None:
    for state in TERMINAL:
        past.run(name, state=state, started=30 * MINUTE + timedelta(seconds=1))
    young = {past.run(name, state=state, started=30 * MINUTE) for state in TERMINAL}

    result = await past.metadata_cleanup()

    assert result.rows["metadata"] == 3
    assert kept(past) == young


@pytest.mark.parametrize("state", ["pending", "in_progress"])
async def test_an_unfinished_run_of_any_age_survives(past: Past, state: str) -> None:
    old = past.run("ManifestManagerTrain", state=state, started=timedelta(days=3650))
    past.run("ManifestManagerTrain", state="completed", started=timedelta(days=3650))

    await past.metadata_cleanup()

    assert kept(past) == {old}


async def test_a_run_goes_only_when_name_age_and_state_all_say_so(past: Past) -> None:
    survivors = {
        past.run("SendMail", started=timedelta(days=1)),
        past.run("ManifestManagerTrain", started=MINUTE),
        past.run("ManifestManagerTrain", state="in_progress", started=timedelta(days=1)),
    }
    past.run("ManifestManagerTrain", started=timedelta(days=1))

    await past.metadata_cleanup()

    assert kept(past) == survivors


async def test_further_trains_are_named_and_only_the_owners_runs_of_them_go(past: Past) -> None:
    past.run("LegacyTrainName", started=timedelta(hours=1))
    others = past.run("LegacyTrainName", started=timedelta(hours=1), owner="another application")
    past.run("ManifestManagerTrain", started=timedelta(hours=1), owner="another application")

    assert (await past.metadata_cleanup()).rows == {"metadata": 1}
    await past.metadata_cleanup(trains=("LegacyTrainName",))

    assert kept(past) == {others}


async def test_a_longer_retention_keeps_longer(past: Past) -> None:
    run = past.run(started=timedelta(hours=1))

    await past.metadata_cleanup(retention=timedelta(hours=2))
    assert kept(past) == {run}
    await past.metadata_cleanup(retention=timedelta(minutes=30))
    assert kept(past) == set()


async def test_lines_go_with_their_run_and_letters_forget_it(past: Past) -> None:
    run = past.run(lines=3)
    letter = past.letter(status="retried", retry_metadata_id=run, metadata_id=run)
    past.run(started=MINUTE, lines=2)

    result = await past.metadata_cleanup()

    assert dict(result.rows) == {"log": 3, "metadata": 1}
    assert past.count("log") == 2
    (row,) = past.world.rows("SELECT * FROM dead_letter WHERE id = ?", letter)
    assert (row["retry_metadata_id"], row["metadata_id"]) == (None, run)


async def test_runs_are_found_in_whichever_partition_they_lie(past: Past) -> None:
    past.run("Noisy", bucket=past.day(5), lines=2)
    past.run("Noisy", lines=1)

    result = await past.metadata_cleanup(trains=("Noisy",))

    assert dict(result.rows) == {"metadata": 2, "log": 3}


@pytest.mark.parametrize(("batch_size", "largest"), [(2, 2), (1000, 5), (None, 5)])
async def test_batches_are_as_large_as_allowed_and_go_on_until_nothing_matches(
    past: Past, batch_size: int | None, largest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(5):
        past.run()
    sizes: list[int] = []
    run = past.world.database.run

    async def watched(operation: Any) -> object:  # noqa: ANN401 any operation
        result: object = await run(operation)
        if rows := getattr(result, "counts", {}).get("metadata"):
            sizes.append(rows)
        return result

    monkeypatch.setattr(past.world.database, "run", watched)
    result = await past.metadata_cleanup(batch_size=batch_size)

    assert result.rows["metadata"] == sum(sizes) == 5
    assert max(sizes) == largest


def test_ids_come_first_then_lines_references_and_runs_by_id() -> None:
    dead = expired_runs(administrative=["A"], owner="o", names=[], before=NOON)
    batch = prune_batch(dead, None, limit=10, patience=MINUTE)
    found = SimpleNamespace(rows=2, at=NOON, id=1, within=1, ids="{2,1}", buckets="{-infinity,-infinity}")
    answers: dict[str, Any] = {
        "find_expired_runs": [found],
        "begin_batch": [],
        "list_owners_of_runs": [SimpleNamespace(owner="o")],
    }
    steps: list[Statement] = []
    step: Statement | Batch = next(batch)
    while True:
        assert isinstance(step, Statement)
        steps.append(step)
        try:
            step = batch.send(answers.get(step.name, [SimpleNamespace(rows=1)]))
        except StopIteration:
            break

    assert [step.name for step in steps] == [
        "begin_batch",
        "list_owners_of_runs",
        "find_expired_runs",
        "delete_logs_of_runs",
        "forget_runs_of_letters",
        "delete_runs",
    ]
    assert [step.parameters["ids"] for step in steps[3:]] == ["{2,1}"] * 3


async def test_a_failure_in_the_middle_of_a_batch_leaves_everything_to_the_next_cycle(past: Past) -> None:
    run = past.run(lines=2)
    past.refuse_deletion("metadata", run)

    broken = await past.metadata_cleanup()

    assert (broken.deleted, broken.set_aside) == (0, 1)
    assert (kept(past), past.count("log")) == ({run}, 2)
    past.allow_deletion("metadata")
    mended = await past.metadata_cleanup()
    assert dict(mended.rows) == {"log": 2, "metadata": 1}


@pytest.mark.parametrize("batch_size", [1000, None])
async def test_a_row_that_cannot_go_is_found_and_reported_and_the_rest_go_on(
    past: Past, batch_size: int | None, caplog: pytest.LogCaptureFixture
) -> None:
    runs = [past.run(lines=1) for _ in range(20)]
    past.refuse_deletion("metadata", runs[7])

    result = await past.metadata_cleanup(batch_size=batch_size)

    assert (result.rows["metadata"], result.set_aside) == (19, 1)
    assert kept(past) == {runs[7]}
    assert past.count("log", f"metadata_id = {runs[7]}") == 1
    assert f"row {runs[7]} of metadata cannot be deleted" in caplog.text


async def test_a_cycle_that_is_told_to_stop_stops_between_two_batches(past: Past) -> None:
    for _ in range(6):
        past.run()
    answers = iter([False, False, True])
    past.is_stopping = lambda: next(answers)

    result = await past.metadata_cleanup(batch_size=2)

    assert result.is_stopped
    assert 2 <= result.rows["metadata"] <= 4  # two batches; a slow first one makes the second smaller
    assert len(kept(past)) == 6 - result.rows["metadata"]


async def test_what_somebody_holds_is_passed_over_and_left_to_the_next_cycle(postgres_past: Past) -> None:
    past = postgres_past
    held, *others = [past.run() for _ in range(5)]
    with past.holding("metadata", held):
        result = await past.metadata_cleanup()
        assert kept(past) == {held}
    assert (result.rows["metadata"], result.passed_over) == (len(others), 1)

    await past.metadata_cleanup()

    assert kept(past) == set()


async def test_a_cycle_records_itself_when_it_did_something_and_once_a_minute_when_not(past: Past) -> None:
    past.run()
    await past.metadata_cleanup()
    for _ in range(3):
        await past.metadata_cleanup()

    rows = past.world.rows("SELECT CAST(output AS text) AS output FROM metadata ORDER BY id")

    assert [json.loads(row["output"])["deleted"] for row in rows] == [1, 0]


async def test_the_record_of_a_cycle_goes_the_same_way(past: Past) -> None:
    past.run()
    await past.metadata_cleanup()
    assert past.count("metadata") == 1
    past.world.advance(minutes=31)

    await past.metadata_cleanup()

    rows = past.world.rows("SELECT CAST(output AS text) AS output FROM metadata")
    assert [json.loads(row["output"])["deleted"] for row in rows] == [1]


async def test_dependents_still_fire_after_their_parents_history_was_cleaned(past: Past) -> None:
    world = past.world
    once = Once(world.clock.now)
    await world.seed(manifest("parent", schedule=once), manifest("child", schedule=Dependent("parent")))
    await world.cycle()
    assert await world.succeed() == 1
    world.advance(minutes=31)

    result = await past.metadata_cleanup(trains=("MakeReport",))
    assert result.rows["metadata"] >= 1
    assert past.count("metadata", "name = 'MakeReport'") == 0
    await world.cycle()

    assert [status for status, _, _ in world.verdicts("child")] == ["queued"]
