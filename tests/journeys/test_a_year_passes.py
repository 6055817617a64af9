"""Steady load for a long time on a clock that the test moves: no table grows."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from gandy.model.manifest import DEFAULT_GROUP
from gandy.model.owners import Operator
from gandy.model.run import TrainState
from gandy.model.schedule import Interval
from gandy.settings import RetentionSettings
from gandy.store.letters import acknowledge_letters
from gandy.store.queueing import EnqueueRequest, Uniqueness, enqueue
from gandy.store.workers import WorkerRegistration, register_worker, stop_worker
from gandy.upkeep.declaration import UPKEEP
from tests.support.world import OWNER, OWNERS, manifest

if TYPE_CHECKING:
    from tests.support.history import Past
    from tests.support.world import World

HOUR = timedelta(hours=1)
#: The whole year by the hour in the long form; in the short one, long enough that every retention has passed.
IS_FULL = bool(os.environ.get("GANDY_TEST_FULL_JOURNEYS"))
DAYS = 365 if IS_FULL else 140
STEP = HOUR if IS_FULL else 8 * HOUR
#: The longest retention of all, that of the audit trail: from then on as much goes as comes.
SETTLED = timedelta(days=91)


class Load:
    """What an application does, hour by hour, the same every month."""

    def __init__(self, past: Past, step: timedelta) -> None:
        self.past = past
        self.world: World = past.world
        self.step = step
        self.steps = 0

    async def begin(self) -> None:
        await self.world.seed(
            manifest("hourly", schedule=Interval(self.step)),
            manifest("flaky", schedule=Interval(self.step), max_retries=2),
            manifest("capped", schedule=Interval(self.step), keep_last=5, keep_for=timedelta(days=3)),
        )

    async def pass_one_step(self) -> None:
        self.steps += 1
        await self._enqueue()
        await self.world.cycle()
        await self._work()
        if self.steps % 12 == 0:
            await self._now_and_then()
        await self.past.metadata_cleanup()
        await self.past.table_maintenance()
        await self.past.dead_letter_cleanup()
        self.world.clock.advance(self.step)

    async def _enqueue(self) -> None:
        unique = Uniqueness(keys=[f"mail {self.steps % 5}"], until="success", keep_for=2 * HOUR)
        for uniqueness, group in ((None, f"customer {self.steps}"), (unique, DEFAULT_GROUP)):
            request = EnqueueRequest(
                owner=OWNER,
                train="SendMail",
                inputs=["{}"],
                input_type_name="Mail",
                uniqueness=uniqueness,
                group=group,
            )
            await self.world.database.run(enqueue(request))

    async def _work(self) -> None:
        runs = await self.world.claim()
        failing = [run for run in runs if run.manifest == "flaky" and self.steps % 7 < 3]
        await self.world.finish(*(run for run in runs if run not in failing))
        if failing:
            await self.world.finish(*failing, state=TrainState.FAILED)

    async def _now_and_then(self) -> None:
        """A deploy: a new worker for the old one, a job pruned from the code, and an operator at work."""
        worker_id = f"worker of day {self.world.clock.now:%F}"
        registration = WorkerRegistration(
            id=worker_id, owner=OWNER, host="h", pid=1, version="1", slots=1, trains=["SendMail"]
        )
        await self.world.database.run(register_worker(registration, 9.0))
        await self.world.database.run(stop_worker(worker_id))
        now = self.world.clock.now
        letters = sorted(self.past.ids("dead_letter", "status = 'awaiting_intervention'"))
        await self.world.database.run(
            acknowledge_letters(letters, Operator("me", "cli"), "seen", owners=OWNERS)
        )
        self.past.entry(
            status="cancelled", entry_id=None, settled_at=now, created_at=now, train_name="SendMail"
        )


async def watch(past: Past, load: Load, *, span: timedelta, settled: timedelta) -> dict[str, list[int]]:
    """Let the span pass, and count every table once a day after things have settled."""
    tables = sorted(
        {upkeep.table for upkeep in UPKEEP}
        - ({"sequence"} if past.has_days else {"history_horizon", "history_piece"})
    )
    counts: dict[str, list[int]] = {table: [] for table in tables}
    begun = past.world.clock.now
    await load.begin()
    while past.world.clock.now - begun < span:
        await load.pass_one_step()
        if past.world.clock.now - begun > settled and load.steps % (timedelta(days=1) // load.step) == 0:
            for table in tables:
                counts[table].append(past.count(table))
    return counts


def growing(counts: dict[str, list[int]]) -> dict[str, Any]:
    """The tables that were larger in the second half than ever in the first."""
    halves = {table: (seen[: len(seen) // 2], seen[len(seen) // 2 :]) for table, seen in counts.items()}
    return {
        table: (max(first), max(second))
        for table, (first, second) in halves.items()
        if max(second) > max(first) * 1.02 + 1
    }


@pytest.mark.timeout(900)
async def test_a_year_in_small_steps_leaves_every_table_as_large_as_it_was(sqlite_past: Past) -> None:
    sqlite_past.retention = RetentionSettings(samples=timedelta(days=30))  # shorter than what is watched
    load = Load(sqlite_past, STEP)

    counts = await watch(sqlite_past, load, span=timedelta(days=DAYS), settled=SETTLED)

    assert load.steps == timedelta(days=DAYS) // STEP
    assert min(counts["metadata"]) > 50
    assert min(counts["work_queue"]) > 0
    assert growing(counts) == {}


@pytest.mark.timeout(900)
async def test_two_months_leave_as_many_partitions_and_rows_as_there_were(postgres_past: Past) -> None:
    past = postgres_past
    past.retention = RetentionSettings(
        completed=timedelta(days=2),
        failed=timedelta(days=5),
        cancelled=timedelta(days=5),
        dead_letters=timedelta(days=5),
        audit=timedelta(days=5),
        skipped=timedelta(days=2),
        cancelled_entries=timedelta(days=2),
        samples=timedelta(days=5),
        statistics=timedelta(days=5),
    )
    load = Load(past, 12 * HOUR)

    counts = await watch(past, load, span=timedelta(days=40), settled=timedelta(days=12))

    leaves = past.count("pg_class", "relkind = 'r' AND relname ~ '^(log|history)_[0-9]{8}$'")
    assert leaves == 2 * (5 + 4)  # as many days as the longest retention, and four
    assert growing(counts) == {}
