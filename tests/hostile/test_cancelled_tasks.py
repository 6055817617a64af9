"""A job cancels every task of its event loop: services, slots and the process itself go on."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

import pytest

from gandy import Gandy
from gandy.store.drivers.opening import migrate
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MODULE = """
import asyncio
import os

from gandy import Gandy

app = Gandy("shop", database=os.environ["GANDY_DATABASE_URL"])


@app.train(retry=False)
async def cancel_everything() -> None:
    for task in asyncio.all_tasks():
        task.cancel()


@app.train
async def send(number: int) -> int:
    return number
"""
CANCELLED = "of cancel_everything failed: gandy.errors.train.TaskCancelledError"
shop = Gandy("shop")


@shop.train(retry=False)
async def cancel_everything() -> None: ...


@shop.train
async def send(number: int) -> int:
    return number


@pytest.fixture
def folder(database_url: str, tmp_path: Path) -> Path:
    migrate(database_url)
    (tmp_path / "shop.py").write_text(MODULE, encoding="utf-8")
    shop.configure({"database": {"url": database_url}})
    return tmp_path


@contextmanager
def running(folder: Path, *words: str, url: str) -> Iterator[Path]:
    """Run a command while the block lasts, and end it as a process manager does; gives its log."""
    log = folder / "log.txt"
    environment = {**os.environ, "GANDY_DATABASE_URL": url, "GANDY_APP": "shop:app"}
    with log.open("w") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "gandy", *words], cwd=folder, env=environment, stderr=file
        )
        try:
            yield log
            process.send_signal(signal.SIGTERM)
            assert process.wait(40) == 0, log.read_text()
        finally:
            process.kill()
            process.wait(40)


def address_in(log: Path) -> str:
    """The newest address: a port that was free is another one after a restart."""
    return str(re.findall(r"http://127\.0\.0\.1:\d+", log.read_text())[-1])


def has_said(log: Path, words: str, times: int) -> bool:
    return log.read_text().count(words) == times


def is_ready(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"{address}/readyz", timeout=5) as answer:  # noqa: S310 our own address
            return bool(answer.status == 200)
    except (urllib.error.URLError, ConnectionError):
        return False


COMMANDS = {
    "up": ("up", "--port", "0", "--concurrency", "5"),
    "up with worker processes": ("up", "--port", "0", "--concurrency", "5", "--workers", "2"),
    "work": ("work", "--concurrency", "5"),
}


@pytest.mark.timeout(150)
@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS)
def test_other_jobs_run_after_a_job_has_cancelled_every_task(
    words: tuple[str, ...], folder: Path, database_url: str
) -> None:
    with running(folder, *words, url=database_url) as log, shop as sync:
        for times in (1, 2):
            sync.enqueue(cancel_everything)
            wait_until(partial(has_said, log, CANCELLED, times), "it has cancelled everything")
            jobs = sync.enqueue_many(send, [*range(20)])
            assert [job.result(timeout=60) for job in jobs] == [*range(20)]
        if words[0] == "up":
            wait_until(lambda: is_ready(address_in(log)), "its services are ready")

    lines = log.read_text()
    assert "restarting in" in lines or "starting another in" in lines
