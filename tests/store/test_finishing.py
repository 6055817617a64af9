from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from gandy.errors import RowConflictError
from gandy.model.run import Activation, EndedBy, Failure, TrainState
from gandy.model.schedule import Dependent, DormantDependent, Once
from gandy.store.dispatching import claim_pending, dispatch
from gandy.store.finishing import finish_runs
from gandy.store.reaping import ReapRules
from gandy.store.workers import WorkerRegistration, register_worker
from tests.store.work import (
    RULES,
    SPANS,
    TRAINS,
    WORKER,
    add_entry,
    ask,
    count,
    ended,
    entry,
    failed,
    gates,
    is_somebody_waiting,
    queue,
    run_row,
    second_connection,
)
from tests.support.reaping import reap_lost
from tests.support.waiting import eventually
from tests.support.world import OWNER, START, manifest

if TYPE_CHECKING:
    from gandy.model.run import ClaimedRun
    from tests.support.world import World


async def test_a_success_is_kept_with_its_output_and_its_end(world: World) -> None:
    run = await _running(world)
    world.advance(seconds=5)

    end = ended(run, output_json='{"sold": 1}', junctions_json="[]", progress_done=3, progress_total=4)
    result = await world.database.run(finish_runs([end], RULES))

    row = run_row(world, run.id)
    assert row is not None
    assert (set(result.finished), result.refused, result.retried) == ({run.id}, (), 0)
    assert (row["train_state"], row["progress_done"], row["progress_total"]) == ("completed", 3, 4)
    assert world.instant(row["end_time"]) == START + timedelta(seconds=5)
    assert world.instant(row["keep_until"]) == START + timedelta(seconds=5) + SPANS.completed


async def test_in_a_set_only_runs_that_their_claims_own_end_and_each_with_its_own_texts(world: World) -> None:
    await queue(world, *["1"] * 4)
    runs = (await world.database.run(dispatch(ask()))).runs
    outputs = ['"a \\\\ and \\""', None, '"{1,2}"', "3"]
    ends = [ended(run, output_json=output) for run, output in zip(runs, outputs, strict=True)]

    result = await world.database.run(finish_runs([*ends[:3], ends[3]._replace(fence=-1)], RULES))
    again = await world.database.run(finish_runs(ends, RULES))

    assert (set(result.finished), result.refused) == ({run.id for run in runs[:3]}, (runs[3].id,))
    assert (set(again.finished), set(again.refused)) == ({runs[3].id}, {run.id for run in runs[:3]})
    rows = world.rows("SELECT CAST(output AS text) AS output FROM history ORDER BY id")
    assert [row["output"] for row in rows] == outputs


async def test_a_set_with_a_text_that_no_column_can_hold_ends_once(world: World) -> None:
    await queue(world, *["1"] * 3)
    runs = (await world.database.run(dispatch(ask()))).runs
    texts = ["first", "lone \ud800", "last"]
    ends = [
        ended(run, TrainState.FAILED, failure=Failure("work", "ValueError", text))
        for run, text in zip(runs, texts, strict=True)
    ]

    result = await world.database.run(finish_runs(ends, RULES))

    assert set(result.finished) == {run.id for run in runs}
    reasons = world.rows("SELECT failure_reason FROM history ORDER BY id")
    assert [row["failure_reason"] for row in reasons] == ["first", "lone \ufffd", "last"]


async def test_a_refused_set_leaves_nothing_for_the_next(world: World) -> None:
    await queue(world, *["1"] * 3)
    runs = (await world.database.run(dispatch(ask()))).runs
    ends = [ended(run) for run in runs]

    with pytest.raises(RowConflictError):
        await world.database.run(finish_runs([*ends[:2], ends[2]._replace(output_json="{")], RULES))
    result = await world.database.run(finish_runs(ends[:1], RULES))

    assert set(result.finished) == {runs[0].id}
    assert [run_row(world, run.id) is None for run in runs[1:]] == [False, False], "they go on"
    assert count(world, "work_queue") == 2


@pytest.mark.parametrize(
    ("state", "span"),
    [
        (TrainState.COMPLETED, SPANS.completed),
        (TrainState.FAILED, SPANS.failed),
        (TrainState.CANCELLED, SPANS.cancelled),
    ],
)
async def test_how_a_run_ended_decides_how_long_it_is_kept(
    world: World, state: TrainState, span: timedelta
) -> None:
    run = await _running(world)

    await world.database.run(finish_runs([ended(run, state)], RULES))

    row = run_row(world, run.id)
    assert row is not None
    assert world.instant(row["keep_until"]) == START + span


async def test_a_manifests_own_retention_comes_before_the_states(world: World) -> None:
    run = await _manifest_running(world, keep_for=timedelta(days=3))

    await world.database.run(finish_runs([ended(run, keep_for=timedelta(days=1))], RULES))

    row = run_row(world, run.id)
    assert row is not None
    assert world.instant(row["keep_until"]) == world.clock.now + timedelta(days=3)


async def test_a_failure_below_the_limit_writes_the_next_attempt(world: World) -> None:
    run = await _running(world, max_retries=3)
    before = entry(world, run.id)

    result = await world.database.run(finish_runs([failed(run)], RULES))

    (retry,) = world.rows("SELECT * FROM work_queue WHERE status = 'queued'")
    assert (result.retried, result.parked) == (1, ())
    assert (retry["attempt"], retry["failures"], retry["retry_of"], retry["origin"]) == (
        2,
        1,
        run.id,
        "retry",
    )
    assert (retry["input"], retry["due_at"], retry["max_retries"]) == (before["input"], before["due_at"], 3)
    assert world.instant(retry["scheduled_at"]) == START + timedelta(minutes=5)
    assert retry["gate"] == "time"


async def test_what_the_run_asks_for_comes_before_the_backoff(world: World) -> None:
    run = await _running(world)

    await world.database.run(finish_runs([failed(run, retry_after=timedelta(seconds=3))], RULES))

    (retry,) = world.rows("SELECT * FROM work_queue WHERE status = 'queued'")
    assert world.instant(retry["scheduled_at"]) == START + timedelta(seconds=3)


async def test_an_interrupted_run_is_retried_at_once_and_not_counted(world: World) -> None:
    run = await _running(world)

    await world.database.run(finish_runs([failed(run, ended_by=EndedBy.SHUTDOWN)], RULES))

    (again,) = (await world.database.run(dispatch(ask()))).runs
    assert (again.attempt, again.failures, again.losses) == (2, 0, 0)


async def test_a_job_lost_with_its_worker_remembers_its_losses(world: World) -> None:
    run = await _running(world)

    await world.database.run(finish_runs([failed(run, ended_by=EndedBy.LOST_WORKER)], RULES))

    (again,) = (await world.database.run(dispatch(ask()))).runs
    assert (again.failures, again.losses, again.lone_losses) == (0, 1, 0)


async def test_an_entry_that_serves_as_the_next_attempt_takes_the_losses_over(world: World) -> None:
    run = await _manifest_running(world)
    world.advance(seconds=1)
    waiting = add_entry(world, origin="schedule", gate="manifest")

    result = await world.database.run(finish_runs([failed(run, ended_by=EndedBy.LOST_WORKER)], RULES))

    assert result.retried == 0, "the waiting entry serves"
    assert entry(world, waiting)["losses"] == 1
    (again,) = await world.claim()
    assert (again.id, again.losses) == (waiting, 1)


async def test_a_job_that_is_not_retried_leaves_nothing_behind(world: World) -> None:
    run = await _running(world, is_retried=False)

    result = await world.database.run(finish_runs([failed(run)], RULES))

    assert (result.retried, result.parked) == (0, ())
    assert count(world, "work_queue", "status = 'queued'") == count(world, "dead_letter") == 0


async def test_an_exhausted_job_is_parked_with_the_input_that_failed(world: World) -> None:
    run = await _running(world, '{"sku": 9}', max_retries=1)

    result = await world.database.run(finish_runs([failed(run)], RULES))

    (letter,) = world.rows("SELECT *, CAST(input AS text) AS text FROM dead_letter")
    assert result.parked == (run.id,)
    assert (letter["metadata_id"], letter["train_name"], letter["text"]) == (run.id, "Sell", '{"sku": 9}')
    assert (letter["status"], letter["manifest_id"]) == ("awaiting_intervention", None)
    assert "failed 1 attempt of 1: ValueError: no" in letter["reason"]


async def test_letters_beyond_the_limit_are_counted_and_not_written(world: World) -> None:
    await queue(world, *[None] * 5, max_retries=1)
    runs = (await world.database.run(dispatch(ask()))).runs
    rules = replace(RULES, max_awaiting_letters_per_train=2)

    result = await world.database.run(finish_runs([failed(run) for run in runs[:3]], rules))
    more = await world.database.run(finish_runs([failed(run) for run in runs[3:]], rules))

    assert (len(result.parked), more.parked) == (2, ())
    assert count(world, "dead_letter") == 2
    (lost,) = world.rows("SELECT key, CAST(value AS text) AS value FROM service_state")
    assert (lost["key"], lost["value"]) == ("letters_not_written:Sell", "3")


async def test_a_late_finish_is_refused_and_changes_nothing(world: World) -> None:
    run = await _running(world)
    await world.database.run(finish_runs([failed(run)], RULES))
    kept = run_row(world, run.id)

    late = await world.database.run(finish_runs([ended(run)], RULES))

    assert late.refused == (run.id,)
    assert run_row(world, run.id) == kept
    assert count(world, "work_queue", "status = 'queued'") == 1


@pytest.mark.parametrize("wrong", [{"fence": 10_000}, {"worker_id": "somebody else"}, {"fence": None}])
async def test_who_does_not_own_a_run_cannot_end_it(world: World, wrong: dict[str, Any]) -> None:
    run = await _running(world)

    result = await world.database.run(finish_runs([ended(run, **wrong)], RULES))

    row = run_row(world, run.id)
    assert row is not None
    assert result.refused == (run.id,)
    assert row["train_state"] == "in_progress"


async def test_one_refused_end_does_not_stop_the_others(world: World) -> None:
    await queue(world, None, None)
    first, second = (await world.database.run(dispatch(ask()))).runs

    result = await world.database.run(finish_runs([ended(first, fence=9_999), ended(second)], RULES))

    assert (result.refused, set(result.finished)) == ((first.id,), {second.id})


async def test_a_reaped_run_cannot_be_finished_by_its_worker(world: World) -> None:
    worker = WorkerRegistration(id=WORKER, owner=OWNER, host="h", pid=1, version="1", slots=1, trains=TRAINS)
    await world.database.run(register_worker(worker, 10.0))
    run = await _running(world)
    world.advance(seconds=11)
    reaped = await world.database.run(reap_lost([WORKER], ReapRules(SPANS, 10_000)))
    assert reaped.runs == 1

    late = await world.database.run(finish_runs([ended(run)], RULES))

    row = run_row(world, run.id)
    assert row is not None
    assert late.refused == (run.id,)
    assert (row["train_state"], row["failure_exception"]) == ("failed", "WorkerLost")


async def test_a_pending_run_that_was_claimed_meanwhile_cannot_be_failed_as_pending(world: World) -> None:
    await queue(world)
    (pending,) = (await world.database.run(dispatch(ask(worker_id=None)))).runs
    await world.database.run(claim_pending(ask()))

    result = await world.database.run(finish_runs([failed(pending, worker_id=None, fence=None)], RULES))

    assert result.refused == (pending.id,)


async def test_a_run_ends_exactly_once_under_two_finishers(world: World) -> None:
    run = await _running(world, max_retries=1)
    other = await second_connection(world)
    first, second = await asyncio.gather(
        world.database.run(finish_runs([ended(run)], RULES)),
        other.run(finish_runs([failed(run)], RULES)),
    )
    await other.close()

    assert sorted([len(first.finished), len(second.finished)]) == [0, 1]
    assert count(world, "metadata", f"id = {run.id}") == 1
    assert count(world, "dead_letter") == len(second.finished)


async def test_the_finisher_that_waits_for_the_other_is_refused(world: World) -> None:
    run = await _running(world)
    if world.database.dialect == "sqlite":  # one writer at a time
        await world.database.run(finish_runs([ended(run)], RULES))
        assert (await world.database.run(finish_runs([failed(run)], RULES))).refused == (run.id,)
        return
    other = await second_connection(world)
    async with world.database.transaction() as transaction:
        await transaction.run(finish_runs([ended(run)], RULES))
        waiting = asyncio.create_task(other.run(finish_runs([failed(run)], RULES)))
        await eventually(lambda: is_somebody_waiting(world), "the second finisher waits")
    result = await waiting
    await other.close()

    assert result.refused == (run.id,)
    assert result.retried == 0


async def test_a_success_is_counted_on_the_manifest_and_clears_its_failures(world: World) -> None:
    run = await _manifest_running(world)
    world.rows("UPDATE manifest SET failure_count = 2")

    await world.database.run(finish_runs([ended(run)], RULES))

    row = world.manifest()
    assert (row["success_count"], row["failure_count"], row["active_run_id"]) == (1, 0, None)
    assert row["last_successful_run_id"] == run.id
    assert world.instant(row["last_successful_run"]) == world.clock.now


async def test_a_manifests_failures_decide_about_its_next_attempt(world: World) -> None:
    run = await _manifest_running(world, max_retries=2)

    first = await world.database.run(finish_runs([failed(run)], RULES))
    assert (first.retried, world.manifest()["failure_count"]) == (1, 1)
    world.advance(hours=2)
    (retry,) = await world.claim()
    last = await world.database.run(finish_runs([failed(retry)], RULES))

    assert (last.retried, last.parked) == (0, (retry.id,))
    assert world.manifest()["failure_count"] == 2
    assert world.manifest()["last_failed_run_id"] == retry.id
    assert world.instant(world.manifest()["next_look_at"]) <= world.clock.now


@pytest.mark.parametrize("by", [EndedBy.SHUTDOWN, EndedBy.LOST_WORKER])
async def test_what_is_not_the_jobs_fault_is_not_counted_against_it(world: World, by: EndedBy) -> None:
    run = await _manifest_running(world)

    result = await world.database.run(finish_runs([failed(run, ended_by=by)], RULES))

    assert (result.retried, world.manifest()["failure_count"], gates(world)) == (1, 0, ["open"])


async def test_a_cancelled_run_is_not_retried_and_counts_nothing(world: World) -> None:
    run = await _manifest_running(world)

    end = ended(run, TrainState.CANCELLED, ended_by=EndedBy.OPERATOR)
    result = await world.database.run(finish_runs([end], RULES))

    assert (result.retried, world.manifest()["failure_count"], world.manifest()["success_count"]) == (0, 0, 0)
    assert world.manifest()["active_run_id"] is None


async def test_only_a_parents_success_marks_that_dependents_are_due(world: World) -> None:
    await world.seed(manifest(), manifest("child", schedule=Dependent("report")))
    add_entry(world, origin="schedule")
    (run,) = await world.claim()
    await world.database.run(finish_runs([failed(run, retry_after=timedelta(0))], RULES))
    assert not world.manifest()["has_dependents_due"]

    (retry,) = await world.claim()
    await world.database.run(finish_runs([ended(retry)], RULES))

    assert world.manifest()["has_dependents_due"]


async def test_a_manifest_without_dependents_is_never_marked(world: World) -> None:
    run = await _manifest_running(world)

    await world.database.run(finish_runs([ended(run)], RULES))

    assert not world.manifest()["has_dependents_due"]


async def test_a_dormant_dependent_is_queued_with_the_input_its_parent_gave(world: World) -> None:
    await world.seed(manifest(), manifest("child", schedule=DormantDependent("report")))
    add_entry(world, origin="schedule")
    (run,) = await world.claim()

    activations = (Activation("child", '{"month":2}'),)
    await world.database.run(finish_runs([ended(run, activations=activations)], RULES))

    (activated,) = await world.claim()
    assert (activated.manifest, activated.input_json) == ("child", '{"month":2}')


async def test_a_failed_run_activates_nothing(world: World) -> None:
    await world.seed(manifest(), manifest("child", schedule=DormantDependent("report")))
    add_entry(world, origin="schedule")
    (run,) = await world.claim()

    await world.database.run(finish_runs([failed(run, activations=(Activation("child"),))], RULES))

    assert world.entries("child") == []


async def test_a_once_job_is_finished_by_its_success(world: World) -> None:
    await world.seed(manifest(schedule=Once(at=START)))
    await world.cycle()
    (run,) = await world.claim()
    await world.database.run(finish_runs([ended(run)], RULES))

    assert world.instant(world.manifest()["completed_at"]) == START
    assert world.manifest()["is_enabled"]


async def test_the_end_of_a_run_whose_manifest_was_removed_is_recorded_all_the_same(world: World) -> None:
    run = await _manifest_running(world)
    world.rows("DELETE FROM manifest")

    result = await world.database.run(finish_runs([failed(run)], RULES))

    assert (set(result.finished), result.retried, result.parked) == ({run.id}, 0, ())


async def test_many_ends_are_recorded_together(world: World) -> None:
    await queue(world, *[None] * 60)
    runs = (await world.database.run(dispatch(ask()))).runs

    ends = [failed(run) if number % 3 else ended(run) for number, run in enumerate(runs)]
    result = await world.database.run(finish_runs(ends, RULES))

    assert (len(result.finished), result.retried) == (60, 40)
    assert count(world, "metadata", "train_state = 'completed'") == 20


async def _running(world: World, *inputs: str, **options: object) -> ClaimedRun:
    await queue(world, *inputs, **options)
    (run,) = (await world.database.run(dispatch(ask()))).runs
    return run


async def _manifest_running(world: World, **options: Any) -> ClaimedRun:  # noqa: ANN401
    await world.seed(manifest(**options))
    add_entry(world, origin="schedule")
    (run,) = await world.claim()
    return run
