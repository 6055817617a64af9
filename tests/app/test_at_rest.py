"""What an idle process asks of its database, and how many connections it holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from gandy import Gandy
from gandy.loops.wakeups import Wakeups
from gandy.scheduler.service import ManifestManagerService
from gandy.settings import Settings
from gandy.store.drivers import postgres_pool
from gandy.store.drivers.opening import migrate
from gandy.store.drivers.postgres_pool import ConnectionPool
from gandy.upkeep.service import dead_letter_cleanup, metadata_cleanup, table_maintenance
from gandy.work.dispatcher import DispatcherService
from gandy.work.worker import Worker
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from datetime import timedelta

MOST_CONNECTIONS = 5
MOST_TRANSACTIONS = 2.0  # in a second

CONNECTIONS = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND application_name LIKE 'gandy%' AND pid <> pg_backend_pid()
"""


async def send() -> None:
    """Do nothing."""


def compute() -> None:
    """Do nothing."""


def make_app(url: str) -> Gandy:
    app = Gandy("idle", url)
    app.train(send)
    app.train(process=True)(compute)
    return app


@pytest.fixture
def url(postgres_url: str) -> str:
    migrate(postgres_url)
    return postgres_url


async def test_an_idle_process_makes_few_transactions(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What each loop asks in a cycle, at the shortest pause that its defaults allow while nothing happens."""
    count = 0
    take = ConnectionPool._take

    async def counting(self: ConnectionPool, *arguments: Any, **keywords: Any) -> Any:  # noqa: ANN401
        nonlocal count
        count += 1
        return await take(self, *arguments, **keywords)

    monkeypatch.setattr(ConnectionPool, "_take", counting)
    app = make_app(url)
    async with app:
        context = app._require("a test").context
        wakeups = Wakeups(context.database, context.owner)
        lookout = Worker(context, wakeups)._lookout
        dispatcher = DispatcherService(context, wakeups)
        upkeep = [make(context) for make in (metadata_cleanup, dead_letter_cleanup, table_maintenance)]
        defaults = Settings()
        worker = defaults.worker

        async def asked(cycle: Callable[[], Awaitable[object]]) -> int:
            """Count the transactions of a cycle that finds nothing: the second, the first may have work."""
            await cycle()
            before = count
            await cycle()
            return count - before

        cycles: list[tuple[Callable[[], Awaitable[object]], timedelta]] = [
            (lookout.look, worker.poll_every),
            (dispatcher._cycle, defaults.dispatcher.poll_every),
            (ManifestManagerService(context, wakeups)._cycle, worker.lease_for - 2 * worker.heartbeat_every),
            (upkeep[0]._cycle, defaults.cleanup.interval),
            (upkeep[1]._cycle, defaults.retention.interval),
            (upkeep[2]._cycle, defaults.retention.interval),
        ]
        rates = [await asked(cycle) / every.total_seconds() for cycle, every in cycles]

    own_connections = 1 / worker.heartbeat_every.total_seconds() + 1 / (
        defaults.database.listen_check_every.total_seconds()
    )
    assert sum(rates) + own_connections <= MOST_TRANSACTIONS, rates


async def test_an_idle_process_holds_few_connections(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_pool, "KEPT_SECONDS", 0.5)

    async with (
        make_app(url).running(["manifest-manager", "dispatcher", "worker", "metadata-cleanup", "lifecycle"]),
        await psycopg.AsyncConnection.connect(url, autocommit=True) as watcher,
    ):

        async def are_few() -> bool:
            rows = await (await watcher.execute(CONNECTIONS)).fetchall()
            return bool(3 <= rows[0][0] <= MOST_CONNECTIONS)  # with those of the lease and the listener

        await eventually(are_few, "the connections of the start are closed")


async def test_a_dispatcher_leaves_the_look_to_the_worker_of_its_process_while_nothing_is_ready(
    url: str,
) -> None:
    app = make_app(url)
    async with app:
        context = app._require("a test").context
        wakeups = Wakeups(context.database, context.owner)
        lookout, dispatcher = Worker(context, wakeups)._lookout, DispatcherService(context, wakeups)
        await dispatcher._cycle()
        looked_at = dispatcher._looked_at

        await lookout.look()
        await dispatcher._cycle()
        assert dispatcher._looked_at == looked_at

        await app.enqueue(send)
        await lookout.look()
        await dispatcher._cycle()
        assert dispatcher._looked_at > looked_at
