"""Runs in progress that no living process holds: one cycle gives them to others."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from gandy.store.workers import WorkerRegistration, register_worker
from tests.store.work import queue, run_row
from tests.support.poison import heal, poison
from tests.support.world import OWNER, manifest

if TYPE_CHECKING:
    from gandy.model.run import ClaimedRun
    from tests.support.world import World

HOLDER = "worker-7"
GONE = ("stopped", "lost", "pruned", "silent", "late")
CAUSES = {
    "stopped": "worker_stopped",
    "lost": "worker_lost",
    "pruned": "worker_unknown",
    "silent": "worker_lost",
    "late": "worker_stopped",
}


async def claimed(world: World, *, how: str, jobs: int = 1, **options: Any) -> list[ClaimedRun]:  # noqa: ANN401 options of a job
    """Let a worker take jobs and be gone: before its claim is seen, after it, or without a word."""
    worker = WorkerRegistration(
        id=HOLDER, owner=OWNER, host="h", pid=1, version="1", slots=9, trains=["Sell"]
    )
    await world.database.run(register_worker(worker, 10.0))
    await queue(world, *(f'"{number}"' for number in range(jobs)), **options)
    runs = await world.claim(worker_id=HOLDER)
    leave(world, how)
    return runs


def leave(world: World, how: str) -> None:
    if how == "pruned":
        world.rows("DELETE FROM worker WHERE id = ?", HOLDER)
    elif how == "silent":
        world.advance(seconds=11)
    elif how == "lost":
        world.rows("UPDATE worker SET state = 'lost' WHERE id = ?", HOLDER)
    else:
        world.rows("UPDATE worker SET state = 'stopped' WHERE id = ?", HOLDER)  # as an older version left it
    if how == "late":
        world.advance(hours=1)


@pytest.mark.parametrize("how", GONE)
@pytest.mark.pair("restart", "ad-hoc")
async def test_one_cycle_gives_the_runs_to_others_and_counts_nothing(world: World, how: str) -> None:
    runs = await claimed(world, how=how, jobs=3, max_retries=1)

    result = await world.cycle(trusts_leases=True)

    assert (result.reaped, result.recovered) == (3, {CAUSES[how]: 3})
    again = await world.claim(worker_id="worker-8")
    assert [(run.attempt, run.failures, run.input_json) for run in again] == [
        (2, 0, run.input_json) for run in runs
    ]
    assert {run_row(world, run.id)["failure_exception"] for run in runs} == {"WorkerLost"}  # type: ignore[index]
    assert (await world.cycle(trusts_leases=True)).reaped == 0


@pytest.mark.parametrize("how", GONE)
@pytest.mark.pair("restart", "interval")
async def test_a_scheduled_job_goes_on_after_its_worker_is_gone(world: World, how: str) -> None:
    await world.seed(manifest(max_retries=1))
    await world.cycle()
    worker = WorkerRegistration(id=HOLDER, owner=OWNER, host="h", pid=1, version="1", slots=9, trains=[])
    await world.database.run(register_worker(worker, 10.0))
    (run,) = await world.claim(worker_id=HOLDER)
    leave(world, how)

    await world.cycle(trusts_leases=True)

    (again,) = await world.claim(worker_id="worker-8")
    assert (again.manifest, again.attempt, again.failures) == (run.manifest, 2, 0)
    assert world.manifest()["failure_count"] == 0


@pytest.mark.parametrize("how", GONE)
async def test_a_job_without_retries_ends_on_record(world: World, how: str) -> None:
    (run,) = await claimed(world, how=how, is_retried=False)

    await world.cycle(trusts_leases=True)

    row = run_row(world, run.id)
    assert row is not None
    assert (row["train_state"], row["failure_exception"]) == ("failed", "WorkerLost")
    assert await world.claim(worker_id="worker-8") == []


async def test_the_runs_of_living_and_of_draining_workers_are_left_alone(world: World) -> None:
    await claimed(world, how="silent", jobs=2)
    world.rows("UPDATE worker SET state = 'draining' WHERE id = ?", HOLDER)

    assert (await world.cycle(trusts_leases=False)).reaped == 0


async def test_a_run_without_a_deadline_has_no_age(world: World) -> None:
    world.know_worker(HOLDER)
    await queue(world, '"a"', '"b"')
    runs = await world.claim(worker_id=HOLDER)
    world.rows("UPDATE work_queue SET deadline_at = NULL WHERE id = ?", runs[0].id)
    world.advance(days=2)

    assert (await world.cycle()).reaped == 1
    assert (run_row(world, runs[0].id) or {})["train_state"] == "in_progress"


async def test_a_run_that_cannot_be_ended_keeps_no_other_from_being_reaped(world: World) -> None:
    runs = await claimed(world, how="stopped", jobs=5)
    await world.seed(manifest())
    poison(world, "work_queue", f"NEW.retry_of = {runs[2].id}")

    result = await world.cycle()

    assert (result.reaped, result.queued) == (4, 1)
    states = [(run_row(world, run.id) or {})["train_state"] for run in runs]
    assert states == ["failed", "failed", "in_progress", "failed", "failed"]
    heal(world, "work_queue")
    assert (await world.cycle()).reaped == 1


async def test_several_runs_that_cannot_be_ended_stop_no_cycle(world: World) -> None:
    await claimed(world, how="pruned", jobs=4)
    await world.seed(manifest())
    poison(world, "work_queue", "NEW.retry_of IS NOT NULL")

    result = await world.cycle()

    assert (result.reaped, result.queued) == (0, 1)


async def test_a_run_whose_usual_end_is_refused_is_ended_bare(world: World) -> None:
    world.know_worker(HOLDER)
    await queue(world, '"a"', '"b"', retry_delay=timedelta(hours=1))
    runs = await world.claim(worker_id=HOLDER)
    poison(world, "work_queue", f"NEW.retry_of = {runs[0].id} AND NEW.gate = 'time'")
    world.advance(days=2)

    assert (await world.cycle()).recovered == {"age": 2}

    assert {(run_row(world, run.id) or {})["train_state"] for run in runs} == {"failed"}
    waiting = world.rows("SELECT retry_of, gate FROM work_queue WHERE status = 'queued' ORDER BY retry_of")
    assert [(row["retry_of"], row["gate"]) for row in waiting] == [(runs[0].id, "open"), (runs[1].id, "time")]
