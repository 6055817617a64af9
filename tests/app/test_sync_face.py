from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest

from gandy.errors import JobTimeoutError, SchemaBehindError
from tests.app.shop import Order, Receipt, SellOrder, double, make_shop

ROOT = Path(__file__).parents[2]


def test_a_script_runs_and_enqueues_without_an_event_loop(migrated_url: str) -> None:
    app = make_shop(migrated_url)
    with app as sync:
        assert sync.run(SellOrder, Order(4)) == Receipt(order=4, total=6)
        job = sync.enqueue(double, 21)
        with pytest.raises(JobTimeoutError):
            job.result(timeout=0.01)
        assert [each.id for each in sync.enqueue_many(double, [1, 2])] == [job.id + 1, job.id + 2]


def test_errors_of_a_junction_reach_the_script(migrated_url: str) -> None:
    app = make_shop(migrated_url)
    with app as sync, pytest.raises(ValueError, match="no such order"):
        sync.run(SellOrder, Order(-1))


def test_the_face_for_web_frameworks_opens_by_itself_and_again(migrated_url: str) -> None:
    app = make_shop(migrated_url)
    first = app.sync.enqueue(double, 1)
    app.sync.close()
    second = app.sync.enqueue(double, 1, delay=timedelta(hours=1))
    app.sync.close()

    assert second.id > first.id
    assert app.sync is app.sync


def test_many_threads_share_one_face(migrated_url: str) -> None:
    app = make_shop(migrated_url)
    with ThreadPoolExecutor(8) as threads:
        jobs = list(threads.map(lambda number: app.sync.enqueue(double, number), range(40)))
    app.sync.close()

    assert len({job.id for job in jobs}) == 40


def test_a_database_that_cannot_be_used_raises_in_the_callers_thread(postgres_url: str) -> None:
    app = make_shop(postgres_url)
    for _ in range(2):
        with pytest.raises(SchemaBehindError, match="gandy migrate"):
            app.sync.enqueue(double, 1)


async def test_schedules_are_reached_through_the_sync_face(migrated_url: str) -> None:
    app = make_shop(migrated_url)
    with app as sync:
        sync.add_schedule("doubling", double, 21)
        job = sync.trigger("doubling")
        async with app.running(services=("worker",)):
            assert await asyncio.to_thread(job.result, 20) == 42
        sync.remove_schedule("doubling")


FORKING = """
    import os, sys
    from tests.app.shop import double, make_shop

    app = make_shop(sys.argv[1])
    before = app.sync.enqueue(double, 1)
    children = []
    for number in range(3):
        pid = os.fork()
        if pid == 0:
            assert app.sync.run(double, number) == 2 * number
            app.sync.enqueue(double, number)
            sys.exit(0)
        children.append(pid)
    codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children]
    assert app.sync.run(double, 4) == 8
    after = app.sync.enqueue(double, 5)
    print(codes, after.id - before.id)
"""


def test_a_child_process_opens_its_own_and_leaves_the_parents_alone(migrated_url: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(FORKING), migrated_url],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=50,
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["[0,", "0,", "0]", "8"], done.stderr
    assert done.stderr == ""
