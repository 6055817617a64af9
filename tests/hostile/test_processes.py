"""Processes of trains, through the doors that users have: scripts, workers, multiprocessing inside a job."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pydantic import BaseModel, field_serializer

from gandy import Gandy, Run
from gandy.desk.runs import RunInsights
from gandy.errors import GandyError
from gandy.model.owners import ALL_OWNERS
from gandy.store.drivers.opening import migrate
from gandy.store.reading.listings import RunFilter
from gandy.train.base import default_engine
from gandy.train.definition import define_function
from tests.hostile.endings import Panic

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from gandy.model.run import Outcome

ROOT = Path(__file__).resolve().parents[2]
MODULE = """
    import os
    from datetime import timedelta
    from time import sleep
    from gandy import Gandy, Run

    app = Gandy("printing", database=os.environ["GANDY_DATABASE_URL"])

    @app.train(process=True)
    def print_pages(pages: int) -> int:
        return pages

    @app.train(process=True, timeout=timedelta(seconds=2), retry=False)
    def take_a_while(number: int) -> None:
        sleep(0.25)
"""
SCRIPT = """
    import asyncio
    with open("began", "a") as file:
        file.write("again ")

    async def main():
        async with app:
            print("pages:", await app.run(print_pages, 12))

    asyncio.run(main())
"""
FILL = """
    from printing import app, take_a_while

    with app as printing:
        printing.enqueue_many(take_a_while, [*range(20)])
"""
ORDERLY_SCRIPT = """
    import asyncio, json
    from gandy.model.run import Completed
    from tests.hostile.test_processes import square_in_every_way

    found = asyncio.run(square_in_every_way())
    values = {name: [isinstance(each, Completed) and each.value for each in found[name]] for name in found}
    print(json.dumps(values))
"""
SCRIPTS = {
    "application in the script": MODULE + SCRIPT,
    "application in a module": "    from printing import app, print_pages\n" + SCRIPT,
}


def environment(url: str) -> dict[str, str]:
    return {**os.environ, "GANDY_DATABASE_URL": url, "PYTHONPATH": str(ROOT)}


@pytest.mark.parametrize("where", SCRIPTS)
def test_a_script_without_a_main_guard_is_never_run_again_by_the_processes_of_its_trains(
    migrated_url: str, tmp_path: Path, where: str
) -> None:
    (tmp_path / "printing.py").write_text(textwrap.dedent(MODULE), encoding="utf-8")
    (tmp_path / "script.py").write_text(textwrap.dedent(SCRIPTS[where]), encoding="utf-8")
    ended = subprocess.run(
        [sys.executable, "script.py"],
        cwd=tmp_path,
        env=environment(migrated_url),
        capture_output=True,
        text=True,
        check=False,
        timeout=50,
    )

    assert (tmp_path / "began").read_text(encoding="utf-8") == "again ", ended.stderr
    if where == "application in a module":
        assert ended.stdout == "pages: 12\n", ended.stderr
    else:
        assert "move it to a module and import it" in ended.stderr


def gandy(url: str, folder: Path, *arguments: str) -> str:
    """Run a command of the application in this folder."""
    ended = subprocess.run(
        [sys.executable, "-m", "gandy", "--app", "printing:app", *arguments],
        cwd=folder,
        env={**environment(url), "GANDY_WORKER_PROCESSES": "2", "GANDY_WORKER_POLL_EVERY": "200ms"},
        capture_output=True,
        text=True,
        check=False,
        timeout=50,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_the_time_of_a_run_with_a_process_does_not_count_before_its_code_begins(
    sqlite_url: str, tmp_path: Path
) -> None:
    """Twenty of a quarter of a second in two processes take longer than the two that each of them may."""
    migrate(sqlite_url)
    (tmp_path / "printing.py").write_text(textwrap.dedent(MODULE), encoding="utf-8")
    (tmp_path / "fill.py").write_text(textwrap.dedent(FILL), encoding="utf-8")
    subprocess.run(
        [sys.executable, "fill.py"], cwd=tmp_path, env=environment(sqlite_url), check=True, timeout=50
    )
    gandy(sqlite_url, tmp_path, "work", "--until-idle", "--concurrency", "50")

    runs = json.loads(gandy(sqlite_url, tmp_path, "runs", "list", "--json"))
    assert [(run["state"], run["failure_exception"]) for run in runs] == [("completed", None)] * 20


class Melting(BaseModel):
    """An output whose own code fails it."""

    kind: str

    @field_serializer("kind")
    def melt(self, kind: str) -> str:
        raise OUTPUT_ERRORS[kind]


OUTPUT_ERRORS: dict[str, BaseException] = {
    "a base": Panic("while writing"),
    "an interrupt": KeyboardInterrupt(),
    "an exit": SystemExit(2),
    "a lookup": KeyError("x"),
    "a surrogate": ValueError("caf\udce9"),
}


async def test_an_output_whose_code_raises_fails_its_run(migrated_url: str) -> None:
    app = Gandy("melting", database=migrated_url)

    @app.train
    async def melt(kind: str) -> Melting:
        return Melting(kind=kind)

    async with app:
        for kind in OUTPUT_ERRORS:
            with pytest.raises((GandyError, KeyboardInterrupt)):
                await app.run(melt, kind)
        runs = await RunInsights(app.database, ALL_OWNERS, app.registry).list(RunFilter())

    assert [run.state for run in runs] == ["failed"] * len(OUTPUT_ERRORS)


def square_in_a_process(numbers: list[int]) -> list[int]:
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    child = context.Process(target=lambda: theirs.send([number**2 for number in numbers]))
    child.start()
    squares: list[int] = ours.recv()
    child.join()
    return squares


def echo(numbers: list[int]) -> list[int]:
    told = subprocess.run(["/bin/echo", *map(str, numbers)], capture_output=True, check=True)
    return [int(number) ** 2 for number in told.stdout.split()]


def exec_in_a_fork(numbers: list[int]) -> list[int]:
    child = os.fork()
    if child == 0:
        os.execv("/bin/true", ["true"])  # noqa: S606 - that is the case
    _, status = os.waitpid(child, 0)
    return [number * number for number in numbers] if status == 0 else []


ORDERLY = (square_in_a_process, echo, exec_in_a_fork)


def on_the_loop(work: Callable[[list[int]], list[int]]) -> Callable[[list[int]], Awaitable[list[int]]]:
    async def here(numbers: list[int]) -> list[int]:
        return work(numbers)

    return here


async def square_in_every_way() -> dict[str, list[Outcome[object]]]:
    """Run each as a junction in a thread, and on the event loop."""
    found: dict[str, list[Outcome[object]]] = {}
    for work in ORDERLY:
        for junction in (work, on_the_loop(work)):
            definition = define_function(junction)
            outcome = await default_engine().execute(definition, [2, 3], run=Run(train=definition.name))
            found.setdefault(work.__name__, []).append(outcome)
    return found


def test_processes_that_a_job_starts_in_an_orderly_way_work(tmp_path: Path) -> None:
    """In a process without the threads of the tests, whose locks a fork could take with it."""
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(ORDERLY_SCRIPT), encoding="utf-8")
    process = subprocess.Popen(
        [sys.executable, str(script)],
        env=environment(""),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        told, said = process.communicate(timeout=50)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # with what it has forked

    assert process.returncode == 0, said
    assert json.loads(told) == {work.__name__: [[4, 9], [4, 9]] for work in ORDERLY}, said
