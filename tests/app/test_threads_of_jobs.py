"""Threads of sync jobs outlive what an earlier job does to them."""

from __future__ import annotations

import asyncio
import ctypes
import threading

from gandy import Gandy
from gandy.store.drivers.opening import migrate


class LateTimeoutError(Exception):
    """As libraries raise it that limit the time of a call."""


async def test_an_exception_raised_in_an_idle_thread_costs_no_later_job(database_url: str) -> None:
    migrate(database_url)
    app = Gandy("shop", database_url, worker={"slots": 1, "threads": 1})

    @app.train
    def thread_of_job() -> int:
        return threading.get_ident()

    async with app:
        stop = asyncio.Event()
        working = asyncio.create_task(app.work(stop))
        thread = await (await app.enqueue(thread_of_job)).result(timeout=20)
        raised = ctypes.pythonapi.PyThreadState_SetAsyncExc(
            ctypes.c_ulong(thread), ctypes.py_object(LateTimeoutError)
        )
        jobs = [await app.enqueue(thread_of_job) for _ in range(3)]
        found = {await job.result(timeout=20) for job in jobs}
        stop.set()
        await working

    assert raised == 1
    assert found == {thread}, "the same thread goes on"
