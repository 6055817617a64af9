"""The values that once did harm, each by the call that did it; public names only."""

from __future__ import annotations

import asyncio
import io
import json
import logging
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING

import psycopg
import pytest
from click.testing import CliRunner

from gandy import Gandy, Retry, Run, Train, every
from gandy.cli.main import main
from tests.support.worlds import migrated_url

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["migrated_url"]

NINE_THOUSAND_YEARS = timedelta(days=9_000 * 365)


async def add_one(number: int) -> int:
    return number + 1


async def report_half(run: Run) -> None:
    run.progress(0.5, 1)  # type: ignore[arg-type]


async def report_too_much(run: Run) -> None:
    run.progress(10**25)


async def ask_too_late() -> None:
    raise Retry(after=NINE_THOUSAND_YEARS)


def make(url: str) -> Gandy:
    app = Gandy("found", url)
    app.train(add_one)
    for function in (report_half, report_too_much, ask_too_late):
        app.train(retry=False)(function)
    return app


async def work_for(app: Gandy, seconds: float = 20) -> None:
    """Work until nothing is left; a worker that hangs is left behind, so that the test can go on."""
    working = asyncio.create_task(app.work(asyncio.Event(), until_idle=True))
    await asyncio.wait([working], timeout=seconds)
    working.cancel()
    with suppress(asyncio.CancelledError, Exception):
        await working


@pytest.mark.parametrize("longest", [timedelta.max, timedelta(days=3_652_500)], ids=["max", "10000 years"])
async def test_a_timeout_without_end_is_refused_and_all_other_work_goes_on(
    migrated_url: str, longest: timedelta
) -> None:
    async with make(migrated_url) as app:
        refused = False
        try:
            await app.enqueue(add_one, 1, timeout=longest)
        except ValueError as error:
            refused = "timeout" in str(error) and "3650d" in str(error)
        job = await app.enqueue(add_one, 41)
        await work_for(app, 5)
        (ended,) = await asyncio.gather(job.result(timeout=0.1), return_exceptions=True)
        assert (refused, ended) == (True, 42)


@pytest.mark.parametrize(
    "train", [report_half, report_too_much, ask_too_late], ids=lambda each: each.__name__
)
async def test_what_a_run_says_of_itself_ends_that_run_alone(migrated_url: str, train: object) -> None:
    async with make(migrated_url) as app:
        bad = await app.enqueue(train)  # type: ignore[call-overload]
        good = await app.enqueue(add_one, 41)
        await work_for(app, 5)
        ends: list[object] = list(
            await asyncio.gather(good.result(timeout=0.1), bad.result(timeout=0.1), return_exceptions=True)
        )
        assert ends[0] == 42
        assert "ValueBoundsError" in str(ends[1])


async def test_a_delay_of_nine_thousand_years_is_refused(migrated_url: str) -> None:
    async with make(migrated_url) as app:
        answers = await asyncio.gather(
            app.enqueue(add_one, 1, delay=NINE_THOUSAND_YEARS), return_exceptions=True
        )
        assert isinstance(answers[0], ValueError)
        assert "delay must be a duration from 0s to 3650d" in str(answers[0])


@pytest.mark.postgres
def test_an_entry_that_is_due_in_nine_thousand_years_hides_no_listing(
    postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    call = CliRunner()
    assert call.invoke(main, ["--database", postgres_url, "migrate"]).exit_code == 0
    with make(postgres_url) as sync:
        job = sync.enqueue(add_one, 1, delay=timedelta(days=1))
    with psycopg.connect(postgres_url) as link:
        link.execute("UPDATE gandy.work_queue SET scheduled_at = '11026-01-01Z', due_at = '11026-01-01Z'")

    listed = call.invoke(main, ["--database", postgres_url, "--all-owners", "queue", "list", "--json"])

    assert listed.exit_code == 0, listed.output
    assert [(each["id"], each["scheduled_at"][:4]) for each in json.loads(listed.stdout)] == [
        (job.id, "9999")
    ]


async def test_a_retry_delay_of_zero_is_taken_at_every_door(migrated_url: str) -> None:
    at_once = timedelta(0)
    app = make(migrated_url)
    refused = []

    def schedule() -> object:
        return app.schedule("kept", add_one, 1, every(hours=1), retry_delay=at_once)

    def declare() -> object:
        body = {"route": (add_one,), "__orig_bases__": (Train[int, int],), "retry_delay": at_once}
        return type("AtOnce", (Train,), body)

    for door in (schedule, declare, lambda: app.train(name="again", retry_delay=at_once)(add_one)):
        try:
            door()
        except Exception as error:  # noqa: BLE001 whichever class says no
            refused.append(str(error))
    async with app:
        asked = await asyncio.gather(app.enqueue(add_one, 1, retry_delay=at_once), return_exceptions=True)
        refused += [str(answer) for answer in asked if isinstance(answer, Exception)]
    assert refused == []


async def test_a_line_of_fifty_megabytes_reaches_no_handler_whole(sqlite_url: str) -> None:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    logger = logging.getLogger("gandy.run")
    logger.addHandler(handler)
    logger.propagate = False  # or the report of this test would hold it
    app = make(sqlite_url)

    @app.train
    async def chatter(run: Run) -> None:
        run.log.warning("x" * 50_000_000)

    try:
        async with app:
            await app.enqueue(chatter)
            await work_for(app)
    finally:
        logger.removeHandler(handler)
        logger.propagate = True
    assert 0 < len(stream.getvalue()) < 5_000
