"""A person ends a run by hand: whatever holds it, and whatever the job allows next."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from gandy.desk.cancelling import CancelDesk
from gandy.errors import RunNotBegunError, RunNotFoundError, RunOverError
from gandy.model.owners import OneOwner, Operator
from gandy.settings import Settings
from gandy.store.cancelling import cancel_jobs
from gandy.store.runs import RunStart, read_cancellations, start_run
from tests.store.work import SPANS, queue, run_row
from tests.support.poison import poison
from tests.support.world import OWNER, OWNERS, WORKER, manifest

if TYPE_CHECKING:
    from gandy.model.owners import Owners
    from tests.support.world import World

HELD_BY = ("running", "draining", "stopped", "lost", "unknown", "none")


def desk(world: World, owners: Owners = OWNERS) -> CancelDesk:
    return CancelDesk(world.database, Operator("kim", "cli"), Settings(), owners=owners)


async def taken(world: World, held_by: str, **options: object) -> int:
    """Make a run that such a worker holds; held by none, it is pending."""
    await queue(world, **options)
    (run,) = await world.claim(worker_id=None if held_by == "none" else WORKER)
    if held_by == "unknown":
        world.rows("DELETE FROM worker")
    else:
        world.rows("UPDATE worker SET state = ?", "running" if held_by == "none" else held_by)
    return run.id


@pytest.mark.parametrize("held_by", HELD_BY)
async def test_a_run_is_ended_and_its_next_attempt_follows_at_once(world: World, held_by: str) -> None:
    run_id = await taken(world, held_by, max_retries=1)

    failed = await desk(world).fail(run_id, "the host is gone")

    row = run_row(world, run_id)
    assert row is not None
    assert (failed.state, row["train_state"], row["failure_exception"]) == (
        "failed",
        "failed",
        "FailedByOperator",
    )
    assert row["failure_reason"] == "failed by kim: the host is gone"
    (again,) = await world.claim(worker_id="worker-8")
    assert (again.id, again.attempt, again.failures, again.losses) == (failed.next_attempt, 2, 0, 0)
    (deed,) = world.rows("SELECT * FROM audit")
    assert (deed["actor"], deed["action"], deed["subject"]) == ("kim", "fail run", str(run_id))
    assert json.loads(deed["detail"])["next_attempt"] == again.id if isinstance(deed["detail"], str) else True


@pytest.mark.parametrize("held_by", HELD_BY)
async def test_a_job_without_retries_gets_no_further_attempt(world: World, held_by: str) -> None:
    failed = await desk(world).fail(await taken(world, held_by, is_retried=False))

    assert (failed.state, failed.next_attempt) == ("failed", None)
    assert await world.claim() == []


async def test_a_manifest_is_free_again_and_nothing_is_counted(world: World) -> None:
    await world.seed(manifest(max_retries=1))
    await world.cycle()
    (run,) = await world.claim()

    failed = await desk(world).fail(run.id)

    stored = world.manifest()
    assert (stored["active_run_id"], stored["failure_count"]) == (None, 0)
    (again,) = await world.claim()
    assert (again.id, again.manifest) == (failed.next_attempt, "report")


async def test_the_worker_that_still_runs_it_writes_nothing_more_and_is_told(world: World) -> None:
    await queue(world)
    (run,) = await world.claim()
    assert await world.database.read(read_cancellations([run.id])) == {}

    await desk(world).fail(run.id)

    assert await world.database.read(read_cancellations([run.id])) == {run.id: "lease_lost"}
    assert (await world.finish(run)).refused == (run.id,)
    assert (run_row(world, run.id) or {})["train_state"] == "failed"


async def test_a_run_that_was_started_here_and_now_can_be_failed(world: World) -> None:
    span = timedelta(minutes=1)
    start = RunStart(owner=OWNER, train="Sell", input_json="1", worker_id="local-1", timeout=span)
    run = await world.database.run(start_run(start))

    failed = await desk(world).fail(run.id)

    assert (failed.state, failed.worker_id, failed.next_attempt) == ("failed", "local-1", None)


async def test_what_an_operator_had_cancelled_stays_cancelled(world: World) -> None:
    run_id = await taken(world, "unknown")
    await world.database.run(cancel_jobs([run_id], SPANS, owners=OWNERS))

    failed = await desk(world).fail(run_id)

    assert (failed.state, failed.next_attempt) == ("cancelled", None)


async def test_what_is_over_waiting_unknown_or_not_ours_is_said(world: World) -> None:
    await queue(world, '"done"')
    (done,) = await world.claim()
    await world.finish(done)
    (waiting,) = (await queue(world, '"waits"')).ids

    with pytest.raises(RunOverError, match=f"run {done.id} is over: it is completed"):
        await desk(world).fail(done.id)
    with pytest.raises(RunNotBegunError, match=f"gandy queue cancel {waiting}"):
        await desk(world).fail(waiting)
    with pytest.raises(RunNotFoundError):
        await desk(world).fail(999_999)
    (run,) = await world.claim()
    with pytest.raises(RunNotFoundError):
        await desk(world, OneOwner("another")).fail(run.id)
    assert (run_row(world, run.id) or {})["train_state"] == "in_progress"
    assert world.rows("SELECT id FROM audit") == []


async def test_a_run_whose_lines_cannot_be_moved_is_freed_all_the_same(world: World) -> None:
    run_id = await taken(world, "lost")
    if world.url.startswith("sqlite"):
        poison(world, "log", "NEW.id = -1")  # lines do not move here
    else:
        world.rows(
            "INSERT INTO log (bucket, metadata_id, created_at, level, logger, message) "
            "VALUES ('infinity', ?, now(), 'info', 'shop', 'sold')",
            run_id,
        )
        poison(world, "log", f"NEW.metadata_id = {run_id}")

    assert (await desk(world).fail(run_id)).next_attempt is not None
