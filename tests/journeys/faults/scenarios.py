"""Each fault, as a function that lasts as long as the fault does."""

from __future__ import annotations

import signal
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg

from tests.journeys.faults.disk import small_disk
from tests.journeys.processes import kill

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Literal, TypeAlias

    from tests.journeys.faults.stage import Stage
    from tests.support.postgres import ThrowawayServer

    Fault: TypeAlias = Callable[["Stage"], None]
    Way: TypeAlias = Literal["direct", "proxy", "pooler"]

HOOKS = Path(__file__).parent / "hooks"
IDLE_CONNECTIONS = 300
KILL_EVERY_SECONDS = 0.5
LEASE_MILLISECONDS = 2_000
OTHER_BACKENDS = b"""
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid()
"""


def kill_a_worker(stage: Stage) -> None:
    """Kill one with -9; whoever supervises it starts another at once."""
    kill(stage.workers[0])
    stage.workers[0] = stage.ships.start_worker()


def kill_workers_again_and_again(stage: Stage) -> None:
    """Kill them in turn, for as long as it lasts."""
    for turn in range(int(stage.scale.fault_seconds)):
        kill(stage.workers[turn % len(stage.workers)])
        stage.workers[turn % len(stage.workers)] = stage.ships.start_worker()
        stage.pass_time(1.0)


def restart_the_database(stage: Stage) -> None:
    """Stop it as an upgrade does, and start it again."""
    server_of(stage).restart("fast")


def crash_the_database(stage: Stage) -> None:
    """Kill it with -9, and start it again."""
    server_of(stage).restart("crash")


def kill_backends(stage: Stage) -> None:
    """End every connection of the database, twice a second."""
    begun = time.monotonic()
    while time.monotonic() - begun < stage.scale.fault_seconds:
        with psycopg.connect(stage.url, autocommit=True) as connection:
            connection.execute(OTHER_BACKENDS)
        stage.pass_time(KILL_EVERY_SECONDS)


def hold_idle_connections(stage: Stage) -> None:
    """Keep 300 connections that do nothing, some of them in a transaction."""
    with ExitStack() as held:
        for number in range(IDLE_CONNECTIONS):
            connection = held.enter_context(psycopg.connect(stage.url, autocommit=number % 10 > 0))
            connection.execute(b"SELECT 1")
        stage.pass_time(stage.scale.fault_seconds)


def freeze_a_worker(stage: Stage) -> None:
    """Stop one, for longer than its lease; it then goes on as if nothing had been."""
    stage.workers[0].send_signal(signal.SIGSTOP)
    stage.pass_time(stage.scale.fault_seconds)
    stage.workers[0].send_signal(signal.SIGCONT)


def freeze_the_database(stage: Stage) -> None:
    """Let it answer nothing, for longer than every lease."""
    with server_of(stage).frozen():
        stage.pass_time(stage.scale.fault_seconds)


def silence_listeners(stage: Stage) -> None:
    """Let the connections that wait for notifications stay open and hear nothing more."""
    assert stage.proxy is not None
    assert stage.proxy.go_silent() > 0
    stage.pass_time(stage.scale.fault_seconds)


def hold_an_old_snapshot(stage: Stage) -> None:
    """Read in one transaction all the time, so that nothing that dies meanwhile can be cleaned away."""
    with psycopg.connect(stage.url) as connection:
        connection.execute(b"SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        connection.execute(b"SELECT count(*) FROM gandy.work_queue")
        stage.pass_time(stage.scale.fault_seconds)


def step_a_clock(stage: Stage) -> None:
    """Let one server's clock jump by days: its worker is replaced by one on such a server."""
    stage.workers[0].send_signal(signal.SIGTERM)
    stage.workers[0] = stage.ships.start_worker(HOOKS / "clock")
    stage.pass_time(stage.scale.fault_seconds)


def fill_the_disk(stage: Stage) -> None:
    """Let the file of SQLite not grow by one page."""
    full = stage.ships.witness.with_name("disk-is-full")
    full.touch()
    stage.pass_time(stage.scale.fault_seconds)
    full.unlink()


def make_the_primary_read_only(stage: Stage) -> None:
    """Refuse every write, as a primary that was demoted does, and cut the connections of before."""
    _command(stage, "ALTER SYSTEM SET default_transaction_read_only = on")
    stage.pass_time(stage.scale.fault_seconds)
    _command(stage, "ALTER SYSTEM RESET default_transaction_read_only")


def _command(stage: Stage, text: str) -> None:
    with psycopg.connect(
        stage.url, autocommit=True, options="-c default_transaction_read_only=off"
    ) as connection:
        connection.execute(text.encode())
        connection.execute(b"SELECT pg_reload_conf()")
        connection.execute(OTHER_BACKENDS)


def fill_the_disk_of_the_server(stage: Stage) -> None:
    """Let the tables stand on a disk without room for one page more."""
    with small_disk(server_of(stage), stage.url) as disk, disk.full():
        stage.pass_time(stage.scale.fault_seconds)


def lose_answers_to_commits(stage: Stage) -> None:
    """Let COMMITs reach the server and their answers not come back, twice a second."""
    assert stage.proxy is not None
    begun = time.monotonic()
    while time.monotonic() - begun < stage.scale.fault_seconds:
        stage.proxy.lose_commit_answers(1)
        stage.pass_time(KILL_EVERY_SECONDS)
    assert stage.proxy.lost > 0


def restart_the_pooler(stage: Stage) -> None:
    """Kill PgBouncer with all its connections, and start it again."""
    assert stage.pooler is not None
    stage.pooler.restart()


def block_event_loops(stage: Stage) -> None:
    """Let a job of each worker hold up its event loop for nearly twice a lease."""
    jobs = len(stage.workers)
    stage.add_hostile("block_the_loop", jobs=jobs, milliseconds=LEASE_MILLISECONDS * 7 / 4)
    stage.pass_time(stage.scale.fault_seconds + LEASE_MILLISECONDS * 7 / 4 / 1000)


def poison_ends(stage: Stage) -> None:
    """Let jobs fail with texts that no database can hold, all the time."""
    begun = time.monotonic()
    while time.monotonic() - begun < stage.scale.fault_seconds:
        stage.add_hostile("end_unstorably", jobs=5)
        stage.pass_time(KILL_EVERY_SECONDS)


def server_of(stage: Stage) -> ThrowawayServer:
    """The server, which only some faults need."""
    assert stage.server is not None
    return stage.server


#: What happens to PostgreSQL or to workers on it.
ON_POSTGRES: Mapping[str, Fault] = {
    "a worker killed": kill_a_worker,
    "workers killed every second": kill_workers_again_and_again,
    "the database restarted": restart_the_database,
    "the database crashed": crash_the_database,
    "every connection ended twice a second": kill_backends,
    "300 idle connections": hold_idle_connections,
    "a worker frozen": freeze_a_worker,
    "the database frozen": freeze_the_database,
    "LISTEN connections half open": silence_listeners,
    "an old snapshot held": hold_an_old_snapshot,
    "a server's clock jumping by days": step_a_clock,
    "the primary read-only": make_the_primary_read_only,
    "the disk full (PostgreSQL)": fill_the_disk_of_the_server,
    "answers to COMMIT lost twice a second": lose_answers_to_commits,
    "the pooler restarted": restart_the_pooler,
    "event loops blocked for 7/4 of a lease": block_event_loops,
    "ends that cannot be stored": poison_ends,
}
#: What stands between the processes and the server, where a fault needs it.
WAYS: Mapping[Fault, Way] = {lose_answers_to_commits: "proxy", restart_the_pooler: "pooler"}
#: What happens to a file of SQLite.
ON_SQLITE: Mapping[str, Fault] = {"the disk full (SQLite)": fill_the_disk}
