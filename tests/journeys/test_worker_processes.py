"""Several worker processes under one parent: they share the work, are replaced, and end with it."""

from __future__ import annotations

import json
import os
import signal
import socket
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from gandy.store.drivers.opening import migrate
from tests.cli.process import run_gandy
from tests.journeys.apps.witness import Job, app, block_the_loop, fail_for_good, spread, tick_off
from tests.journeys.processes import ROOT, fleet, kill
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable
    from subprocess import Popen
    from typing import Any

    from tests.journeys.processes import Fleet

TOKEN = "a-token-of-this-test-alone"
WORK = ("work", "--workers", "2", "--concurrency", "1")

pytestmark = pytest.mark.timeout(120)


def enqueue(url: str, train: Callable[..., Any], *jobs: Job) -> None:
    app.configure({"database": {"url": url}})
    with app as sync:
        sync.enqueue_many(train, list(jobs))


def pids_of(ships: Fleet, word: str = "begin") -> set[int]:
    return {int(line.split()[-1]) for line in ships.witnessed(word)}


def runs(pid: int) -> bool:
    """Whether a process executes; a dead one that its parent has not waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def await_begun(ships: Fleet, count: int) -> set[int]:
    """Wait until so many jobs have begun, and return the processes that run them."""
    wait_until(lambda: len(ships.witnessed("begin")) >= count, "the jobs have begun", within=60)
    return pids_of(ships)


def await_gone(pids: set[int]) -> None:
    wait_until(lambda: not any(map(runs, pids)), "no worker process is left", within=30)


def test_workers_until_idle_share_work_that_comes_up_late_and_end_when_nothing_is_left(
    migrated_url: str, tmp_path: Path
) -> None:
    enqueue(migrated_url, spread, Job(number=60, milliseconds=300))
    with fleet(migrated_url, tmp_path, GANDY_WORKER_PREFETCH="0") as ships:
        process = ships.start(*WORK, "--until-idle")

        assert process.wait(timeout=100) == 0, ships.logs()
        assert sorted(int(line.split()[1]) for line in ships.witnessed("end")) == list(range(60))
        assert len(pids_of(ships) - {process.pid}) == 2


def test_a_job_that_a_worker_process_parks_makes_the_exit_code_1(sqlite_url: str, tmp_path: Path) -> None:
    enqueue(sqlite_url, fail_for_good, Job(number=1))
    with fleet(sqlite_url, tmp_path, GANDY_WORKER_COUNT="2") as ships:
        process = ships.start("work", "--until-idle")

        assert process.wait(timeout=100) == 1, ships.logs()
        assert "1 job was parked" in ships.log_of(process)


def test_a_killed_worker_process_is_replaced_its_job_runs_again_and_one_port_tells_all(
    migrated_url: str, tmp_path: Path
) -> None:
    port = free_port()
    # without prefetch each process takes one job: what a process counted in its last second is lost with it
    environment = {"GANDY_WEB_TOKEN": TOKEN, "XDG_STATE_HOME": str(tmp_path), "GANDY_WORKER_PREFETCH": "0"}
    with fleet(migrated_url, tmp_path, **environment) as ships:
        process = ships.start(
            "up", "--workers", "2", "--concurrency", "1", "--port", str(port), "--services", "worker,web"
        )
        wait_until(lambda: is_ready(port), "both worker processes are ready", within=60)
        enqueue(migrated_url, tick_off, *(Job(number=number, milliseconds=2000) for number in range(2)))
        victim = min(await_begun(ships, 2))
        os.kill(victim, signal.SIGKILL)

        wait_until(lambda: not is_ready(port), "readiness says so")
        wait_until(lambda: {line.split()[1] for line in ships.witnessed("end")} == {"0", "1"}, ships.logs())
        wait_until(lambda: is_ready(port), "another process has taken its place", within=60)
        text = f"process {victim}, killed by SIGKILL; starting another in 1 s"
        assert text in ships.log_of(process)
        wait_until(
            lambda: 'gandy_runs_total{state="completed",train="tick_off"} 2.0' in get(port, "/metrics"),
            "the counts of both processes are summed",
        )
        assert 'gandy_service_restarts_total{service="worker"} 1.0' in get(port, "/metrics")

        found = health(migrated_url, tmp_path)
        assert sorted(str(each["answers_by"]) for each in found) == ["http", "lease", "lease"]
        assert {each["problem"] for each in found} == {None}


def test_a_worker_process_that_cannot_open_the_database_says_so_in_one_line(
    postgres_url: str, tmp_path: Path
) -> None:
    migrate(postgres_url)
    with fleet(postgres_url, tmp_path) as ships:
        process = ships.start(*WORK)
        enqueue(postgres_url, tick_off, *(Job(number=number, milliseconds=1) for number in range(2)))
        victim = min(await_begun(ships, 1))
        database = conninfo_to_dict(postgres_url)["dbname"]
        with psycopg.connect(postgres_url, dbname="postgres", autocommit=True) as connection:
            connection.execute(f'ALTER DATABASE "{database}" ALLOW_CONNECTIONS false'.encode())
        os.kill(victim, signal.SIGKILL)
        wait_until(lambda: "exit code 1; starting" in ships.log_of(process), f"it ended\n{ships.logs()}")

        said = ships.log_of(process)
        assert "this worker process ends: " in said
        assert "not currently accepting connections" in said
        assert "Traceback" not in said


def test_worker_processes_end_with_their_parent_even_if_a_job_blocks_them(
    sqlite_url: str, tmp_path: Path
) -> None:
    enqueue(sqlite_url, tick_off, *(Job(number=number, milliseconds=60_000) for number in range(2)))
    enqueue(sqlite_url, block_the_loop, *(Job(number=number, milliseconds=60_000) for number in range(2)))
    with fleet(sqlite_url, tmp_path) as ships:
        process = ships.start("work", "--workers", "2", "--concurrency", "2")
        pids = await_begun(ships, 2)

        kill(process)

        await_gone(pids)


@pytest.mark.parametrize("is_group", [False, True])
def test_a_signal_to_the_parent_or_to_its_group_lets_jobs_end(
    is_group: bool,
    sqlite_url: str,
    tmp_path: Path,
) -> None:
    enqueue(sqlite_url, tick_off, *(Job(number=number, milliseconds=700) for number in range(2)))
    with fleet(sqlite_url, tmp_path) as ships:
        process = ships.start(*WORK)
        pids = await_begun(ships, 2)

        send(process, signal.SIGTERM, is_group=is_group)

        assert process.wait(timeout=50) == 0, ships.logs()
        assert len(ships.witnessed("end")) == 2
        await_gone(pids)


def test_a_second_signal_ends_all_at_once(sqlite_url: str, tmp_path: Path) -> None:
    enqueue(sqlite_url, tick_off, *(Job(number=number, milliseconds=60_000) for number in range(2)))
    with fleet(sqlite_url, tmp_path, GANDY_WORKER_SHUTDOWN_GRACE="60s") as ships:
        process = ships.start(*WORK)
        pids = await_begun(ships, 2)

        send(process, signal.SIGTERM, is_group=True)
        send(process, signal.SIGINT, is_group=True)

        assert process.wait(timeout=30) == 130
        await_gone(pids)


def send(process: Popen[bytes], which: signal.Signals, *, is_group: bool) -> None:
    if is_group:
        os.killpg(process.pid, which)
    else:
        process.send_signal(which)


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


def get(port: int, path: str) -> str:
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}{path}", headers={"Authorization": f"Bearer {TOKEN}"}
    )
    with urllib.request.urlopen(request, timeout=20) as answer:  # noqa: S310
        return str(answer.read().decode())


def is_ready(port: int) -> bool:
    try:
        return bool(json.loads(get(port, "/readyz"))["ready"])
    except (urllib.error.URLError, ConnectionError):
        return False


def health(url: str, folder: Path) -> list[dict[str, str | None]]:
    done = run_gandy(
        folder,
        *("--app", "tests.journeys.apps.witness:app", "--database", url, "health", "--json"),
        PYTHONPATH=str(ROOT),
        XDG_STATE_HOME=str(folder),
    )
    found: list[dict[str, str | None]] = json.loads(done.stdout)
    return found
