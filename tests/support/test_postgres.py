from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import psycopg
import pytest

from tests.support.postgres import (
    NotOursError,
    PostgresServer,
    ServerDidNotStartError,
    StopMode,
    ThrowawayServer,
)
from tests.support.postgres_found import newest
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

STARTS_A_SERVER = """
import json, sys
from tests.support.postgres import ThrowawayServer
from tests.support.postgres_found import newest
server = ThrowawayServer(newest())
if sys.argv[1] == "frozen":
    server.freeze()
pids = [each.pid for each in server.processes()]
print(json.dumps([str(server.folder), server._keeper.pid, pids]), flush=True)
sys.stdin.read()
"""


def is_gone(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def ask(url: str, question: str) -> list[Any]:
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(question.encode())
        return [] if cursor.description is None else [value for (value,) in cursor]


@pytest.fixture
def parent(request: pytest.FixtureRequest) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", STARTS_A_SERVER, getattr(request, "param", "running")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


def server_of(parent: subprocess.Popen[str]) -> tuple[Path, int, list[int]]:
    assert parent.stdout is not None
    folder, keeper, pids = json.loads(parent.stdout.readline())
    assert len(pids) > 1
    assert not any(is_gone(pid) for pid in [keeper, pids[0]])
    return Path(folder), keeper, pids


@pytest.mark.postgres
@pytest.mark.parametrize("parent", ["running", "frozen"], indirect=True)
def test_server_and_its_folder_go_when_the_process_that_started_it_is_killed(
    parent: subprocess.Popen[str],
) -> None:
    folder, keeper, pids = server_of(parent)

    parent.kill()

    wait_until(lambda: all(is_gone(pid) for pid in [keeper, *pids]), "no process of the server is left")
    assert not folder.exists()


@pytest.mark.postgres
def test_server_goes_when_its_keeper_is_killed(parent: subprocess.Popen[str]) -> None:
    folder, keeper, pids = server_of(parent)

    os.kill(keeper, signal.SIGKILL)

    wait_until(lambda: all(is_gone(pid) for pid in pids), "no process of the server is left")
    shutil.rmtree(folder)  # nobody is left who would


def test_two_databases_of_one_template_start_alike_and_live_apart(postgres_server: PostgresServer) -> None:
    calls: list[str] = []

    def prepare(url: str) -> None:
        calls.append(url)
        ask(url, "CREATE TABLE mark AS SELECT 7 AS n")

    postgres_server.template("marked", prepare)
    name = postgres_server.template("marked", prepare)
    with postgres_server.database(name) as first, postgres_server.database(name) as second:
        ask(first, "INSERT INTO mark VALUES (8)")

        assert ask(first, "SELECT n FROM mark ORDER BY n") == [7, 8]
        assert ask(second, "SELECT n FROM mark") == [7]
    assert len(calls) == 1


def test_a_fresh_database_is_empty_and_dropped_with_its_connections(postgres_server: PostgresServer) -> None:
    with postgres_server.database() as url:
        assert ask(url, "SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace") == [0]
        left_open = psycopg.connect(url)
    with pytest.raises(psycopg.OperationalError):
        left_open.execute("SELECT 1")
    left_open.close()


def test_a_database_is_used_again_only_if_it_is_as_it_was(postgres_server: PostgresServer) -> None:
    with postgres_server.database() as first:
        ask(first, "CREATE TABLE public.mark AS SELECT 7 AS n")
        ask(first, "CREATE SCHEMA aside CREATE TABLE mark (n int)")
    with postgres_server.database() as second:
        assert second == first
        assert ask(second, "SELECT count(*) FROM pg_class WHERE relname = 'mark'") == [0]
        [name] = ask(second, "SELECT current_database()")
        ask(second, f"ALTER DATABASE {name} SET datestyle = german")
    with postgres_server.database() as third:
        assert third != first


@pytest.mark.parametrize("mode", ["fast", "immediate", "crash"])
def test_committed_rows_are_there_after_a_restart(
    private_postgres_server: ThrowawayServer, mode: StopMode
) -> None:
    server = private_postgres_server
    before = server.pid
    ask(server.dsn, "CREATE TABLE kept AS SELECT 1 AS n")

    server.restart(mode)

    assert server.pid != before
    assert ask(server.dsn, "SELECT n FROM kept") == [1]


def test_a_frozen_server_answers_nothing_until_it_is_thawed(private_postgres_server: ThrowawayServer) -> None:
    server = private_postgres_server
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        with server.frozen():
            wait_until(
                lambda: {each.status() for each in server.processes()} == {psutil.STATUS_STOPPED},
                "all are stopped",
            )
            connection.pgconn.send_query(b"SELECT 1")
            connection.pgconn.consume_input()
            assert connection.pgconn.is_busy()
        answers = iter(connection.pgconn.get_result, None)
        assert [answer.get_value(0, 0) for answer in answers] == [b"1"]
    assert ask(server.dsn, "SELECT 1") == [1]


@pytest.mark.postgres
def test_a_closed_server_leaves_nothing_behind() -> None:
    server = ThrowawayServer(newest())
    pids = [each.pid for each in server.processes()]

    server.close()

    assert all(is_gone(pid) for pid in pids)
    assert not server.folder.exists()


@pytest.mark.postgres
def test_a_server_that_cannot_start_says_why() -> None:
    with pytest.raises(ServerDidNotStartError, match="no_such_setting"):
        ThrowawayServer(newest(), settings={"no_such_setting": "on"})


def test_a_borrowed_server_refuses_to_be_stopped() -> None:
    with pytest.raises(NotOursError, match="private_postgres_server"):
        PostgresServer("postgresql://somewhere/postgres", "borrowed").restart()


def test_every_kind_of_database_is_reached_by_its_url(database_url: str) -> None:
    assert database_url.startswith(("sqlite:////", "postgresql://"))
