"""What a claim reads follows what it takes, whatever else waits in the same queue.

Nothing here names a statement: a worker works a few entries off beside very many that it must not read, and
the database itself tells what was read (PostgreSQL: its statistics, SQLite: the steps of its machine).
"""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

import psycopg
import pytest

from gandy import Gandy
from gandy.store.drivers.opening import migrate
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from tests.support.databases import SqliteHome
    from tests.support.postgres import PostgresServer

MANY: Final = 10_000
FEW: Final = 50
STEPS: Final = 1_000
MEASUREMENTS: Final = 3
#: A row that is read costs SQLite's machine more steps than this.
STEPS_OF_A_ROW: Final = 4
READ_ROWS: Final = b"""
SELECT (SELECT coalesce(sum(seq_tup_read), 0) FROM pg_stat_user_tables WHERE relname LIKE 'work_queue%')
     + (SELECT coalesce(sum(idx_tup_read), 0) FROM pg_stat_user_indexes WHERE relname LIKE 'work_queue%')
"""
#: A connection hands over all that it counted at once, so what it wrote tells that what it read is there.
WRITTEN_ROWS: Final = b"""
SELECT coalesce(sum(n_tup_upd + n_tup_del), 0) FROM pg_stat_user_tables WHERE relname LIKE 'work_queue%'
"""


class Shop:
    """Two servers of one application: the second knows a train that the first does not."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.sold = 0
        self.block = asyncio.Event()
        self.is_counted = asyncio.Event()
        self.first, self.second = Gandy("shop", database=url), Gandy("shop", database=url)
        for server in (self.first, self.second):
            server.group("off", enabled=False)
            server.group("full", max_active_jobs=1)
            server.train(self.sell)
        self.second.train(self.pack)
        self.second.configure({"worker": {"slots": 1, "prefetch": 1}})

    async def sell(self, number: int) -> None:
        """Be quick, but for the one that is told to wait."""
        if number < 0:
            await self.block.wait()
        self.sold += 1

    async def pack(self, number: int) -> None:  # noqa: ARG002 it waits
        """Keep the second server's only slot, as long as reads are counted."""
        await self.is_counted.wait()

    @asynccontextmanager
    async def second_working(self) -> AsyncIterator[None]:
        """Run the second server; in the end nothing waits any more."""
        async with self.second.running(services=("worker",)):
            yield
            self.is_counted.set()

    async def work_few_off(self) -> None:
        """Let the first server work a few entries off."""
        async with self.first as app:
            await app.enqueue_many(self.sell, range(FEW))
            stop = asyncio.Event()
            working = asyncio.create_task(app.work(stop))
            await eventually(self._has_sold, "the few are worked off")
            self.block.set()
            stop.set()
            await working

    async def _has_sold(self) -> bool:
        return self.sold >= FEW


async def wait_behind_nothing(_: Shop) -> None:
    """Have an empty queue."""


async def wait_behind_trains_of_another_server(shop: Shop) -> None:
    """Queue entries in the same group that only the other live worker knows."""
    await shop.second.enqueue_many(shop.pack, range(MANY))


async def wait_behind_a_disabled_group(shop: Shop) -> None:
    """Queue entries of a group that is switched off."""
    await shop.second.enqueue_many(shop.sell, range(MANY), group="off")


async def wait_behind_a_full_group(shop: Shop) -> None:
    """Queue entries of a group whose one place is taken."""
    await shop.second.enqueue(shop.sell, -1, group="full")
    await shop.second.enqueue_many(shop.sell, range(MANY), group="full")


CROWDS: Final = [
    wait_behind_trains_of_another_server,
    wait_behind_a_disabled_group,
    wait_behind_a_full_group,
]


async def rows_read(url: str, crowd: Callable[[Shop], Any]) -> int:
    """Work a few entries off beside a crowd, and ask PostgreSQL what was read of the queue meanwhile."""
    shop = Shop(url)
    async with AsyncExitStack() as stack:
        await _crowded(shop, crowd, stack)
        read, written = _statistic(url, READ_ROWS), _statistic(url, WRITTEN_ROWS)
        await shop.work_few_off()

        async def is_told() -> bool:
            return _statistic(url, WRITTEN_ROWS) >= written + FEW

        await eventually(is_told, "the statistics of the claims are there")
        return _statistic(url, READ_ROWS) - read


async def _crowded(shop: Shop, crowd: Callable[[Shop], Any], stack: AsyncExitStack) -> None:
    async with shop.second:
        await shop.second.seed()
        await crowd(shop)
    _analyse(shop.url)
    if crowd is wait_behind_trains_of_another_server:
        await stack.enter_async_context(shop.second_working())


def _statistic(url: str, query: bytes) -> int:
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(query).fetchone()
        assert row is not None
        return int(row[0])


def _analyse(url: str) -> None:
    """Let plans be made for what is there."""
    if url.startswith("sqlite"):
        return
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(b"ANALYZE gandy.work_queue")


@pytest.mark.parametrize("crowd", CROWDS)
async def test_a_claim_on_postgresql_reads_what_it_takes(
    crowd: Callable[[Shop], Any], postgres_migrated_url: str
) -> None:
    read = await rows_read(postgres_migrated_url, crowd)

    assert read < 20 * FEW + MANY // 20, f"{read} rows of the queue were read to take {FEW}"


@pytest.mark.parametrize("crowd", CROWDS)
async def test_a_claim_on_sqlite_reads_what_it_takes(
    crowd: Callable[[Shop], Any], new_file: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The polls of the second server count, too, and are more on a busy machine: the least count tells."""
    counted = _count_steps(monkeypatch)
    alone = await _steps(new_file(), wait_behind_nothing, counted)
    most = alone + MANY * STEPS_OF_A_ROW
    crowded: list[int] = []
    while len(crowded) < MEASUREMENTS and min(crowded, default=most) >= most:
        crowded.append(await _steps(new_file(), crowd, counted))

    assert min(crowded) < most, f"{crowded} steps beside {MANY} entries, {alone} without"


async def _steps(url: str, crowd: Callable[[Shop], Any], counted: list[None]) -> int:
    shop = Shop(url)
    async with AsyncExitStack() as stack:
        await _crowded(shop, crowd, stack)
        counted.clear()
        await shop.work_few_off()
    return len(counted) * STEPS


def _count_steps(monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """Count a thousand steps of any connection as one."""
    counted: list[None] = []
    connect = sqlite3.connect

    def counting(*arguments: Any, **options: Any) -> sqlite3.Connection:  # noqa: ANN401
        connection: sqlite3.Connection = connect(*arguments, **options)
        connection.set_progress_handler(lambda: counted.append(None), STEPS)
        return connection

    monkeypatch.setattr(sqlite3, "connect", counting)
    return counted


@pytest.fixture
def postgres_migrated_url(postgres_server: PostgresServer) -> Iterator[str]:
    """A migrated database of PostgreSQL."""
    template = postgres_server.template("migrated", lambda url: (migrate(url), None)[1])
    with postgres_server.database(template) as url:
        yield url


@pytest.fixture
def new_file(sqlite_home: SqliteHome) -> Iterator[Callable[[], str]]:
    """Make one migrated file after another."""
    template = sqlite_home.template("migrated", lambda url: (migrate(url), None)[1])
    with ExitStack() as files:
        yield lambda: files.enter_context(sqlite_home.database(template))
