"""A server that is killed while it changes the layout of history: the next cycle brings it to its end."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import psycopg
import pytest

from gandy.store.drivers.opening import migrate
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.postgres import PostgresServer

APP = "from gandy import Gandy\n\napp = Gandy('shop')\n"
STUCK = """
CREATE FUNCTION stuck() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(600); END $$;
CREATE EVENT TRIGGER stuck ON ddl_command_start WHEN TAG IN ('DROP TABLE') EXECUTE FUNCTION stuck();
"""
STUCK_ATTACHING = STUCK.replace("DROP TABLE", "ALTER TABLE")
ATTACHING = """
SELECT pid FROM pg_stat_activity
WHERE state = 'active' AND wait_event = 'PgSleep' AND query LIKE '%add_history_piece%'
"""
#: More than a mebibyte on a day.
LARGE = """
INSERT INTO gandy.log (bucket, metadata_id, created_at, level, logger, message)
SELECT %s, n, now(), 'info', 'test', repeat('x', 1000) FROM generate_series(1, 2000) n
"""
DROPPING = "SELECT pid FROM pg_stat_activity WHERE state = 'active' AND query LIKE 'DROP TABLE%'"
# every partition of the day, and whether it still belongs to its table
LEAVES = """
SELECT count(*), count(inhrelid) FROM pg_class LEFT JOIN pg_inherits ON inhrelid = oid
WHERE relkind = 'r' AND relname = ANY (%s)
"""


@pytest.fixture
def url(postgres_server: PostgresServer) -> Iterator[str]:
    template = postgres_server.template("migrated", lambda url: (migrate(url), None)[1])
    with postgres_server.database(template) as url:
        yield url


def test_a_day_whose_dropping_was_cut_short_by_a_kill_is_dropped_by_the_next_cycle(
    url: str, tmp_path: Path
) -> None:
    day = datetime.now(tz=UTC).date() - timedelta(days=1)
    names = [f"{parent}_{day:%Y%m%d}" for parent in ("log", "history")]
    (tmp_path / "shop.py").write_text(APP)
    with closing(psycopg.connect(url, autocommit=True)) as link:

        def leaves() -> tuple[int, ...]:
            return tuple(link.execute(LEAVES, [names]).fetchone() or ())

        link.execute("SELECT gandy.add_history_day(%s)", [day])
        assert leaves() == (2, 2)
        link.execute(STUCK)
        process = subprocess.Popen(cycle(), env=surroundings(url, tmp_path))
        [dropping] = wait_until(lambda: link.execute(DROPPING).fetchall(), "a partition is being dropped")
        assert leaves() == (2, 1), "it is detached and not dropped"

        process.kill()
        process.wait()
        link.execute("SELECT pg_terminate_backend(%s, 10000)", dropping)
        link.execute("DROP EVENT TRIGGER stuck")
        assert leaves() == (2, 1)
        subprocess.run(cycle(), env=surroundings(url, tmp_path), check=True, capture_output=True)

        assert leaves() == (0, 0)


def test_a_piece_of_a_day_whose_dropping_was_cut_short_by_a_kill_is_dropped_too(
    url: str, tmp_path: Path
) -> None:
    day = datetime.now(tz=UTC).date() - timedelta(days=1)
    names = [f"{parent}_{day:%Y%m%d}{suffix}" for parent in ("log", "history") for suffix in ("", "_1", "_2")]
    (tmp_path / "shop.py").write_text(APP)
    with closing(psycopg.connect(url, autocommit=True)) as link:

        def leaves() -> tuple[int, ...]:
            return tuple(link.execute(LEAVES, [names]).fetchone() or ())

        for number in range(3):
            link.execute("SELECT gandy.add_history_piece(%s, %s)", [day, number])
        link.execute(STUCK)
        process = subprocess.Popen(cycle(), env=surroundings(url, tmp_path))
        [dropping] = wait_until(lambda: link.execute(DROPPING).fetchall(), "a partition is being dropped")
        assert leaves() == (6, 5)

        process.kill()
        process.wait()
        link.execute("SELECT pg_terminate_backend(%s, 10000)", dropping)
        link.execute("DROP EVENT TRIGGER stuck")
        subprocess.run(cycle(), env=surroundings(url, tmp_path), check=True, capture_output=True)

        assert leaves() == (0, 0)


def test_a_piece_whose_creation_was_cut_short_by_a_kill_is_created_and_opened_by_the_next_cycles(
    url: str, tmp_path: Path
) -> None:
    day = datetime.now(tz=UTC).date() + timedelta(days=7)
    (tmp_path / "shop.py").write_text(APP)
    env = {**surroundings(url, tmp_path), "GANDY_RETENTION_PIECE_BYTES": "1048576"}
    with closing(psycopg.connect(url, autocommit=True)) as link:

        def state() -> tuple[int, ...]:
            attached = link.execute(LEAVES, [[f"{parent}_{day:%Y%m%d}_1" for parent in ("log", "history")]])
            opened = link.execute("SELECT count(*) FROM gandy.history_piece WHERE piece = 1")
            return (*(attached.fetchone() or ()), *(opened.fetchone() or ()))

        link.execute(LARGE, [day])
        link.execute(STUCK_ATTACHING)
        process = subprocess.Popen(cycle(), env=env)
        [attaching] = wait_until(lambda: link.execute(ATTACHING).fetchall(), "a partition is being attached")
        process.kill()
        process.wait()
        link.execute("SELECT pg_terminate_backend(%s, 10000)", attaching)
        link.execute("DROP EVENT TRIGGER stuck")
        assert state() == (0, 0, 0), "it was one transaction"

        subprocess.run(cycle(), env=env, check=True, capture_output=True)
        assert state() == (2, 2, 0), "it was created"
        subprocess.run(cycle(), env=env, check=True, capture_output=True)
        assert state() == (2, 2, 1), "it was opened"


def cycle() -> list[str]:
    return [sys.executable, "-m", "gandy", "--app", "shop:app", "tick", "lifecycle"]


def surroundings(url: str, folder: Path) -> dict[str, str]:
    return {**os.environ, "GANDY_DATABASE_URL": url, "PYTHONPATH": str(folder)}
