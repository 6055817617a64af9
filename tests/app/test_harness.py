"""The harness that is shipped to users."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

from gandy import Gandy, GandyError, every
from gandy.errors import AppAlreadyOpenError, DatabaseInUseError
from gandy.store.clocks import read_mark
from gandy.store.drivers.opening import schema_state
from gandy.testing import Harness

if TYPE_CHECKING:
    from pathlib import Path

    from gandy.train.hooks import HookEvent

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


async def test_a_schedule_runs_when_its_time_comes_and_only_then() -> None:
    ran: list[datetime] = []
    app = Gandy("shop")

    @app.train
    async def count() -> None:
        ran.append(harness.clock.now)

    app.schedule("count", count, every(hours=1))
    async with Harness(app, now=NOW) as harness:
        await harness.tick("manifest-manager")
        await harness.run_until_idle()
        assert ran == [NOW], "a new interval is due at once"

        harness.clock.advance(timedelta(minutes=59))
        await harness.tick("manifest-manager")
        await harness.run_until_idle()
        assert ran == [NOW]

        harness.clock.advance(timedelta(minutes=1))
        await harness.tick("manifest-manager")
        await harness.run_until_idle()
        assert ran == [NOW, NOW + timedelta(hours=1)]


async def test_a_job_that_fails_for_good_is_parked_and_counted() -> None:
    app = Gandy("shop")

    @app.train(max_retries=1)
    async def fail(name: str) -> None:
        raise ValueError(name)

    async with Harness(app, now=NOW) as harness:
        await app.enqueue(fail, "x")
        assert await harness.run_until_idle() == 1


async def test_a_dispatcher_tick_makes_a_pending_run_that_a_worker_then_takes() -> None:
    app = Gandy("shop")

    @app.train
    async def greet(name: str) -> str:
        return f"hello {name}"

    async with Harness(app, now=NOW) as harness:
        job = await app.enqueue(greet, "world")
        assert (await harness.tick("dispatcher"))["runs"] == [job.id]
        await harness.run_until_idle()
        assert await job.result(timeout=5) == "hello world"


async def test_the_result_of_a_job_is_that_of_the_attempt_that_succeeds() -> None:
    app = Gandy("shop")
    asked: list[int] = []

    @app.train(retry_delay=timedelta(minutes=1))
    async def second_time_lucky(name: str) -> str:
        asked.append(len(asked))
        if len(asked) == 1:
            raise ConnectionError("not yet")
        return f"hello {name}"

    async with Harness(app, now=NOW) as harness:
        job = await app.enqueue(second_time_lucky, "world")
        await harness.run_until_idle()
        assert len(asked) == 1
        harness.clock.advance(timedelta(minutes=2))
        await harness.run_until_idle()
        assert await job.result(timeout=5) == "hello world"


async def test_a_manifest_that_is_parked_calls_the_hook_for_alerts_once() -> None:
    app = Gandy("shop")
    alerts: list[tuple[str | None, str | None]] = []

    @app.train
    async def fail() -> None:
        raise ValueError("broken")

    @app.on("dead_lettered")
    async def alert(event: HookEvent) -> None:
        alerts.append((event.manifest, event.reason))

    app.schedule("nightly", fail, every(hours=1), max_retries=1)
    async with Harness(app, now=NOW) as harness:
        await harness.tick("manifest-manager")
        await harness.run_until_idle()
        await harness.tick("manifest-manager")
        await harness.tick("manifest-manager")
        assert [manifest for manifest, _ in alerts] == ["nightly"]
        assert "broken" in str(alerts[0][1])


@pytest.fixture
def shop(tmp_path: Path) -> Gandy:
    """An application with a database of its own."""
    app = Gandy("shop", f"sqlite:///{tmp_path / 'own.db'}")
    app.train(double)
    return app


async def double(number: int) -> int:
    return 2 * number


async def test_the_application_is_as_it_was_afterwards(shop: Gandy) -> None:
    shop.configure({"worker": {"slots": 7}})
    before = shop.loaded_settings

    async with Harness(shop, now=NOW):
        shop.configure({"worker": {"slots": 1}})
        await shop.enqueue(double, 1)

    assert shop.loaded_settings is before
    async with shop:
        assert (await shop.enqueue(double, 2)).id == 1, "its own database had no job yet"
        shop_time = await shop.database.read(read_mark())
        assert shop_time.now > NOW + timedelta(days=1), "the test's clock is gone"


async def test_the_application_is_as_it_was_when_the_test_fails(shop: Gandy) -> None:
    before = shop.loaded_settings
    with pytest.raises(AssertionError, match="as intended"):
        async with Harness(shop, now=NOW):
            raise AssertionError("as intended")

    assert shop.loaded_settings is before
    shop.schedule("later", double, 1, every(hours=1))


async def test_the_application_is_as_it_was_when_the_harness_does_not_open(
    shop: Gandy, tmp_path: Path
) -> None:
    before = shop.loaded_settings
    with pytest.raises(GandyError):
        async with Harness(shop, now=NOW, database=f"sqlite:///{tmp_path}"):
            raise AssertionError("never reached")

    assert shop.loaded_settings is before


async def test_any_empty_database_will_do_and_is_empty_again(database_url: str, shop: Gandy) -> None:
    for _ in range(2):
        async with Harness(shop, now=NOW, database=database_url) as harness:
            job = await shop.enqueue(double, 21)
            await harness.run_until_idle()
            assert await job.result(timeout=5) == 42
            assert shop.database.dialect == ("sqlite" if "sqlite" in database_url else "postgres")
        assert schema_state(database_url).version == 0


async def test_tables_that_were_there_before_stay(migrated_url: str, shop: Gandy) -> None:
    before = schema_state(migrated_url)
    async with Harness(shop, now=NOW, database=migrated_url):
        pass

    assert schema_state(migrated_url) == before


async def test_a_database_with_jobs_is_refused(migrated_url: str, shop: Gandy) -> None:
    shop.configure({"database": {"url": migrated_url}})
    async with shop:
        await shop.enqueue(double, 1)

    with pytest.raises(DatabaseInUseError, match="jobs of shop"):
        async with Harness(shop, now=NOW, database=migrated_url):
            raise AssertionError("never reached")


async def test_an_open_application_is_refused(shop: Gandy) -> None:
    async with shop:
        with pytest.raises(AppAlreadyOpenError, match="open the harness first"):
            async with Harness(shop, now=NOW):
                raise AssertionError("never reached")
        assert (await shop.enqueue(double, 1)).id == 1, "it is still open on its own database"


async def test_a_web_application_opens_inside_the_harness(shop: Gandy) -> None:
    async with Harness(shop, now=NOW) as harness, shop.lifespan():
        job = await shop.enqueue(double, 4)
        await harness.run_until_idle()
        assert await job.result(timeout=5) == 8


async def test_the_sync_face_uses_the_database_of_the_test_and_its_own_again(shop: Gandy) -> None:
    assert shop.sync.enqueue(double, 1).id == 1
    async with Harness(shop, now=NOW) as harness:
        job = shop.sync.enqueue(double, 2)
        assert job.id == 1, "an empty database"
        await harness.run_until_idle()
        assert job.result(timeout=5) == 4
    assert shop.sync.enqueue(double, 3).id == 2
    shop.sync.close()


async def test_an_endpoint_with_a_transaction_of_its_own_is_tested(postgres_url: str, shop: Gandy) -> None:
    """The endpoint has an engine of its own, with asyncpg below it."""
    engine = create_async_engine(postgres_url.replace("postgresql://", "postgresql+asyncpg://"))

    async def place_order(number: int) -> None:
        async with AsyncSession(engine) as session, session.begin():
            await session.execute(text("INSERT INTO orders VALUES (:number)"), {"number": number})
            await shop.enqueue(double, number, connection=session)
            if number < 0:
                raise ValueError(number)

    async with engine.begin() as connection:
        await connection.execute(text("CREATE TABLE orders (number int)"))
    async with Harness(shop, now=NOW, database=postgres_url) as harness:
        await place_order(3)
        with pytest.raises(ValueError, match="-4"):
            await place_order(-4)
        assert (await harness.tick("dispatcher"))["dispatched"] == 1
        await harness.run_until_idle()
    async with engine.connect() as connection:
        assert (await connection.execute(text("SELECT number FROM orders"))).all() == [(3,)]
    await engine.dispose()
