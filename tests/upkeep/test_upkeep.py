"""When the services that prune run, and what they tell."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from prometheus_client import REGISTRY

from gandy.events import CycleEnded, EventBus
from gandy.settings import CleanupSettings, RetentionSettings, Settings
from gandy.upkeep.service import dead_letter_cleanup, metadata_cleanup, table_maintenance
from tests.support.history import Past
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from gandy.context import Context
    from gandy.upkeep.service import UpkeepService
    from tests.support.world import World

SOON = timedelta(milliseconds=20)
SETTINGS = Settings(cleanup=CleanupSettings(interval=SOON), retention=RetentionSettings(interval=SOON))


def context(world: World, settings: Settings = SETTINGS, events: EventBus | None = None) -> Context:
    return world.context(settings=settings, events=events or EventBus())


@asynccontextmanager
async def running(service: UpkeepService) -> AsyncIterator[None]:
    stop = asyncio.Event()
    task = asyncio.create_task(service.run(stop))
    yield
    stop.set()
    await task


async def emptied(past: Past, table: str, where: str = "1 = 1") -> None:
    async def is_empty() -> bool:
        return past.count(table, where) == 0

    await eventually(is_empty, f"{table} is empty")


async def test_cleanup_runs_at_once_on_start_and_again_after_its_interval(world: World) -> None:
    past = Past(world)
    past.run()
    async with running(metadata_cleanup(context(world))):
        await emptied(past, "metadata", "output IS NULL")
        past.run()
        await emptied(past, "metadata", "output IS NULL")


@pytest.mark.parametrize(
    ("make", "section"),
    [(metadata_cleanup, "cleanup"), (dead_letter_cleanup, "retention"), (table_maintenance, "retention")],
)
async def test_the_pause_between_two_cycles_is_the_setting(
    world: World, make: Callable[[Context], UpkeepService], section: str
) -> None:
    settings = Settings(cleanup=CleanupSettings(), retention=RetentionSettings())
    cycles: list[CycleEnded] = []
    events = EventBus()
    events.subscribe(CycleEnded, cycles.append)

    async def has_run(times: int) -> bool:
        return len(cycles) >= times

    async with running(make(context(world, settings, events))):
        await eventually(lambda: has_run(1), "the first cycle")
        assert len(cycles) == 1
    soon = replace(getattr(settings, section), interval=SOON)
    async with running(make(context(world, replace(settings, **{section: soon}), events))):
        await eventually(lambda: has_run(4), "three more cycles")


async def test_a_tick_is_one_cycle_and_always_recorded(world: World) -> None:
    past = Past(world)
    for make in (metadata_cleanup, dead_letter_cleanup, table_maintenance):
        for _ in range(2):
            assert (await make(context(world)).tick()).deleted == 0

    names = [row["name"] for row in world.rows("SELECT name FROM metadata ORDER BY id")]
    assert names == [
        train
        for train in ("MetadataCleanupTrain", "DeadLetterCleanupTrain", "TableMaintenanceTrain")
        for _ in range(2)
    ]
    assert past.count("metadata", "train_state <> 'completed'") == 0


async def test_what_was_pruned_is_counted_and_told_under_the_scheduler_gandy(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    def counted(table: str) -> float:
        labels = {"scheduler": "gandy", "table": table}
        return REGISTRY.get_sample_value("lifecycle_prune_rows_total", labels) or 0.0

    past, events, cycles = Past(world), EventBus(), list[CycleEnded]()
    events.subscribe(CycleEnded, cycles.append)
    past.run(lines=2)
    before = {table: counted(table) for table in ("metadata", "log")}

    with caplog.at_level("INFO", logger="gandy.lifecycle"):
        await metadata_cleanup(context(world, events=events)).tick()

    assert {table: counted(table) - before[table] for table in before} == {"metadata": 1, "log": 2}
    assert [cycle.verdict for cycle in cycles] == ["worked"]
    (event,) = [record for record in caplog.records if record.name == "gandy.lifecycle"]
    assert event.__dict__["event"] == "gandy.lifecycle_pruned"
    assert event.__dict__["fields"] == {"tables": {"metadata": 1, "log": 2}}


async def test_a_cycle_that_fails_is_recorded_as_failed_and_told(world: World) -> None:
    events, cycles = EventBus(), list[CycleEnded]()
    events.subscribe(CycleEnded, cycles.append)
    service = dead_letter_cleanup(context(world, events=events))
    world.rows("ALTER TABLE dead_letter RENAME TO misplaced")

    with pytest.raises(Exception, match="dead_letter"):
        await service.tick()

    assert [cycle.verdict for cycle in cycles] == ["failed"]
    (run,) = world.rows("SELECT * FROM metadata")
    assert (run["train_state"], run["failure_junction"]) == ("failed", "delete_resolved_letters")
    world.rows("ALTER TABLE misplaced RENAME TO dead_letter")


async def test_a_stop_ends_the_service_also_while_much_is_left(world: World) -> None:
    past = Past(world)
    past.runs(3_000, name="ManifestManagerTrain", started=timedelta(hours=1))
    settings = replace(SETTINGS, cleanup=replace(SETTINGS.cleanup, batch_size=1))
    stop = asyncio.Event()
    task = asyncio.create_task(metadata_cleanup(context(world, settings)).run(stop))

    async def has_begun() -> bool:
        return past.count("metadata", "name = 'ManifestManagerTrain'") < 3_000

    await eventually(has_begun, "the first batch")
    stop.set()
    await task

    assert past.count("metadata", "name = 'ManifestManagerTrain'") > 0
