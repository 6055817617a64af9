"""kill -9 of the evaluating process, after every statement of a cycle that does everything a cycle can do."""

from __future__ import annotations

import asyncio
import multiprocessing
import signal
import threading
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from gandy.model.run import TrainState
from gandy.model.schedule import Cron, Dependent, Manual, Once
from gandy.store.drivers.opening import migrate
from gandy.store.queueing import trigger
from gandy.store.workers import WorkerRegistration, register_worker
from tests.journeys.dying import live_and_die
from tests.support.waiting import wait_until
from tests.support.world import OWNER, START, manifest, open_world

if TYPE_CHECKING:
    from datetime import datetime

    from tests.support.databases import DatabaseHome

FEWEST_BOUNDARIES = 20
#: Each is forked from a process that has imported all it needs and nothing else.
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["tests.journeys.dying"])


def prepare(url: str) -> None:
    """Make a database to be cloned; a thread of its own has no event loop yet."""
    migrate(url)
    thread = threading.Thread(target=lambda: asyncio.run(leave_everything_due(url)))
    thread.start()
    thread.join()


async def leave_everything_due(url: str) -> None:
    """Leave a bit of everything for the next cycle: entries, skips, dependents, a lost run, a job to park."""
    world = await open_world(url)
    await world.seed(
        *(manifest(f"cron-{n}", schedule=Cron("0 13 * * *"), group=f"g-{n % 3}") for n in range(12)),
        manifest("once", schedule=Once(delay=timedelta(minutes=59))),
        manifest("busy", schedule=Cron("0 13 * * *"), train="Busy"),
        manifest("parent", schedule=Manual(), train="Parent"),
        manifest("child", schedule=Dependent("parent"), train="Child"),
        manifest("spent", schedule=Manual(), train="Spent", max_retries=1),
        manifest("slow", schedule=Manual(), train="Slow", timeout=timedelta(minutes=1)),
    )
    for external_id in ("busy", "parent", "spent", "slow"):
        await world.database.run(trigger(external_id, owner=OWNER))
    registration = WorkerRegistration(
        id="worker-2", owner=OWNER, host="h", pid=1, version="0", slots=10, trains=("Busy",)
    )
    await world.database.run(register_worker(registration, 12.0))
    await world.claim("Busy", worker_id="worker-2")
    await world.claim("Slow", worker_id="worker-3")
    await world.finish(*await world.claim("Parent"))
    await world.finish(*await world.claim("Spent"), state=TrainState.FAILED)
    await world.database.close()


def die_after(url: str, now: datetime, last: int) -> int | None:
    """Run one cycle in a process of its own; None: it was killed after that statement."""
    answer, theirs = PROCESSES.Pipe(duplex=False)
    process = PROCESSES.Process(target=live_and_die, args=(url, now, last, theirs))
    process.start()
    theirs.close()
    process.join()
    if process.exitcode == -signal.SIGKILL:
        if url.startswith("postgresql"):
            wait_until(lambda: not sessions_of(url), "the server has noticed the death, and let its locks go")
        return None
    assert process.exitcode == 0
    return int(answer.recv())


def sessions_of(url: str) -> int:
    """The other sessions on a database; one whose process was killed ends when its server reads again."""
    with psycopg.connect(url) as link:
        found = link.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
            " AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
        ).fetchone()
    return 0 if found is None else int(found[0])


async def finished_state(url: str, now: datetime) -> dict[str, list[dict[str, Any]]]:
    """Go on from whatever is there until nothing is due, and say what there is then."""
    world = await open_world(url, now)
    try:
        while (await world.cycle(trusts_leases=True)).wants_another:
            pass
        assert (await world.cycle(trusts_leases=True)).queued == 0
    finally:
        await world.database.close()
    return {
        "ledger": world.rows(
            "SELECT m.external_id, q.status, q.gate, q.reason, q.origin, q.due_at, q.attempt, q.occurrences "
            "FROM work_queue q JOIN manifest m ON m.id = q.manifest_id "
            "ORDER BY m.external_id, q.due_at, q.attempt, q.status"
        ),
        "manifests": world.rows(
            "SELECT external_id, next_scheduled_run, next_look_at, failure_count, success_count, "
            "final_failure_count, end_count, has_dependents_due, last_skip_reason "
            "FROM manifest ORDER BY external_id"
        ),
        "edges": world.rows(
            "SELECT c.external_id AS child, p.external_id AS parent, e.kind, e.seen FROM manifest_edge e "
            "JOIN manifest c ON c.id = e.child_id JOIN manifest p ON p.id = e.parent_id "
            "ORDER BY c.external_id, p.external_id"
        ),
        "letters": world.rows("SELECT train_name, status, reason FROM dead_letter ORDER BY train_name"),
        "workers": world.rows("SELECT id, state FROM worker ORDER BY id"),
    }


@pytest.mark.timeout(600)
@pytest.mark.parametrize("home", ["postgres_server", "sqlite_home"])
async def test_the_next_cycle_goes_on_wherever_the_one_before_was_killed(
    request: pytest.FixtureRequest, home: str
) -> None:
    databases: DatabaseHome = request.getfixturevalue(home)
    template = databases.template("everything_due", prepare)
    now = START + timedelta(hours=1)
    with databases.database(template) as url:
        statements = die_after(url, now, 0)
        expected = await finished_state(url, now)
    assert statements is not None
    assert len(expected["letters"]) == 1
    assert {row["external_id"] for row in expected["ledger"]} >= {"child", "once", "busy", "cron-11"}
    killed = 0
    for last in range(1, statements + 1):
        with databases.database(template) as url:
            assert die_after(url, now, last) is None
            killed += 1
            assert await finished_state(url, now) == expected, f"killed after statement {last}"
    print(f"killed after each of {killed} statements on {home}")  # noqa: T201 the figure is asked for
    assert killed == statements >= FEWEST_BOUNDARIES
