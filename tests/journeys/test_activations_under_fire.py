"""Two workers, a manager and activations of many parents: the marks that the jobs leave are the judge."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from gandy import Gandy
from gandy.desk.audit import local_operator
from gandy.desk.queue import QueueDesk
from gandy.desk.runs import RunInsights
from gandy.model.owners import OneOwner
from gandy.store.reading.listings import EntryFilter, RunFilter
from tests.journeys.apps.family import PARENTS, SEEDS
from tests.journeys.processes import fleet, kill
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from gandy.desk.runs import RunSummary
    from tests.journeys.processes import Fleet

pytestmark = pytest.mark.timeout(180)

RUNS = 3 * PARENTS
OWNERS = OneOwner("journey")


def completed(url: str) -> list[RunSummary]:
    """The runs of parents that are on record as completed, the oldest first."""

    async def read() -> list[RunSummary]:
        async with Gandy("journey", url) as app:
            wanted = RunFilter(train="sow", state="completed", limit=1_000)
            return list(await RunInsights(app.database, OWNERS).list(wanted))

    return sorted(asyncio.run(read()), key=lambda run: run.id)


def is_at_rest(url: str) -> bool:
    """Whether nothing is queued, waits or runs."""

    async def read() -> bool:
        async with Gandy("journey", url) as app:
            desk = QueueDesk(app.database, local_operator("cli"), owners=OWNERS)
            entries = await desk.list(EntryFilter(status="undispatched"))
            runs = RunInsights(app.database, OWNERS)
            pending = await runs.list(RunFilter(state="pending"))
            running = await runs.list(RunFilter(state="in_progress"))
            return not (entries or pending or running)

    return asyncio.run(read())


@pytest.mark.parametrize("is_killed", [False, True], ids=["quiet", "a worker is killed"])
def test_every_activation_of_a_completed_run_runs_in_its_order_and_none_of_another_does(
    migrated_url: str, tmp_path: Path, is_killed: bool
) -> None:
    with fleet(migrated_url, tmp_path) as ships:
        ships.app = "tests.journeys.apps.family:app"
        manager = ships.start("up", "--services", "manifest-manager")
        workers = [ships.start_worker() for _ in range(2)]
        wait_until(lambda: len(completed(migrated_url)) >= RUNS // 2, ships.logs(), within=60)
        if is_killed:
            wait_until(lambda: ships.unended(workers[0]) > 0, "it is in the middle of a job", within=60)
            kill(workers[0])
        wait_until(lambda: len(completed(migrated_url)) >= RUNS, ships.logs(), within=60)
        kill(manager)
        wait_until(lambda: is_at_rest(migrated_url), f"all has run\n{ships.logs()}", within=90)
        _judge(ships, completed(migrated_url), is_killed=is_killed)


def _judge(ships: Fleet, runs: list[RunSummary], *, is_killed: bool) -> None:
    begun = [line.split()[1:3] for line in ships.witnessed("begin")]
    for number in range(PARENTS):
        asked = [
            f"{run.id}.{seed}" for run in runs if run.manifest == f"parent-{number}" for seed in range(SEEDS)
        ]
        ran = [seed for child, seed in begun if child == f"child-{number}"]
        assert list(dict.fromkeys(ran)) == asked, "all of them, in order, and nothing else"
        again = sum(Counter(ran).values()) - len(asked)
        assert again <= int(is_killed), "only what a killed worker had begun runs a second time"
    _refuse_overlaps(ships)


def _refuse_overlaps(ships: Fleet) -> None:
    """See that a dependent's runs follow each other; what was killed has no end."""
    open_runs: dict[str, tuple[str, str]] = {}
    for line in ships.witness.read_text().splitlines():
        word, child, seed, pid = line.split()
        if word == "end":
            assert open_runs.pop(child, (seed, pid)) == (seed, pid), line
        else:
            before = open_runs.get(child)
            assert before is None or before[0] == seed, f"{line} begins while {before} goes on"
            open_runs[child] = (seed, pid)
