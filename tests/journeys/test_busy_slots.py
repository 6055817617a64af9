"""While the queue has work, slots are busy and places under a cap are filled at once."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.journeys.apps.paced import Pace, app, pace, pace_in_thread
from tests.journeys.processes import fleet
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.journeys.processes import Fleet

#: Of the places, on average. A busy machine reached 0.67 or more; a worker that polls between two jobs 0.15.
#: The benchmark `shapes` asks for more.
LEAST_SHARE = 0.25
ALL = 1.001  # more would be above the cap
BACKLOG = 600
#: How many jobs of the backlog a slot may begin before the small group is through: 1.5 s of them.
MEANWHILE = 30
#: Polls are left as they are by default: a rate that depends on one must show.
UNSCALED = {
    "GANDY_WORKER_POLL_EVERY": "2s",
    "GANDY_DISPATCHER_POLL_EVERY": "2s",
    "GANDY_MANIFEST_MANAGER_POLL_EVERY": "5s",
}

pytestmark = [pytest.mark.timeout(180), pytest.mark.xdist_group("busy-slots")]


class Work(NamedTuple):
    """Jobs of one length, and how many of them can run at once."""

    jobs: int
    milliseconds: float
    places: int
    group: str | None = None
    in_threads: bool = False


ONE_SLOT = [Work(60, 20, places=1), Work(20, 50, places=1, in_threads=True)]
FOUR_SLOTS = [
    Work(100, 20, places=4),
    Work(60, 10, places=1, group="one"),
    Work(120, 10, places=3, group="three"),
    Work(90, 15, places=3, group="three", in_threads=True),
]
GLOBAL_CAP = [Work(60, 20, places=2)]


def share_of_places(ships: Fleet, url: str, work: Work, *, first: int) -> float:
    """Queue the jobs, wait until they have ended, and tell which share of the places they took meanwhile.

    The jobs' own marks tell, so that a machine with other work, where each job takes longer, changes little.
    """
    numbers = range(first, first + work.jobs)
    app.configure({"database": {"url": url}})
    jobs = [Pace(number=number, milliseconds=work.milliseconds) for number in numbers]
    with app as sync:
        if work.in_threads:
            sync.enqueue_many(pace_in_thread, jobs, group=work.group)
        else:
            sync.enqueue_many(pace, jobs, group=work.group)
    wait_until(
        lambda: ended(ships) >= first + work.jobs, f"all jobs of {work} end\n{ships.logs()}", within=60
    )
    begun, over = instants(ships, "begin", first), instants(ships, "end", first)
    return (sum(over) - sum(begun)) / work.places / (max(over) - min(begun))


def warm_up(ships: Fleet, url: str) -> int:
    """Wait until the groups are known and the processes work, and return the number of the next job."""
    app.configure({"database": {"url": url}})
    asyncio.run(seed())
    with app as sync:
        sync.enqueue(pace, Pace(number=0, milliseconds=1))
    wait_until(lambda: ended(ships) == 1, f"the processes work\n{ships.logs()}", within=60)
    return 1


async def seed() -> None:
    """Store the groups with their caps, of which no worker knows before."""
    async with app:
        await app.seed()


def ended(ships: Fleet) -> int:
    """How many jobs have come to their end."""
    return len(ships.witnessed("end"))


def instants(ships: Fleet, word: str, first: int) -> list[float]:
    """When the jobs from a number on began or ended."""
    return [float(line.split()[2]) for line in ships.witnessed(word) if int(line.split()[1]) >= first]


@pytest.mark.parametrize(
    ("slots", "settings", "works"),
    [
        pytest.param(1, {}, ONE_SLOT, id="one slot"),
        pytest.param(4, {}, FOUR_SLOTS, id="four slots and caps of a group"),
        pytest.param(8, {"GANDY_DISPATCHER_MAX_ACTIVE_JOBS": "2"}, GLOBAL_CAP, id="a cap of all runs"),
        pytest.param(4, {"GANDY_WORKER_PREFETCH": "0"}, FOUR_SLOTS[:1], id="nothing claimed in advance"),
    ],
)
def test_slots_are_busy_while_the_queue_has_work(
    slots: int, settings: dict[str, str], works: list[Work], migrated_url: str, tmp_path: Path
) -> None:
    with fleet(migrated_url, tmp_path, **UNSCALED, **settings) as ships:
        ships.app = "tests.journeys.apps.paced:app"
        ships.start("up", "--concurrency", str(slots), "--port", "0")
        shares, first = {}, warm_up(ships, migrated_url)
        for work in works:
            shares[work] = share_of_places(ships, migrated_url, work, first=first)
            first += work.jobs

    assert {work: share for work, share in shares.items() if not LEAST_SHARE < share <= ALL} == {}


def test_a_place_under_a_cap_is_filled_by_whichever_server_can(migrated_url: str, tmp_path: Path) -> None:
    with fleet(migrated_url, tmp_path, **UNSCALED) as ships:
        ships.app = "tests.journeys.apps.paced:app"
        ships.start("up", "--concurrency", "4", "--port", "0")
        for _ in range(2):
            ships.start("work", "--concurrency", "4")
        work = Work(120, 10, places=3, group="three")
        first = warm_up(ships, migrated_url)

        assert LEAST_SHARE < share_of_places(ships, migrated_url, work, first=first) <= ALL


@pytest.mark.parametrize("slots", [1, 4])
def test_a_small_group_starts_beside_a_backlog_of_another(
    slots: int, migrated_url: str, tmp_path: Path
) -> None:
    with fleet(migrated_url, tmp_path) as ships:
        ships.app = "tests.journeys.apps.paced:app"
        app.configure({"database": {"url": migrated_url}})
        with app as sync:
            sync.enqueue_many(pace, [Pace(number=n, milliseconds=50) for n in range(BACKLOG)])
            ships.start("up", "--concurrency", str(slots), "--port", "0")
            wait_until(lambda: ended(ships) >= slots, f"the backlog is worked off\n{ships.logs()}")
            small = [Pace(number=BACKLOG + n, milliseconds=5) for n in range(5)]
            sync.enqueue_many(pace, small, group="small")
            before = len(ships.witnessed("begin"))
        wait_until(
            lambda: len(instants(ships, "end", BACKLOG)) == len(small),
            f"the small group has had its turn\n{ships.logs()}",
            within=60,
        )
        last = max(instants(ships, "end", BACKLOG))
        meanwhile = sum(begun < last for begun in instants(ships, "begin", 0)) - before

    assert meanwhile < 3 * slots * MEANWHILE, "the backlog had most of the turns"
