from __future__ import annotations

import asyncio
import json
import sqlite3
from contextlib import closing, contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

import psycopg
import pytest
from pydantic import SecretStr

from gandy import Gandy, Run, current_run
from gandy.desk.runs import RunDetail, RunInsights
from gandy.errors import AppNotOpenError, JobCancelledError, JobFailedError, PayloadError
from gandy.events import Event, RunFinished, RunStarted
from gandy.model.owners import ALL_OWNERS
from gandy.model.run import CancelledBy, RetentionSpans
from gandy.store.cancelling import cancel_jobs
from gandy.store.drivers.opening import open_database
from gandy.store.reading.listings import RunFilter
from tests.app.shop import Login, Order, Receipt, SellOrder, double, make_shop, sign_in, wait_for_ever
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from gandy.train.hooks import HookEvent

if TYPE_CHECKING:
    from collections.abc import Iterator


async def only_run(app: Gandy) -> RunDetail:
    insights = RunInsights(app.database, ALL_OWNERS, app.registry)
    (summary,) = await insights.list(RunFilter())
    return await insights.show(summary.id)


async def test_a_run_is_recorded_with_input_output_and_junction_timings(migrated_url: str) -> None:
    async with make_shop(migrated_url) as app:
        assert await app.run(SellOrder, Order(4)) == Receipt(order=4, total=6)

        run = await only_run(app)
        assert (run.train, run.state, run.attempt) == ("SellOrder", "completed", 1)
        assert (run.input, run.output) == ({"number": 4}, {"order": 4, "total": 6})
        assert [junction.junction for junction in run.junctions] == ["load_items", "add_up"]
        assert all(junction.took > timedelta(0) for junction in run.junctions)
        assert (run.progress_done, run.progress_total) == (4, 4)
        assert run.end_time is not None
        assert run.keep_until == run.end_time + timedelta(days=7)


async def test_log_lines_are_kept_with_their_run_whoever_wrote_them(migrated_url: str) -> None:
    async with make_shop(migrated_url) as app:
        await app.run(SellOrder, Order(2))
        await app.run(SellOrder, Order(3))

        insights = RunInsights(app.database, ALL_OWNERS)
        second, first = await insights.list(RunFilter())
        for summary, number in ((first, 2), (second, 3)):
            lines = await insights.logs(summary.id)
            assert [(line.level, line.logger, line.message) for line in lines] == [
                ("info", "gandy.run", f"loading order {number}"),
                ("warning", "shop", f"adding {number} prices"),
            ]
            assert all(line.created_at >= summary.start_time for line in lines)


async def test_log_lines_are_bounded(migrated_url: str) -> None:
    app = make_shop(migrated_url, run_log={"max_lines": 3, "max_line_chars": 100})

    @app.train
    def chatter(run: Run) -> None:
        for number in range(100):
            run.log.info("%d %s", number, "x" * 500)

    async with app:
        await app.run(chatter)
        run = await only_run(app)
        lines = await RunInsights(app.database, ALL_OWNERS).logs(run.id)

    assert len(lines) == 4
    assert lines[0].message.startswith("0 xxx")
    assert lines[0].message.endswith("(402 characters more)")
    assert "not kept" in lines[-1].message


async def test_lines_written_while_a_run_goes_on_stay_with_it(migrated_url: str) -> None:
    app = make_shop(migrated_url, run_log={"flush_every": timedelta(milliseconds=10)})
    written = asyncio.Event()

    @app.train
    async def slow(run: Run) -> None:
        run.log.info("before")
        insights = RunInsights(app.database, ALL_OWNERS)
        await eventually(lambda: insights.logs(run.id), "the first line is written")
        written.set()
        run.log.info("after")

    async with app:
        await app.run(slow)
        assert written.is_set()
        run = await only_run(app)
        lines = await RunInsights(app.database, ALL_OWNERS).logs(run.id)

    assert [line.message for line in lines] == ["before", "after"]


async def test_a_failure_is_recorded_and_raised_as_it_was(migrated_url: str) -> None:
    async with make_shop(migrated_url) as app:
        with pytest.raises(ValueError, match="no such order"):
            await app.run(SellOrder, Order(-1))

        run = await only_run(app)
        assert (run.state, run.failure_junction) == ("failed", "load_items")
        assert (run.failure_exception, run.failure_reason) == ("ValueError", "there is no such order")
        assert "load_items" in (run.stack_trace or "")
        assert run.output is None


async def test_a_run_whose_task_is_cancelled_is_recorded_as_cancelled(migrated_url: str) -> None:
    async with make_shop(migrated_url) as app:
        started = asyncio.Event()
        app.on("started")(lambda _: started.set())
        task = asyncio.create_task(app.run(wait_for_ever))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

        run = await only_run(app)
        assert run.state == "cancelled"


async def test_an_operators_cancellation_is_raised_with_the_runs_id(migrated_url: str) -> None:
    app = make_shop(migrated_url)

    @app.train
    async def give_up() -> None:
        current_run().request_cancel(CancelledBy.OPERATOR, "enough")
        await asyncio.Event().wait()

    async with app:
        with pytest.raises(JobCancelledError) as caught:
            await app.run(give_up)
        run = await only_run(app)

    assert caught.value.job_id == run.id
    assert (run.state, run.cancellation_reason, run.failure_reason) == ("cancelled", "operator", "enough")


async def test_a_run_that_takes_too_long_fails(migrated_url: str) -> None:
    app = make_shop(migrated_url)

    @app.train(timeout=timedelta(milliseconds=20))
    async def slow() -> None:
        await asyncio.Event().wait()

    async with app:
        with pytest.raises(JobFailedError, match="TimedOut"):
            await app.run(slow)
        run = await only_run(app)

    assert (run.state, run.failure_exception, run.failure_junction) == ("failed", "TimedOut", "slow")


async def test_an_output_that_cannot_be_kept_fails_the_run(migrated_url: str) -> None:
    app = make_shop(migrated_url, worker={"max_output_bytes": 10})

    @app.train
    def talk() -> str:
        return "x" * 100

    async with app:
        with pytest.raises(JobFailedError, match="at most 10"):
            await app.run(talk)
        assert (await only_run(app)).state == "failed"


async def test_a_bad_input_leaves_no_record(migrated_url: str) -> None:
    async with make_shop(migrated_url) as app:
        with pytest.raises(PayloadError):
            await app.run(double, "seven")  # type: ignore[arg-type]

        assert await RunInsights(app.database, ALL_OWNERS).list(RunFilter()) == ()


async def test_secrets_are_stored_for_the_run_and_shown_to_nobody(migrated_url: str) -> None:
    async with make_shop(migrated_url) as app:
        with pytest.raises(PermissionError, match="hunter22"):
            await app.run(sign_in, Login(user="eve", password=SecretStr("hunter22")))

        run = await only_run(app)
        lines = await RunInsights(app.database, ALL_OWNERS).logs(run.id)

    assert run.input == {"user": "eve", "password": "**********"}
    kept = json.dumps([line.message for line in lines]) + (run.failure_reason or "") + (run.stack_trace or "")
    assert "hunter22" not in kept
    assert "eve" in kept


async def test_a_run_inside_a_run_knows_its_parent(migrated_url: str) -> None:
    app = make_shop(migrated_url)

    @app.train
    async def outer(run: Run) -> tuple[int, int]:
        return run.id, await app.run(double, 21)

    async with app:
        outer_id, answer = await app.run(outer)
        inner, _ = await RunInsights(app.database, ALL_OWNERS).list(RunFilter())
        detail = await RunInsights(app.database, ALL_OWNERS).show(inner.id)

    assert answer == 42
    assert (detail.train, detail.parent_id) == ("double", outer_id)


async def test_hooks_and_events_hear_of_a_run_once(migrated_url: str) -> None:
    app = make_shop(migrated_url)
    heard: list[HookEvent] = []
    events: list[Event] = []

    @app.on("started")
    def broken(event: HookEvent) -> None:
        heard.append(event)
        raise RuntimeError("a hook changes nothing")

    @app.on("completed")
    async def completed(event: HookEvent) -> None:
        heard.append(event)

    app.on("failed")(heard.append)
    app.events.subscribe(Event, events.append)
    async with app:
        assert await app.run(double, 2) == 4

    assert [event.name for event in heard] == ["started", "completed"]
    assert [type(event) for event in events] == [RunStarted, RunFinished]


async def test_hooks_hear_what_is_on_record_where_an_operator_cancelled_a_run_that_fails(
    migrated_url: str,
) -> None:
    app = make_shop(migrated_url)
    heard: list[str] = []
    app.on("failed")(lambda event: heard.append(event.name))
    app.on("cancelled")(lambda event: heard.append(event.name))
    spans = RetentionSpans(*[timedelta(days=1)] * 3)

    @app.train
    async def fail_when_cancelled(run: Run) -> None:
        other = open_database(app.settings.database)
        await other.open()
        await other.run(cancel_jobs([run.id], spans, owners=ALL_OWNERS))
        await other.close()
        raise ValueError("before it has heard of it")

    async with app:
        with pytest.raises(ValueError, match="before it has heard"):
            await app.run(fail_when_cancelled)
        assert (await only_run(app)).state == "cancelled"

    assert heard == ["cancelled"]


async def test_provided_values_are_made_at_opening_and_closed_in_reverse(migrated_url: str) -> None:
    app = make_shop(migrated_url)
    steps: list[str] = []

    class Tills:
        pass

    @contextmanager
    def make() -> Iterator[Tills]:
        steps.append("open")
        yield Tills()
        steps.append("close")

    app.provide(Tills, make)

    @app.train
    def sell(number: int, tills: Tills) -> str:
        steps.append(type(tills).__name__)
        return str(number)

    async with app:
        assert await app.run(sell, 3) == "3"

    assert steps == ["open", "Tills", "close"]


async def test_a_closed_application_says_how_to_open_it(migrated_url: str) -> None:
    app = make_shop(migrated_url)

    with pytest.raises(AppNotOpenError, match="async with app"):
        await app.run(double, 2)


async def test_closing_ends_what_still_runs_and_records_it(migrated_url: str) -> None:
    app = make_shop(migrated_url)
    started = asyncio.Event()
    app.on("started")(lambda _: started.set())
    async with app:
        task = asyncio.create_task(app.run(wait_for_ever))
        await started.wait()
    with pytest.raises(JobFailedError, match="Interrupted"):
        await task

    async with app:
        assert (await only_run(app)).failure_reason == "the application was closed"


async def test_a_run_hears_that_somebody_cancelled_it_in_the_database(migrated_url: str) -> None:
    app = make_shop(migrated_url, run_log={"flush_every": timedelta(milliseconds=10)})
    started = asyncio.Event()
    app.on("started")(lambda _: started.set())
    async with app:
        task = asyncio.create_task(app.run(wait_for_ever))
        await started.wait()
        (run,) = await RunInsights(app.database, ALL_OWNERS).list(RunFilter())
        ask_to_cancel(migrated_url, run.id)
        with pytest.raises(JobCancelledError):
            await task

        assert (await only_run(app)).cancellation_reason == "operator"


def ask_to_cancel(url: str, run_id: int) -> None:
    change = "UPDATE {} SET cancellation_requested = {}, cancellation_reason = 'operator' WHERE id = {}"
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection, connection:
            connection.execute(change.format("work_queue", 1, run_id))
        return
    with psycopg.connect(url) as postgres:
        postgres.execute(change.format("gandy.work_queue", "true", run_id).encode())
