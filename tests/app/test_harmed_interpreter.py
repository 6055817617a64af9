"""A job that changes what all code of the process uses: modules, and the handlers of logging."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, NoReturn

from gandy import Gandy
from gandy.store.drivers.opening import migrate
from gandy.train import endings
from gandy.work.buffer import RunBuffer
from tests.support.waiting import eventually

if TYPE_CHECKING:
    import pytest

    from gandy.model.run import ClaimedRun


def refuse(*_: object, **__: object) -> NoReturn:
    raise ZeroDivisionError("patched")


async def test_a_run_whose_end_cannot_be_described_fails(
    database_url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    migrate(database_url)
    app = Gandy("shop", database_url)

    @app.train(max_retries=0)
    async def harm(number: int) -> int:
        monkeypatch.setattr(endings, "encode_timings", refuse)
        return number

    async with app:
        jobs = await app.enqueue_many(harm, [1, 2])
        stop = asyncio.Event()
        working = asyncio.create_task(app.work(stop))

        async def has_failed() -> bool:
            return [job.state for job in await app.runs.list(train=harm)] == ["failed"] * len(jobs)

        await eventually(has_failed, "both runs have failed")
        found = [(await app.runs.show(job.id)).failure_exception for job in jobs]
        stop.set()
        await working

    assert found == ["ZeroDivisionError"] * 2
    assert "ended unexpectedly" not in caplog.text


class Raising(logging.Handler):
    """A handler that raises what no caller of logging expects."""

    def emit(self, record: logging.LogRecord) -> NoReturn:  # noqa: ARG002 - the name is the base's
        raise SystemExit(9)


async def test_a_loop_is_restarted_although_a_handler_of_logging_raises(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    migrate(database_url)
    app = Gandy("shop", database_url, worker={"slots": 1})
    handler = Raising()
    logger = logging.getLogger("gandy.services")

    @app.train
    async def double(number: int) -> int:
        return 2 * number

    get, broken = RunBuffer.get, list[int]()

    async def broken_once(buffer: RunBuffer) -> ClaimedRun:
        if not broken:
            broken.append(1)
            raise RuntimeError("the slot ends")
        return await get(buffer)

    monkeypatch.setattr(RunBuffer, "get", broken_once)
    logger.addHandler(handler)
    try:
        async with app:
            stop = asyncio.Event()
            working = asyncio.create_task(app.work(stop))
            assert await (await app.enqueue(double, 4)).result(timeout=20) == 8
            stop.set()
            await working
    finally:
        logger.removeHandler(handler)

    assert broken == [1]
