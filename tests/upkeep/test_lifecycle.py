"""When contracts are kept inside an application, what is recorded of it, and what is told."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client import REGISTRY

from gandy.clock import ManualClock
from gandy.events import CycleEnded, EventBus
from gandy.lifecycle import Contract, Table, expires, older_than
from gandy.lifecycle.database.target import open_target
from gandy.lifecycle.state.lease import take_lease
from gandy.lifecycle.state.setup import ensure_tables
from gandy.settings import CleanupSettings, RetentionSettings, Settings
from gandy.upkeep.service import LifecycleService
from tests.lifecycle.ground import NOW, Ground, ago, steps_of
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from tests.support.world import World

SOON = timedelta(milliseconds=20)
SETTINGS = Settings(
    cleanup=CleanupSettings(interval=SOON), retention=RetentionSettings(interval=timedelta(hours=1))
)
SESSIONS = Table("sessions", [expires("expires_at")])


@pytest.fixture
def ground(world: World) -> Ground:
    """The application's own table, in the database that Gandy uses too."""
    ground = Ground(world.url)
    ground.run(
        "CREATE TABLE sessions (id {key}, expires_at {instant})",
        "CREATE INDEX by_expiry ON sessions (expires_at)",
    )
    expire(ground, range(1, 4))
    return ground


def expire(ground: Ground, ids: range) -> None:
    ground.fill("sessions", [(n, ago(hours=1)) for n in ids])


def contract(ground: Ground, name: str = "statestore", **options: Any) -> Contract:  # noqa: ANN401 any field
    given: dict[str, Any] = {"tables": [SESSIONS], "every": timedelta(hours=1), "database": ground.url}
    return Contract(name, **{**given, **options})


def make(world: World, *contracts: Contract, events: EventBus | None = None) -> LifecycleService:
    parts = {"settings": SETTINGS, "events": events or EventBus(), "clock": ManualClock(NOW)}
    return LifecycleService(world.context(contracts=contracts, **parts))


@asynccontextmanager
async def running(service: LifecycleService) -> AsyncIterator[None]:
    stop = asyncio.Event()
    task = asyncio.create_task(service.run(stop))
    yield
    stop.set()
    await task


def records(world: World) -> list[dict[str, Any]]:
    return world.rows("SELECT * FROM metadata WHERE name = 'TableMaintenanceTrain' ORDER BY id")


def counts(record: dict[str, Any]) -> dict[str, int]:
    output = record["output"]
    return json.loads(output) if isinstance(output, str) else output  # type: ignore[no-any-return]


def sample(name: str, **labels: str) -> float | None:
    return REGISTRY.get_sample_value(name, labels)


@contextmanager
def counted_once(name: str, **labels: str) -> Iterator[None]:
    """The process counts on from test to test."""
    before = sample(name, **labels) or 0
    yield
    assert sample(name, **labels) == before + 1


async def has_no_sessions(ground: Ground) -> bool:
    return ground.ids("sessions") == []


async def test_a_contract_is_kept_at_once_on_start_and_again_after_its_interval(
    world: World, ground: Ground
) -> None:
    async with running(make(world, contract(ground, every=SOON))):
        await eventually(lambda: has_no_sessions(ground), "the first tick")
        expire(ground, range(4, 6))
        await eventually(lambda: has_no_sessions(ground), "a later tick")


async def test_a_contract_waits_for_its_own_interval_whatever_the_others_do(
    world: World, ground: Ground
) -> None:
    events, cycles = EventBus(), list[CycleEnded]()
    events.subscribe(CycleEnded, cycles.append)
    seldom = contract(ground, "seldom")
    often = contract(ground, "often", tables=[Table("sessions", [older_than("expires_at", keep_for="9d")])])

    async def has_gone_round() -> bool:
        return len(cycles) >= 6

    async with running(make(world, seldom, replace(often, every=SOON), events=events)):
        await eventually(lambda: has_no_sessions(ground), "the first tick")
        expire(ground, range(4, 6))
        await eventually(has_gone_round, "the other contract's ticks")

    assert ground.ids("sessions") == [4, 5]


async def test_a_tick_keeps_every_contract_once_and_is_always_recorded(world: World, ground: Ground) -> None:
    service = make(world, contract(ground, "first"), contract(ground, "second"))
    ticks = [await service.tick() for _ in range(2)]

    assert [[report.deleted for report in tick.contracts] for tick in ticks] == [[3, 0], [0, 0]]
    assert len(records(world)) == 6, "Gandy's own tables and each contract, two times"


async def test_a_sweep_that_did_something_is_recorded_with_its_counts(world: World, ground: Ground) -> None:
    service = make(world, contract(ground))
    await service._keeper.tick(contract(ground), is_requested=False)

    (record,) = records(world)
    assert (record["train_state"], counts(record)) == (
        "completed",
        {"deleted": 3, "deleted_statestore.sessions": 3},
    )


async def test_idle_sweeps_are_recorded_once_a_minute(world: World, ground: Ground) -> None:
    service = make(world)
    ground.run("DELETE FROM sessions")
    for _ in range(3):
        await service._keeper.tick(contract(ground), is_requested=False)
    assert len(records(world)) == 1

    world.advance(minutes=1)
    await service._keeper.tick(contract(ground), is_requested=False)
    assert len(records(world)) == 2


async def test_a_rule_that_fails_is_told_and_the_other_tables_are_swept(
    world: World, ground: Ground, caplog: pytest.LogCaptureFixture
) -> None:
    broken = contract(ground, "broken", tables=[Table("nowhere", [expires("expires_at")]), SESSIONS])
    with (
        caplog.at_level("INFO", logger="gandy.lifecycle"),
        counted_once("lifecycle_tick_errors_total", scheduler="broken"),
    ):
        tick = await make(world, broken).tick()

    (report,) = tick.contracts
    assert (report.counts, [failure.table for failure in report.failures]) == ({"sessions": 3}, ["nowhere"])
    assert (records(world)[-1]["train_state"], counts(records(world)[-1])["failed"]) == ("completed", 1)
    told = [record.__dict__["event"] for record in caplog.records if record.name == "gandy.lifecycle"]
    assert told == ["broken.lifecycle_tick_failed", "broken.lifecycle_pruned"]


async def test_a_contract_whose_database_is_out_of_reach_is_recorded_as_failed_and_tried_again(
    world: World, ground: Ground, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lost = contract(ground, "lost", database=f"sqlite:///{tmp_path / 'lost.db'}")
    tick = await make(world, lost, contract(ground)).tick()

    assert [report.deleted for report in tick.contracts] == [0, 3]
    assert "no such file" in tick.contracts[0].failures[0].error
    _, failed, kept = records(world)
    assert (failed["train_state"], kept["train_state"]) == ("failed", "completed")
    assert "no such file" in failed["failure_reason"]
    assert "lost.lifecycle_tick_failed" in caplog.text


async def test_a_variable_that_is_not_set_fails_its_contract_alone(world: World, ground: Ground) -> None:
    unset = contract(ground, "unset", database=None, database_env="NOT_SET_ANYWHERE")
    with counted_once("lifecycle_tick_errors_total", scheduler="unset"):
        tick = await make(world, unset, contract(ground)).tick()

    assert "NOT_SET_ANYWHERE" in tick.contracts[0].failures[0].error
    assert tick.contracts[1].deleted == 3


async def test_a_replica_without_the_lease_skips_and_counts_that(world: World, ground: Ground) -> None:
    events, cycles = EventBus(), list[CycleEnded]()
    events.subscribe(CycleEnded, cycles.append)
    with open_target(ground.url, clock=ManualClock(NOW)) as session:
        ensure_tables(session)
        assert take_lease(session, "taken") is not None
        with counted_once("gandy_lifecycle_ticks_skipped_total", scheduler="taken"):
            tick = await make(world, contract(ground, "taken"), events=events).tick()

    assert tick.contracts[0].is_skipped
    assert [cycle.verdict for cycle in cycles] == ["idle", "skipped"]
    assert len(ground.ids("sessions")) == 3


async def test_every_series_exists_from_the_start(world: World, ground: Ground) -> None:
    ground.run("DELETE FROM sessions")
    fresh = contract(ground, "fresh")

    async def is_declared() -> bool:
        return sample("lifecycle_tick_errors_total", scheduler="fresh") == 0

    async with running(make(world, fresh)):
        await eventually(is_declared, "the series of errors")
        assert sample("lifecycle_prune_rows_total", scheduler="fresh", table="sessions") == 0


async def test_a_stop_is_heard_between_two_batches(world: World, ground: Ground) -> None:
    expire(ground, range(10, 3_000))
    slow = contract(ground, batch=steps_of(1))
    stop = asyncio.Event()
    task = asyncio.create_task(make(world, slow).run(stop))

    async def has_begun() -> bool:
        return len(ground.ids("sessions")) < 2_993

    await eventually(has_begun, "the first batch")
    stop.set()
    await task

    assert ground.ids("sessions") != []
