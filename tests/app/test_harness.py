"""The harness that is shipped to users."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from gandy import Gandy, every
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


async def test_the_application_has_its_own_database_again_afterwards(tmp_path: Path) -> None:
    usual = f"sqlite:///{tmp_path / 'own.db'}"
    app = Gandy("shop", usual)

    async with Harness(app, now=NOW):
        assert app.loaded_settings.settings.database.url != usual

    assert app.loaded_settings.settings.database.url == usual
