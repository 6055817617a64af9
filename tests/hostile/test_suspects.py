"""Jobs that were lost with two workers are isolated together, and take hardly longer for it."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

from tests.journeys.apps.witness import Job, app, tick_off
from tests.journeys.processes import fleet, kill
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.journeys.processes import Fleet

JOBS = 100
SECONDS = 2.0
LOSSES = 2


def numbers(started: Fleet, word: str, attempt: int | None = None) -> set[str]:
    """The jobs that have noted this, in that attempt or in any."""
    if not started.witness.exists():
        return set()
    lines = [line.split() for line in started.witness.read_text(encoding="ascii").splitlines()]
    return {line[1] for line in lines if line[0] == word and attempt in {None, int(line[2])}}


def has_begun(started: Fleet, attempt: int) -> bool:
    return len(numbers(started, "begin", attempt)) == JOBS


def test_a_hundred_jobs_that_were_lost_twice_take_at_most_three_times_as_long(
    migrated_url: str, tmp_path: Path
) -> None:
    app.configure({"database": {"url": migrated_url}})
    with app as sync:
        sync.enqueue_many(
            tick_off, [Job(number=number, milliseconds=SECONDS * 1000) for number in range(JOBS)]
        )
    with fleet(migrated_url, tmp_path) as started:
        started.start_manager()
        for attempt in range(1, LOSSES + 1):
            worker = started.start_worker()
            wait_until(partial(has_begun, started, attempt), "all have begun")
            kill(worker)
        started.start_worker()
        wait_until(lambda: numbers(started, "begin", LOSSES + 1), "the first is isolated")
        begun = time.monotonic()
        wait_until(lambda: len(numbers(started, "end")) == JOBS, "all are over", within=10 * SECONDS)
        took = time.monotonic() - begun

    assert took <= 3 * SECONDS
