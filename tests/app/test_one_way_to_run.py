"""A worker, app.run and an engine that was given a run begin and end it alike."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeAlias

import psycopg
import pytest
from pydantic import BaseModel, field_serializer, model_validator

from gandy import NO_TIMEOUT, Gandy
from gandy.clock import ManualClock
from gandy.desk.runs import RunDetail, RunInsights
from gandy.errors import DatabaseBusyError, JobFailedError, RowConflictError
from gandy.model.owners import ALL_OWNERS
from gandy.store.reading.listings import RunFilter
from gandy.telemetry.observing import observe
from tests.app.delivering import SCALED, Elsewhere
from tests.app.shop import double
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from typing import Self

    from gandy.store.drivers.database import Database
    from gandy.train.hooks import HookEvent

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
WAITED = 7.0


def make_app(url: str, **settings: dict[str, object]) -> Gandy:
    app = Gandy("shop", url, **{**SCALED, **settings})
    app.train(double)
    return app


AnyTrain: TypeAlias = Any  # the doors take every kind of train
Whatever: TypeAlias = Any

# The doors: each runs one train once and returns when its end is on record.


async def by_worker(app: Gandy, train: AnyTrain, value: object) -> None:
    await app.enqueue(train, value)
    let_pass(app)
    await app.work(asyncio.Event(), until_idle=True)


async def by_delivery(app: Gandy, train: AnyTrain, value: object) -> None:
    job = await app.enqueue(train, value)
    let_pass(app)
    await app.tick("dispatcher")
    await app.run_delivered(job.id)


async def by_caller(app: Gandy, train: AnyTrain, value: object) -> None:
    let_pass(app)
    with suppress(BaseException):
        await app.run(train, value)


Door: TypeAlias = "Callable[[Gandy, Any, object], Awaitable[None]]"
DOORS = pytest.mark.parametrize("door", [by_worker, by_delivery, by_caller], ids=lambda door: door.__name__)


def let_pass(app: Gandy) -> None:
    """What happens between the question and the run: time passes, and the hostile types are armed."""
    Armed.by = Armed.planned
    clock = app._require("a test").context.clock
    if clock is not None:
        clock.advance(timedelta(seconds=WAITED))


async def only_run(app: Gandy) -> RunDetail:
    insights = RunInsights(app.database, ALL_OWNERS)
    found = await insights.list(RunFilter())
    (summary,) = [run for run in found if not run.train.endswith("Train")]
    return await insights.show(summary.id)


@DOORS
async def test_every_run_is_counted_with_its_wait(migrated_url: str, door: Door) -> None:
    app = make_app(migrated_url)
    app.use_clock(ManualClock(NOW))
    app.submit_to(Elsewhere())
    metrics = observe(app.events).metrics.registry
    async with app:
        await door(app, double, 21)
        assert (await only_run(app)).state == "completed"

    count, seconds = (
        metrics.get_sample_value(f"gandy_run_wait_seconds_{what}", {"train": "double"})
        for what in ("count", "sum")
    )
    assert count == 1
    assert seconds is not None
    expected = 0.0 if door is by_caller else WAITED
    assert expected <= seconds < expected + WAITED


class Armed:
    """What the hostile types raise, once the run may begin."""

    planned: BaseException | None = None
    by: BaseException | None = None

    @classmethod
    def go_off(cls) -> None:
        """Raise it."""
        if cls.by is not None:
            raise cls.by


@contextmanager
def armed_with(raised: BaseException) -> Iterator[None]:
    Armed.planned = raised
    try:
        yield
    finally:
        Armed.planned = Armed.by = None


class Touchy(BaseModel):
    number: int = 0

    @model_validator(mode="after")
    def _look(self) -> Self:
        Armed.go_off()
        return self


class Sulky(BaseModel):
    number: int = 0

    @field_serializer("number")
    def _write(self, number: int) -> int:
        Armed.go_off()
        return number


async def take_touchy(touchy: Touchy) -> int:
    return touchy.number


async def give_sulky(number: int) -> Sulky:
    return Sulky(number=number)


class UnprintableError(Exception):
    def __str__(self) -> str:
        raise KeyboardInterrupt


HOSTILE = (KeyboardInterrupt(), SystemExit(3), asyncio.CancelledError(), GeneratorExit(), UnprintableError())


@DOORS
@pytest.mark.parametrize("raised", HOSTILE, ids=lambda error: type(error).__name__)
async def test_an_output_that_raises_anything_fails_its_own_run_and_no_other(
    migrated_url: str, door: Door, raised: BaseException
) -> None:
    app = make_app(migrated_url)
    app.submit_to(Elsewhere())
    app.train(retry=False)(give_sulky)
    async with app:
        with armed_with(raised):
            await door(app, give_sulky, 1)
        assert (await only_run(app)).state == "failed"
        assert await app.run(double, 2) == 4


@pytest.mark.parametrize("door", [by_worker, by_delivery], ids=lambda door: door.__name__)
@pytest.mark.parametrize("raised", HOSTILE, ids=lambda error: type(error).__name__)
async def test_an_input_that_raises_anything_fails_its_own_run_and_no_other(
    migrated_url: str, door: Door, raised: BaseException
) -> None:
    app = make_app(migrated_url)
    app.submit_to(Elsewhere())
    app.train(retry=False)(take_touchy)
    value = Touchy(number=1)
    async with app:
        with armed_with(raised):
            await door(app, take_touchy, value)
        assert (await only_run(app)).state == "failed"
        assert await app.run(double, 2) == 4


@DOORS
async def test_a_started_hook_that_never_ends_holds_back_no_job(migrated_url: str, door: Door) -> None:
    app = make_app(migrated_url, hooks={"timeout": timedelta(milliseconds=100)})
    app.submit_to(Elsewhere())
    told: list[str] = []

    @app.on("started")
    async def hang(event: HookEvent) -> None:
        told.append(event.name)
        await asyncio.Event().wait()

    @app.on("completed")
    def note(event: HookEvent) -> None:
        told.append(event.name)

    async with app:
        await door(app, double, 21)
        assert (await only_run(app)).state == "completed"
    assert told == ["started", "completed"]


async def test_the_worker_and_the_application_share_the_threads(migrated_url: str) -> None:
    app = make_app(migrated_url, worker={"threads": 2, "slots": 8})
    release, inside = threading.Event(), 0
    counting = threading.Lock()

    @app.train
    def block(number: int) -> int:
        nonlocal inside
        with counting:
            inside += 1
        release.wait(20)
        return number

    async def both_threads_taken() -> bool:
        return inside >= 2

    async with app.running(services=("worker",)):
        here = [asyncio.create_task(app.run(block, number)) for number in range(2)]
        await eventually(both_threads_taken, "both threads are taken")
        there = await app.enqueue_many(block, [2, 3, 4])
        marker = await app.enqueue(double, 21)  # it needs no thread, and comes after them
        assert await marker.result(timeout=10) == 42
        try:
            assert inside == 2
        finally:
            release.set()
        assert await asyncio.gather(*here) == [0, 1]
        assert [await job.result(timeout=10) for job in there] == [2, 3, 4]


class Faulty:
    """A database that raises when ends are written, as often as it is told."""

    def __init__(self, database: Database, errors: list[Exception]) -> None:
        self._database = database
        self._errors = errors

    async def run(self, operation: Whatever) -> Whatever:
        if operation.__name__ == "write_ends" and self._errors:
            raise self._errors.pop()
        return await self._database.run(operation)

    def __getattr__(self, name: str) -> Whatever:
        return getattr(self._database, name)


async def test_the_end_of_a_run_outlasts_faults_of_the_database(migrated_url: str) -> None:
    async with make_app(migrated_url) as app:
        open_app: Any = app._require("a test")
        errors: list[Exception] = [DatabaseBusyError("a test says so")] * 2
        open_app.runs._context = replace(open_app.context, database=Faulty(app.database, errors))
        assert await app.run(double, 21) == 42
        assert not errors
        assert (await only_run(app)).state == "completed"


async def test_an_end_that_is_refused_is_written_without_what_was_refused(migrated_url: str) -> None:
    async with make_app(migrated_url) as app:
        open_app: Any = app._require("a test")
        open_app.runs._context = replace(
            open_app.context, database=Faulty(app.database, [RowConflictError("a check", "a value")])
        )
        with pytest.raises(JobFailedError, match="could not be stored"):
            await app.run(double, 21)
        assert (await only_run(app)).state == "failed"


async def test_a_process_that_lost_its_lease_stops_its_runs_and_goes_on_under_another(
    migrated_url: str,
) -> None:
    app = make_app(migrated_url)

    @app.train
    async def wait_for_ever() -> None:
        await asyncio.Event().wait()

    async with app:
        waiting = asyncio.create_task(app.run(wait_for_ever))

        async def is_running() -> bool:
            return bool(await RunInsights(app.database, ALL_OWNERS).list(RunFilter()))

        await eventually(is_running, "it runs")
        lease = app._require("a test").runs._lease
        before = await lease.hold()
        find_lost(migrated_url)
        with pytest.raises(JobFailedError, match="lost its lease"):
            await waiting
        assert await app.run(double, 2) == 4
        assert await lease.hold() != before


def find_lost(url: str) -> None:
    change = "UPDATE {} SET state = 'lost'"
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection, connection:
            connection.execute(change.format("worker"))
        return
    with psycopg.connect(url) as postgres:
        postgres.execute(change.format("gandy.worker").encode())


@pytest.mark.parametrize("by", ["worker", "app.run"])
async def test_a_run_without_a_timeout_has_no_deadline_and_ends_by_itself(migrated_url: str, by: str) -> None:
    app = make_app(migrated_url)

    @app.train(timeout=NO_TIMEOUT)
    async def endless() -> str:
        await asyncio.sleep(0)
        return "done"

    async with app:
        if by == "app.run":
            assert await app.run(endless) == "done"
            return
        job = await app.enqueue(endless)
        await app.work(asyncio.Event(), until_idle=True)
        assert await job.result(timeout=10) == "done"
