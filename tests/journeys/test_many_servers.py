"""Several servers evaluate the same manifests at once, with the advisory lock switched off."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from contextlib import ExitStack
from datetime import timedelta
from time import monotonic
from typing import TYPE_CHECKING, Self

import pytest

from gandy.model.schedule import Cron
from gandy.store.drivers.opening import migrate
from tests.support.world import START, manifest, open_world

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from tests.support.databases import DatabaseHome
    from tests.support.world import World

MANIFESTS = 2_000
STEPS = 3
#: Set in the long form: go on for a full minute.
SECONDS = float(os.environ.get("GANDY_TEST_JOURNEY_SECONDS", "0"))


class Server:
    """A process that evaluates when it is told an instant."""

    def __init__(self, url: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.journeys.ticking", url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._process.kill()
        self._process.communicate()

    def tell(self, instant: datetime) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{instant.isoformat()}\n")
        self._process.stdin.flush()

    def answer(self) -> Counter[str]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the server has died"
        said = json.loads(line)
        return Counter(said) if isinstance(said, dict) else Counter()


@pytest.fixture
def servers_home(request: pytest.FixtureRequest) -> DatabaseHome:
    home: DatabaseHome = request.getfixturevalue(request.param)
    return home


@pytest.fixture
def seeded_url(servers_home: DatabaseHome) -> Iterator[str]:
    with servers_home.database() as url:
        migrate(url)
        yield url


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("servers_home", "servers"),
    [("postgres_server", 2), ("postgres_server", 4), ("sqlite_home", 2)],
    indirect=["servers_home"],
)
async def test_no_occurrence_is_queued_twice_and_none_is_missing(seeded_url: str, servers: int) -> None:
    world = await open_world(seeded_url)
    await world.seed(
        *(manifest(f"m-{n:04}", schedule=Cron("* * * * *"), group=f"g-{n % 7}") for n in range(MANIFESTS))
    )
    done: Counter[str] = Counter()
    with ExitStack() as stack:
        crowd = [stack.enter_context(Server(seeded_url)) for _ in range(servers)]
        for server in crowd:
            server.answer()
        steps = 0
        for instant in instants():
            for server in crowd:
                server.tell(instant)
            for server in crowd:
                done += server.answer()
            steps += 1
            assert_each_once(world, instant, steps)
            end_all(world)
    await world.database.close()

    assert steps >= STEPS
    assert done["queued"] == MANIFESTS * steps
    assert done["errors"] == 0
    assert done["cycles"] >= servers * steps


def end_all(world: World) -> None:
    """Let every entry become a run that has ended: no row is left that keeps its instant from another."""
    bucket, value = ("bucket, ", "'-infinity', ") if world.database.supports_partitions else ("", "")
    world.rows(
        f"INSERT INTO history ({bucket}id, owner, name, origin, train_state, manifest_id, due_at, "  # noqa: S608
        f"created_at, start_time, end_time, keep_until) SELECT {value}id, owner, train_name, origin, "
        "'completed', manifest_id, due_at, due_at, due_at, due_at, due_at FROM work_queue"
    )
    world.rows("DELETE FROM work_queue")


def instants() -> Iterator[datetime]:
    """The minutes that the servers are told: three, or for as long as the long form lasts."""
    begun, minute = monotonic(), 0
    while minute < STEPS or monotonic() - begun < SECONDS:
        minute += 1
        yield START + timedelta(minutes=minute)


def assert_each_once(world: World, instant: datetime, steps: int) -> None:
    """Every manifest has exactly one entry for every instant so far, and no other verdict."""
    rows = world.rows(
        "SELECT due_at, status, count(*) AS n, count(DISTINCT manifest_id) AS m FROM ("
        "SELECT due_at, status, manifest_id FROM work_queue UNION ALL "
        "SELECT due_at, 'dispatched', manifest_id FROM history WHERE manifest_id IS NOT NULL) e "
        "GROUP BY due_at, status ORDER BY due_at"
    )
    assert [(row["n"], row["m"]) for row in rows] == [(MANIFESTS, MANIFESTS)] * steps
    assert [row["status"] for row in rows] == ["dispatched"] * (steps - 1) + ["queued"]
    assert world.instant(rows[-1]["due_at"]) == instant
