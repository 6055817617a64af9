"""One table of hostile endings against every way to run a job: each ends its own run and nothing else."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gandy.desk.runs import RunInsights
from gandy.model.owners import ALL_OWNERS
from gandy.model.run import Cancelled, Completed, Failed
from gandy.store.reading.listings import RunFilter
from gandy.train.base import Engine, default_engine
from gandy.train.run import Run
from tests.hostile.endings import ENDINGS, TRAINS_BY_SHAPE, HostileRouteAsync, app, innocent, innocent_thread

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gandy.desk.runs import RunSummary
    from gandy.model.run import Outcome
    from tests.hostile.endings import Ending

ROOT = Path(__file__).resolve().parents[2]
IN_THIS_LOOP = [name for name, ending in ENDINGS.items() if not ending.ends_the_loop]
HERE_SHAPES = [shape for shape in TRAINS_BY_SHAPE if "process" not in shape]
PROCESS_SHAPES = [shape for shape in TRAINS_BY_SHAPE if "process" in shape]
STATES = {Completed: "completed", Failed: "failed", Cancelled: "cancelled"}


@pytest.fixture
def marks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that innocent jobs leave their marks in."""
    file = tmp_path / "marks"
    monkeypatch.setenv("HOSTILE_MARKS", str(file))
    return file


def marked(marks: Path) -> Counter[str]:
    """How often each innocent job ran."""
    return Counter(marks.read_text(encoding="utf-8").splitlines())


def as_told(outcome: Outcome[object]) -> tuple[str, str | None]:
    return STATES[type(outcome)], outcome.exception_type if isinstance(outcome, Failed) else None


def is_right(ending: Ending, state: str, exception: str | None) -> bool:
    """Whether this is on record; a name that no database holds is made storable behind its readable part."""
    if ending.exception is None:
        return state == ending.state
    return state == ending.state and (exception or "").startswith(ending.exception)


def test_the_table_is_long_enough() -> None:
    assert len(ENDINGS) >= 40


@pytest.mark.parametrize("shape", HERE_SHAPES)
async def test_an_ending_is_the_outcome_of_its_run_and_leaves_the_task_alone(shape: str) -> None:
    train, names = TRAINS_BY_SHAPE[shape]
    definition, task = app.registry.get(train), asyncio.current_task()
    assert task is not None
    wrong = {}
    for name in set(names) & set(IN_THIS_LOOP):
        for is_leaving in (None, lambda: False):
            run = Run(train=train)
            told = as_told(await default_engine().execute(definition, name, run=run, is_leaving=is_leaving))
            if not is_right(ENDINGS[name], *told) or task.cancelling():
                wrong[name] = told

    assert wrong == {}


async def test_a_train_that_is_run_without_an_application_raises_what_it_raised() -> None:
    task = asyncio.current_task()
    assert task is not None
    wrong = {}
    for name in IN_THIS_LOOP:
        told: object = None
        try:
            await HostileRouteAsync.run(name)
        except BaseException as error:  # noqa: BLE001 that is the question
            told = type(error)
        if (told is None) != (ENDINGS[name].state == "completed") or task.cancelling():
            wrong[name] = told

    assert wrong == {}


@pytest.mark.parametrize("shape", PROCESS_SHAPES)
async def test_an_ending_in_a_process_is_that_runs_and_the_process_goes_on(shape: str) -> None:
    train, names = TRAINS_BY_SHAPE[shape]
    engine, wrong = Engine(host="tests.hostile.endings:app", max_processes=1), {}
    for name in names:
        told = as_told(await engine.execute(app.registry.get(train), name, run=Run(train=train)))
        if not is_right(ENDINGS[name], *told):
            wrong[name] = told
    await engine.close()

    assert wrong == {}


async def test_app_run_records_each_ending_and_goes_on(migrated_url: str, marks: Path) -> None:
    app.configure({"database": {"url": migrated_url}})
    shapes = ("async", "thread", "route of async junctions", "process")
    expected: list[tuple[str, Ending]] = []
    async with app:
        for number, name in enumerate(IN_THIS_LOOP):
            shape = shapes[number % len(shapes)]
            if shape == "thread" and ENDINGS[name].is_async:
                shape = "async"
            train = TRAINS_BY_SHAPE[shape][0]
            with suppress(BaseException):
                await app.run(app.registry.get(train).source, name)
            await app.run(innocent, f"after {name}")
            expected.append((train, ENDINGS[name]))
        found = [run for run in await all_runs() if run.train != "innocent"]

    assert [run.train for run in found] == [train for train, _ in expected]
    wrong = [
        (run.failure_exception, run.state, ending.exception)
        for run, (_, ending) in zip(found, expected, strict=True)
        if not is_right(ending, run.state, run.failure_exception)
    ]
    assert wrong == []
    assert marked(marks) == Counter(f"after {name}" for name in IN_THIS_LOOP)


@pytest.mark.parametrize("slots", [1, 20])
async def test_a_worker_records_each_ending_and_runs_every_innocent_job_once(
    migrated_url: str, marks: Path, slots: int
) -> None:
    app.configure({"database": {"url": migrated_url}})
    expected: dict[int, tuple[str, Ending]] = {}
    innocents = []
    async with app:
        for number, (train, name) in enumerate(cases(slots)):
            hostile = await app.enqueue(app.registry.get(train).source, name)
            mark = f"{number} after {name}"
            await app.enqueue(innocent if number % 2 else innocent_thread, mark)
            innocents.append(mark)
            expected[hostile.id] = (f"{train}: {name}", ENDINGS[name])
        exit_code, said = await asyncio.to_thread(work, migrated_url, marks, slots)
        found = await all_runs()

    assert exit_code == 0, said[-3000:]
    assert {run.state for run in found} <= {"completed", "failed", "cancelled"}
    hostile_runs = [run for run in found if not run.train.startswith("innocent")]
    assert Counter(run.train for run in hostile_runs) == Counter(
        told.partition(":")[0] for told, _ in expected.values()
    )
    assert Counter((run.state, known(run.failure_exception)) for run in hostile_runs) == Counter(
        (ending.state, ending.exception) for _, ending in expected.values()
    )
    assert marked(marks) == Counter(innocents)


def cases(slots: int) -> Iterator[tuple[str, str]]:
    """Every ending in every shape, shared out between the workers so that all are met in one pass each."""
    shapes = list(TRAINS_BY_SHAPE.values())
    for number, name in enumerate(ENDINGS):
        fitting = [train for train, names in shapes if name in names]
        yield fitting[number % len(fitting)], name
        if slots > 1:
            yield fitting[(number + 1) % len(fitting)], name


def known(exception: str | None) -> str | None:
    """The entry of the table that a recorded type stands for; what never raised has none."""
    if exception in {None, "Cancelled"}:
        return None
    types = {ending.exception for ending in ENDINGS.values() if ending.exception}
    return next((kind for kind in types if kind == exception), "tests.hostile.endings.Odd")


def work(url: str, marks: Path, slots: int) -> tuple[int, str]:
    """A worker as a user starts it, until nothing is left: its exit code and what it said."""
    said = marks.with_name("said")
    with said.open("wb") as stream:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "gandy", "--app", "tests.hostile.endings:app"),
                *("work", "--until-idle", "--concurrency", str(slots)),
            ],
            cwd=marks.parent,
            env={
                **os.environ,
                "GANDY_DATABASE_URL": url,
                "GANDY_WORKER_POLL_EVERY": "200ms",
                "GANDY_WORKER_PROCESSES": "2",
                "PYTHONPATH": str(ROOT),
            },
            stdout=stream,
            stderr=stream,
            start_new_session=True,
        )
    with suppress(subprocess.TimeoutExpired):
        process.wait(40)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)  # with every copy of it that goes on
    return process.wait(), said.read_text(encoding="utf-8", errors="replace")


async def all_runs() -> list[RunSummary]:
    """The runs of the application, oldest first."""
    insights = RunInsights(app.database, ALL_OWNERS, app.registry)
    return [*reversed([*await insights.list(RunFilter(limit=1000))])]
