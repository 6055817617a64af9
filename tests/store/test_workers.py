from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from gandy.model.run import TrainState
from gandy.settings import DatabaseSettings
from gandy.store.dispatching import dispatch
from gandy.store.drivers.opening import open_link
from gandy.store.finishing import finish_runs
from gandy.store.queueing import hold_unknown
from gandy.store.reaping import ReapRules, find_silent_workers, next_lease_end
from gandy.store.workers import (
    LeaseRenewal,
    WorkerRegistration,
    drain_worker,
    live_workers,
    register_worker,
    renew_lease,
    stop_worker,
)
from tests.store.work import RULES, SPANS, TRAINS, WORKER, ask, ended, gates, queue, run_row
from tests.support.reaping import reap_lost
from tests.support.world import OWNER, OWNERS, START

if TYPE_CHECKING:
    from tests.support.world import World

REAP = ReapRules(SPANS, 10_000)


async def test_a_registered_worker_is_listed_with_its_trains_while_its_lease_holds(world: World) -> None:
    await _register(world)

    (worker,) = await world.database.read(live_workers(OWNER))
    assert (worker.id, worker.slots, worker.state, list(worker.trains)) == (
        WORKER,
        7,
        "running",
        list(TRAINS),
    )
    assert worker.lease_expires_at == START + timedelta(seconds=30)

    world.advance(seconds=30)
    assert await world.database.read(live_workers(OWNER)) == []


async def test_a_renewal_moves_the_end_of_the_lease(world: World) -> None:
    await _register(world)
    world.advance(seconds=20)

    assert await world.database.run(renew_lease(_renewal(busy=3))) == "running"

    (worker,) = await world.database.read(live_workers(OWNER))
    assert (worker.busy, worker.lease_expires_at) == (3, START + timedelta(seconds=50))
    assert await world.database.read(next_lease_end()) == 30.0


async def test_a_lease_that_ran_out_is_renewed_while_nobody_has_judged_it(world: World) -> None:
    await _register(world)
    await queue(world)
    await world.database.run(hold_unknown(OWNER, []))  # while the worker seemed gone
    assert gates(world) == ["train"]
    world.advance(seconds=31)
    assert await world.database.read(find_silent_workers()) == (WORKER,)

    assert await world.database.run(renew_lease(_renewal())) == "running"

    assert await world.database.read(find_silent_workers()) == ()
    assert (await world.database.run(reap_lost([WORKER], REAP))).runs == 0
    assert gates(world) == ["open"], "somebody knows the train again"


async def test_a_worker_that_was_given_up_cannot_come_back(world: World) -> None:
    await _register(world)
    world.advance(seconds=31)
    await world.database.run(reap_lost([WORKER], REAP))

    assert await world.database.run(renew_lease(_renewal())) is None
    assert world.rows("SELECT state FROM worker") == [{"state": "lost"}]


async def test_a_worker_that_renewed_in_time_is_not_reaped(world: World) -> None:
    await _register(world)
    await queue(world)
    await world.database.run(dispatch(ask()))
    world.advance(seconds=29)
    await world.database.run(renew_lease(_renewal()))
    world.advance(seconds=29)

    reaped = await world.database.run(reap_lost([WORKER], REAP))

    assert reaped.runs == 0


async def test_the_runs_of_a_lost_worker_are_queued_again_at_once_and_not_counted(world: World) -> None:
    await _register(world)
    await queue(world, '"a"', '"b"')
    claimed = (await world.database.run(dispatch(ask()))).runs
    world.advance(seconds=31)

    reaped = await world.database.run(reap_lost([WORKER], REAP))
    again = (await world.database.run(dispatch(ask(worker_id="worker-2")))).runs

    assert reaped.runs == 2
    assert [(run.attempt, run.failures, run.losses, run.input_json) for run in again] == [
        (2, 0, 1, '"a"'),
        (2, 0, 1, '"b"'),
    ]
    assert {run.id for run in again}.isdisjoint(run.id for run in claimed)


async def test_a_draining_worker_hears_it_with_its_next_renewal_and_finishes_what_it_has(
    world: World,
) -> None:
    await _register(world)
    await queue(world)
    (run,) = (await world.database.run(dispatch(ask()))).runs

    assert await world.database.run(drain_worker(WORKER, owners=OWNERS)) == OWNER

    assert await world.database.run(renew_lease(_renewal(busy=1))) == "draining"
    assert (await world.database.run(finish_runs([ended(run)], RULES))).refused == ()
    assert await world.database.run(drain_worker(WORKER, owners=OWNERS)) is None
    assert await world.database.run(drain_worker("nobody", owners=OWNERS)) is None


async def test_a_worker_is_not_stopped_while_a_run_of_it_is_open(world: World) -> None:
    await _register(world)
    await queue(world)
    (run,) = (await world.database.run(dispatch(ask()))).runs

    await world.database.run(stop_worker(WORKER))
    assert [row["state"] for row in world.rows("SELECT state FROM worker")] == ["running"]

    await world.database.run(finish_runs([ended(run)], RULES))
    await world.database.run(stop_worker(WORKER))
    assert [row["state"] for row in world.rows("SELECT state FROM worker")] == ["stopped"]


async def test_a_worker_that_ended_cleanly_is_neither_live_nor_missed(world: World) -> None:
    await _register(world)
    await world.database.run(stop_worker(WORKER))
    world.advance(minutes=5)

    assert await world.database.read(live_workers(OWNER)) == []
    assert await world.database.read(find_silent_workers()) == ()
    assert await world.database.read(next_lease_end()) is None


async def test_the_longest_pause_is_remembered_with_the_junction_that_made_it(world: World) -> None:
    await _register(world)
    for seconds, junction in ((2.0, "slow"), (1.0, "quick")):
        await world.database.run(renew_lease(_renewal(stall_seconds=seconds, stalled_junction=junction)))

    (row,) = world.rows("SELECT longest_stall_seconds, stalled_junction FROM worker")
    assert (row["longest_stall_seconds"], row["stalled_junction"]) == (2.0, "slow")


async def test_a_lease_is_renewed_from_a_thread_of_its_own_under_the_same_clock(world: World) -> None:
    await _register(world)
    link = open_link(DatabaseSettings(url=world.url), clock=world.clock)
    world.advance(seconds=10)

    state = link.run(renew_lease(_renewal()))
    link.close()
    again = link.run(renew_lease(_renewal()))  # it connects anew by itself
    link.close()

    (worker,) = await world.database.read(live_workers(OWNER))
    assert (state, again) == ("running", "running")
    assert worker.lease_expires_at == START + timedelta(seconds=40)


async def test_an_entry_of_a_train_nobody_knew_is_let_in_by_a_registration(world: World) -> None:
    await queue(world)
    world.rows("UPDATE work_queue SET gate = 'train'")

    await _register(world, trains=["Other"])
    assert gates(world) == ["train"]
    await _register(world, id="worker-2")

    assert gates(world) == ["open"]


async def test_a_lost_run_is_kept_as_failed_with_its_reason(world: World) -> None:
    await _register(world)
    await queue(world)
    (run,) = (await world.database.run(dispatch(ask()))).runs
    world.advance(seconds=31)
    await world.database.run(reap_lost([WORKER], REAP))

    row = run_row(world, run.id)
    assert row is not None
    assert row["train_state"] == TrainState.FAILED
    assert "lease" in row["failure_reason"]


async def _register(world: World, **options: Any) -> None:  # noqa: ANN401
    given: dict[str, Any] = {
        "id": WORKER,
        "owner": OWNER,
        "host": "host",
        "pid": 1,
        "version": "1",
        "slots": 7,
        "trains": TRAINS,
    }
    await world.database.run(register_worker(WorkerRegistration(**{**given, **options}), 30.0))


def _renewal(**options: Any) -> LeaseRenewal:  # noqa: ANN401
    return LeaseRenewal(**{"id": WORKER, "lease_seconds": 30.0, "busy": 0, **options})
