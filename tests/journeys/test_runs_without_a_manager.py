"""Where no manifest manager runs, a killed worker's runs are recovered by the workers that are left."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.journeys.processes import fleet, kill
from tests.journeys.test_harm_stays_with_its_job import APP, completed, executions, queue_rest
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

    from tests.journeys.processes import Fleet

pytestmark = pytest.mark.timeout(180)

JOBS = 3
LEASE = 1.0
SECONDS = 0.5
SCALED = {"GANDY_WORKER_LEASE_FOR": f"{LEASE:g}s", "GANDY_WORKER_HEARTBEAT_EVERY": "200ms"}
#: The lease, a start of Python on a busy machine, and the jobs once more.
WITHIN = 3 * (LEASE + 2.0 + SECONDS)


def kill_with_running_jobs(ships: Fleet, worker: subprocess.Popen[bytes], numbers: range) -> None:
    """Leave runs in progress under a worker that is gone."""
    queue_rest(ships.url, numbers, seconds=SECONDS)
    wait_until(lambda: ships.unended(worker) == len(numbers), f"the jobs have begun\n{ships.logs()}")
    kill(worker)
    assert completed(ships.url) == numbers.start


def wait_for_completed(ships: Fleet, wanted: int) -> None:
    """See that others have run what the dead worker left, each once more."""
    wait_until(lambda: completed(ships.url) == wanted, f"others have run them\n{ships.logs()}", within=WITHIN)
    assert executions(ships) == dict.fromkeys(range(wanted), 2)


def run_until_idle(ships: Fleet) -> None:
    """Run a worker that ends by itself, and with success."""
    process = ships.start("work", "--until-idle")
    wait_until(lambda: process.poll() is not None, f"it ends\n{ships.logs()}", within=WITHIN)
    assert process.returncode == 0, ships.log_of(process)


def test_until_idle_waits_for_the_runs_of_a_dead_worker(migrated_url: str, tmp_path: Path) -> None:
    with fleet(migrated_url, tmp_path, **SCALED) as ships:
        ships.app = APP
        kill_with_running_jobs(ships, ships.start_worker(), range(JOBS))

        run_until_idle(ships)

        assert completed(migrated_url) == JOBS, ships.logs()
        assert executions(ships) == dict.fromkeys(range(JOBS), 2)


def test_workers_recover_the_runs_of_a_dead_one_and_leave_a_live_one_alone(
    migrated_url: str, tmp_path: Path
) -> None:
    with fleet(migrated_url, tmp_path, **SCALED) as ships:
        ships.app = APP
        kill_with_running_jobs(ships, ships.start_worker(), range(JOBS))
        worker = ships.start("work")
        wait_for_completed(ships, JOBS)

        kill_with_running_jobs(ships, worker, range(JOBS, 2 * JOBS))
        live = ships.start("up", "--services", "worker,dispatcher")
        wait_for_completed(ships, 2 * JOBS)

        queue_rest(migrated_url, range(2 * JOBS, 2 * JOBS + 1), seconds=60)
        wait_until(lambda: ships.unended(live) == 1, f"the long job has begun\n{ships.logs()}")
        run_until_idle(ships)

        assert ships.unended(live) == 1, "the run of a live worker is not waited for"
        assert executions(ships)[2 * JOBS] == 1
