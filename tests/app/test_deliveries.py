"""Runs that another engine is given: many at once, none behind another, and none lost with its process."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest

from gandy.desk.runs import RunInsights
from gandy.errors import DatabaseUnreachableError
from gandy.model.owners import ALL_OWNERS
from gandy.store.reading.listings import RunFilter
from tests.app.delivering import Elsewhere, hang, make_app
from tests.app.shop import double
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable

    from gandy import Delivery, Gandy
    from gandy.desk.runs import RunSummary
    from gandy.store.drivers.database import Database

Whatever: TypeAlias = Any
ROOT = Path(__file__).resolve().parents[2]
MANY = 200
LEASE_SECONDS = 1.0
SERVICES = ("manifest-manager", "dispatcher")


def make_shop(url: str, submitter: Elsewhere) -> Gandy:
    app = make_app(url)
    app.train(double)
    app.submit_to(submitter)
    return app


async def until(condition: Callable[[], object], what: str, *, within: float = 20.0) -> None:
    async def holds() -> object:
        return condition()

    await eventually(holds, what, within=within)


class Slow(Elsewhere):
    """Ends no delivery before so many go on, and one of them never."""

    def __init__(self, at_once: int) -> None:
        super().__init__()
        self.at_once = at_once
        self.going = 0
        self.enough = asyncio.Event()
        self.hangs: int | None = None

    async def submit(self, delivery: Delivery) -> None:
        self.going += 1
        if self.hangs is None:
            self.hangs = delivery.run_id
        if self.going >= self.at_once:
            self.enough.set()
        await self.enough.wait()
        if delivery.run_id == self.hangs:
            await asyncio.Event().wait()
        self.going -= 1
        await super().submit(delivery)


async def test_many_deliveries_go_on_at_once_without_a_cap_and_none_waits_for_one_that_hangs(
    migrated_url: str,
) -> None:
    slow = Slow(at_once=10)
    app = make_shop(migrated_url, slow)
    async with app:
        await app.enqueue_many(double, list(range(MANY)))
        async with app.running(services=("dispatcher",)):
            await until(slow.enough.is_set, "several deliveries go on at once")
            await until(lambda: len(slow.delivered) == MANY - 1, "all others are delivered")
            await app.enqueue(double, 7)
            await until(lambda: len(slow.delivered) == MANY, "one that came later is delivered as well")
        assert len({delivery.run_id for delivery in slow.delivered}) == MANY, "each was delivered once"


async def test_without_a_worker_no_cap_of_slots_holds_runs_back_from_a_submitter(migrated_url: str) -> None:
    elsewhere = Elsewhere()
    app = make_shop(migrated_url, elsewhere)
    async with app:
        await app.enqueue_many(double, list(range(50)))
        await app.tick("dispatcher")
        assert len(elsewhere.delivered) == 50


class UnprintableError(Exception):
    def __str__(self) -> str:
        raise KeyboardInterrupt


RAISED = (KeyboardInterrupt(), SystemExit(1), asyncio.CancelledError(), GeneratorExit(), UnprintableError())


@pytest.mark.parametrize("raised", RAISED, ids=lambda error: type(error).__name__)
async def test_whatever_a_delivery_raises_the_others_go_on_and_no_run_fails(
    migrated_url: str, raised: BaseException
) -> None:
    class Broken(Elsewhere):
        async def submit(self, delivery: Delivery) -> None:
            if delivery.run_id == bad.id:
                raise raised
            await super().submit(delivery)

    broken = Broken()
    app = make_shop(migrated_url, broken)
    async with app:
        bad, *_ = await app.enqueue_many(double, [1, 2, 3])
        await app.tick("dispatcher")
        assert len(broken.delivered) == 2
        detail = await RunInsights(app.database, ALL_OWNERS).show(bad.id)
        assert (detail.state, detail.failure_exception) == ("pending", None)


async def runs_of(app: Gandy, train: str) -> tuple[RunSummary, ...]:
    found = await RunInsights(app.database, ALL_OWNERS).list(RunFilter())
    return tuple(run for run in found if run.train == train)


async def test_the_runs_of_an_engine_that_is_killed_are_given_back_within_seconds(
    migrated_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BEGUN", str(tmp_path))
    elsewhere = Elsewhere()
    app = make_app(migrated_url)
    app.submit_to(elsewhere)
    async with app.running(services=SERVICES):
        job = await app.enqueue(hang, "delivered")
        await until(lambda: elsewhere.delivered, "the run is delivered")
        engine = subprocess.Popen(  # noqa: ASYNC220 it only has to be started
            [sys.executable, "-m", "tests.app.delivering", migrated_url, str(job.id)],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        try:
            begun = [tmp_path / "delivered", tmp_path / "started-here"]
            await until(lambda: all(each.exists() for each in begun), "both have begun", within=30.0)
        finally:
            os.kill(engine.pid, signal.SIGKILL)
            engine.wait()

        async def are_ended() -> bool:
            runs = await runs_of(app, "hang")
            return sum(run.state == "failed" for run in runs) == 2

        await eventually(are_ended, "their runs are ended", within=3 * 3 * LEASE_SECONDS)
        await until(lambda: len(elsewhere.delivered) == 2, "the delivered one is delivered again")
        assert [delivery.attempt for delivery in elsewhere.delivered] == [1, 2]
        await app.tick("dispatcher")
        assert len(elsewhere.delivered) == 2, "one that a caller had started is the caller's to repeat"


class LosesAnswers:
    """A database whose answer to the next claim is lost after it was committed."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.lost = 0

    async def run(self, operation: Whatever) -> Whatever:
        answer = await self._database.run(operation)
        if operation.__name__ == "_held" and not self.lost:
            self.lost += 1
            raise DatabaseUnreachableError("the database", "its answer was lost")
        return answer

    def __getattr__(self, name: str) -> Whatever:
        return getattr(self._database, name)


async def test_a_delivered_run_whose_claim_was_never_answered_is_delivered_again(migrated_url: str) -> None:
    elsewhere = Elsewhere()
    app = make_shop(migrated_url, elsewhere)
    async with app.running(services=("dispatcher",)):
        job = await app.enqueue(double, 21)
        await until(lambda: elsewhere.delivered, "the run is delivered")
        open_app: Whatever = app._require("a test")
        open_app.runs._context = replace(open_app.context, database=LosesAnswers(app.database))
        with pytest.raises(DatabaseUnreachableError):
            await app.run_delivered(job.id)
        await until(lambda: len(elsewhere.delivered) == 2, "it is delivered again", within=9 * LEASE_SECONDS)
        assert elsewhere.delivered[-1].attempt == 1, "which counts as no attempt"
        assert await app.run_delivered(job.id)
        assert await job.result(timeout=10) == 42
