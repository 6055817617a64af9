"""A server that is killed between detaching a day and dropping it: the next one brings it to its end."""

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


def cycle() -> list[str]:
    return [sys.executable, "-m", "gandy", "--app", "shop:app", "tick", "lifecycle"]


def surroundings(url: str, folder: Path) -> dict[str, str]:
    return {**os.environ, "GANDY_DATABASE_URL": url, "PYTHONPATH": str(folder)}
