from __future__ import annotations

import asyncio
import errno
import os
import signal
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from math import inf
from pathlib import Path

import psutil
import pytest
from pydantic import SecretStr

from gandy.errors import RemoteJunctionError, TrainProcessError
from gandy.model.run import Activation, Cancelled, CancelledBy, Completed, Failed, Outcome, RetryRequest
from gandy.train.base import Engine, Train
from gandy.train.process.parent import ChildProcess
from gandy.train.process.runner import ProcessRunner, RunSet
from gandy.train.run import LogLine, MemorySink, Progress, Run
from tests.support.waiting import eventually
from tests.unit.train import process_trains as trains
from tests.unit.train.process_trains import Order, Receipt

pytestmark = pytest.mark.slow  # each test starts processes


class ListeningSink(MemorySink):
    """Says when a first line has arrived."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.get_running_loop()
        self.heard = asyncio.Event()

    def write_log(self, run: Run, line: LogLine) -> None:
        super().write_log(run, line)
        self.loop.call_soon_threadsafe(self.heard.set)


@pytest.fixture
async def engine() -> AsyncIterator[Engine]:
    engine = Engine(host=trains.PLACE, max_processes=2)
    yield engine
    await engine.close()


async def test_a_train_may_run_in_a_process_without_a_database() -> None:
    receipt = await trains.Computing.run(Order(number=21))

    assert receipt.number == 42
    assert receipt.pid != os.getpid()


async def test_lines_progress_and_activations_reach_the_parent_without_secrets() -> None:
    sink = MemorySink()
    run = Run(id=7, sink=sink, due_at=datetime(2024, 1, 1, tzinfo=UTC))

    outcome = await Engine().execute(
        trains.Computing.definition, Order(number=1, token=SecretStr("hunter22")), run=run
    )

    assert isinstance(outcome, Completed)
    assert [timing.junction for timing in outcome.timings] == ["compute"]
    assert [(line.level, line.logger, line.message) for line in sink.lines] == [
        ("INFO", "gandy.run", "computing 1"),
        ("WARNING", "app", "told by the app"),
    ]
    assert sink.progress == Progress(1, 2)
    assert sink.activations == [Activation("delta-1", '{"number":1,"token":"hunter22"}')]


async def test_the_original_exception_is_raised_here_with_the_trace_of_there() -> None:
    with pytest.raises(LookupError, match="no order 3") as raised:
        await trains.Failing.run(Order(number=3))

    assert "in fail" in raised.value.__notes__[0]
    outcome = await trains.Failing.outcome(Order(number=3, token=SecretStr("hunter22")))
    assert isinstance(outcome, Failed)
    assert outcome.junction == "fail"
    assert outcome.reason == "no order 3 with **********"
    assert "hunter22" not in outcome.stack_trace


async def test_an_exception_that_makes_its_own_text_keeps_it() -> None:
    with pytest.raises(trains.ShopFullError) as raised:
        await trains.TurningAway.run(Order(number=3))

    assert str(raised.value) == "3 guests are enough"


async def test_an_exception_that_cannot_be_rebuilt_has_a_stand_in() -> None:
    outcome = await trains.Closed.outcome(Order(number=3))

    assert isinstance(outcome, Failed)
    assert outcome.exception_type.endswith("process_trains.ShopClosedError")
    assert isinstance(outcome.exception, RemoteJunctionError)
    assert "shop 3" in str(outcome.exception)


async def test_early_ends_and_retries_come_through() -> None:
    ended, again = await asyncio.gather(
        trains.Ending.outcome(Order(number=1)), trains.AskingAgain.outcome(Order(number=90))
    )

    assert isinstance(ended, Completed)
    assert ended.ended_early_by == "end_early"
    assert isinstance(again, Failed)
    assert again.retry == RetryRequest(timedelta(seconds=90))


async def test_a_process_that_is_killed_is_a_failure_that_names_the_junction() -> None:
    outcome = await trains.KillingItself.outcome(Order(number=1))

    assert isinstance(outcome, Failed)
    assert outcome.junction == "kill_itself"
    assert isinstance(outcome.exception, TrainProcessError)
    assert outcome.exception.process_exit_code == -signal.SIGKILL
    assert "killed by SIGKILL" in outcome.reason


async def running(
    train: type[Train[str, None]], engine: Engine | ProcessRunner
) -> tuple[Run, int, asyncio.Task[Outcome[object]]]:
    """Start a train that announces its process id, and wait until it has."""
    sink = ListeningSink()
    run = Run(train=train.definition.name, sink=sink)
    task = asyncio.ensure_future(engine.execute(train.definition, "", run=run))
    await sink.heard.wait()
    return run, int(sink.lines[0].message), task


async def test_a_process_killed_from_outside_is_a_failure() -> None:
    _, pid, task = await running(trains.Hanging, Engine())
    os.kill(pid, signal.SIGKILL)
    outcome = await task

    assert isinstance(outcome, Failed)
    assert outcome.junction == "announce_and_hang"
    assert isinstance(outcome.exception, TrainProcessError)


async def test_a_request_to_cancel_reaches_the_child() -> None:
    run, _, task = await running(trains.Waiting, Engine())
    run.request_cancel(CancelledBy.OPERATOR, "enough")
    outcome = await task

    assert isinstance(outcome, Cancelled)
    assert (outcome.by, outcome.reason, outcome.junction) == (
        CancelledBy.OPERATOR,
        "enough",
        "announce_and_wait",
    )


async def test_a_child_that_does_not_stop_within_the_grace_is_killed() -> None:
    runner = ProcessRunner(cancel_grace=timedelta(milliseconds=50))
    run, pid, task = await running(trains.Hanging, runner)
    run.request_cancel(CancelledBy.TIMEOUT, "too long")
    outcome = await task

    assert isinstance(outcome, Cancelled)
    assert outcome.by is CancelledBy.TIMEOUT
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_a_child_is_killed_when_the_task_that_waits_for_it_is_cancelled() -> None:
    _, pid, task = await running(trains.Hanging, Engine())
    process = psutil.Process(pid)
    assert process.is_running()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    gone, alive = await asyncio.to_thread(psutil.wait_procs, [process], 30)
    assert (len(gone), alive) == (1, [])


async def test_a_process_is_used_again_and_makes_its_provided_values_itself(engine: Engine) -> None:
    definition = trains.host.registry.get("stamp")
    first = await engine.execute(definition, Order(number=1), run=Run())
    second = await engine.execute(definition, Order(number=2), run=Run())

    assert isinstance(first, Completed)
    assert isinstance(second, Completed)
    assert isinstance(first.value, Receipt)
    assert first.value.pid == second.value.pid != os.getpid()


async def test_an_isolated_run_has_a_process_of_its_own_whatever_its_train_says(engine: Engine) -> None:
    definition = trains.host.registry.get("stamp_here")
    here = await engine.execute(definition, Order(number=1), run=Run())
    one = await engine.execute(definition, Order(number=1), run=Run(), together=RunSet(1))
    two = await engine.execute(definition, Order(number=1), run=Run(), together=RunSet(1))

    assert isinstance(here, Completed)
    assert isinstance(one, Completed)
    assert isinstance(two, Completed)
    assert len({here.value.pid, one.value.pid, two.value.pid}) == 3
    assert here.value.pid == os.getpid()


async def test_after_a_child_died_the_next_run_gets_another(engine: Engine) -> None:
    died = await engine.execute(trains.KillingItself.definition, Order(number=1), run=Run())
    lives = await engine.execute(trains.host.registry.get("stamp"), Order(number=1), run=Run())

    assert isinstance(died, Failed)
    assert isinstance(lives, Completed)


async def test_a_train_that_cannot_be_imported_says_so() -> None:
    async def compute(number: int) -> int:
        return number

    class Local(Train[int, int]):
        process = True
        route = (compute,)

    with pytest.raises(TrainProcessError, match="top level of a module"):
        await Local.run(1)


async def test_a_host_that_cannot_be_imported_is_a_failure() -> None:
    engine = Engine(host="no_such_module:app")
    outcome = await engine.execute(trains.host.registry.get("stamp"), Order(number=1), run=Run())
    await engine.close()

    assert isinstance(outcome, Failed)
    assert "no_such_module" in outcome.reason


async def has_begun(run: Run) -> bool:
    return run.begun_ns > 0


def step(number: int, **does: object) -> trains.Step:
    return trains.Step.model_validate({"number": number, **does})


async def test_a_set_shares_a_process_and_what_ended_before_its_death_keeps_its_end(
    engine: Engine, tmp_path: Path
) -> None:
    definition, go = trains.host.registry.get("take_step"), tmp_path / "go"
    steps = [
        step(1),
        step(2),
        step(3, waits_for=str(tmp_path / "never")),
        step(4, waits_for=str(go), exit_code=0),
    ]
    with engine.isolation(len(steps)) as together:
        runs = [
            asyncio.ensure_future(
                engine.execute(definition, each, run=Run(train="take_step"), together=together)
            )
            for each in steps
        ]
        first, second = await asyncio.gather(*runs[:2])
        go.touch()
        lost = await asyncio.gather(*runs[2:])

    assert isinstance(first, Completed)
    assert isinstance(second, Completed)
    assert first.value == second.value != os.getpid()
    for outcome in lost:
        assert isinstance(outcome, Failed)
        assert isinstance(outcome.exception, TrainProcessError)
        assert outcome.exception.process_exit_code == 0
        assert "ended with code 0 before the train ended" in outcome.reason


@pytest.mark.parametrize(
    ("does", "words"),
    [
        ({"signal": signal.SIGTERM}, "SIGTERM"),
        ({"signal": signal.SIGABRT}, "SIGABRT"),
        ({"signal": signal.SIGRTMIN + 3}, f"signal {signal.SIGRTMIN + 3}"),
        ({"exit_code": 0}, "code 0"),
        ({"exit_code": 7}, "code 7"),
    ],
)
async def test_every_death_of_a_process_is_that_runs_failure_with_its_evidence(
    engine: Engine, does: dict[str, object], words: str
) -> None:
    outcome = await engine.execute(
        trains.host.registry.get("take_step"), step(1, **does), run=Run(train="take_step")
    )

    assert isinstance(outcome, Failed)
    assert words in outcome.reason
    assert outcome.junction == "take_step"


@pytest.mark.parametrize("train", ["take_step", "take_step_on_the_loop"])
@pytest.mark.parametrize("seconds", [0.0, 600.0])
async def test_a_job_that_closes_the_pipe_of_its_process_fails_at_once(
    engine: Engine, tmp_path: Path, train: str, seconds: float
) -> None:
    """Whether it ends or goes on; a file that it opens then gets the pipe's number, and no message."""
    opened = tmp_path / "opened"
    outcome = await asyncio.wait_for(
        engine.execute(
            trains.host.registry.get(train),
            step(1, closes=True, opens=str(opened), seconds=seconds),
            run=Run(train=train),
        ),
        timeout=60,
    )

    assert isinstance(outcome, Failed)
    assert "closed its connection to the worker" in outcome.reason
    assert outcome.junction == train
    assert not opened.exists() or opened.read_bytes() == b"", "it may be ended before it opens the file"


async def test_closing_all_descriptors_closes_the_pipe_even_if_the_parent_has_many_open(
    engine: Engine, tmp_path: Path
) -> None:
    """Else the event loop of the process is dead, the pipe open, and the run never ends."""
    taken = [os.open(tmp_path, os.O_RDONLY) for _ in range(200)]
    try:
        outcome = await asyncio.wait_for(
            engine.execute(
                trains.host.registry.get("take_step"), step(1, closes=True), run=Run(train="take_step")
            ),
            timeout=60,
        )
    finally:
        for descriptor in taken:
            os.close(descriptor)

    assert isinstance(outcome, Failed)
    assert "closed its connection to the worker" in outcome.reason


async def test_a_process_that_outlives_its_pipe_is_killed(engine: Engine) -> None:
    """As where the descriptor is closed before anything reads from it."""
    sink = ListeningSink()
    task = asyncio.ensure_future(
        engine.execute(trains.host.registry.get("shut_down_pipes"), 600.0, run=Run(sink=sink))
    )
    outcome = await asyncio.wait_for(task, timeout=60)

    assert isinstance(outcome, Failed)
    assert "closed its connection to the worker" in outcome.reason
    with pytest.raises(ProcessLookupError):
        os.kill(int(sink.lines[0].message), 0)


async def test_waiting_for_a_process_is_not_running_and_can_be_cancelled(tmp_path: Path) -> None:
    engine, go = Engine(host=trains.PLACE, max_processes=1), tmp_path / "go"
    definition = trains.host.registry.get("take_step")
    runs = [Run(train="take_step") for _ in range(3)]
    tasks = [
        asyncio.ensure_future(engine.execute(definition, step(1, waits_for=str(go)), run=run)) for run in runs
    ]
    await eventually(lambda: has_begun(runs[0]), "the first run has begun")
    assert [run.is_waiting for run in runs] == [False, True, True]
    assert (engine.places.total, engine.places.free) == (1, 0)

    runs[1].request_cancel(CancelledBy.OPERATOR, "enough")
    cancelled = await tasks[1]
    begun_late = time.perf_counter_ns()
    go.touch()
    first, last = await asyncio.gather(tasks[0], tasks[2])
    await engine.close()

    assert isinstance(cancelled, Cancelled)
    assert cancelled.junction is None
    assert isinstance(first, Completed)
    assert isinstance(last, Completed)
    assert runs[2].counts_from_ns > begun_late
    assert engine.places.free == 1


class Scarce:
    """Starts processes, after the host has refused some."""

    def __init__(self, refusals: float, code: int = errno.EMFILE) -> None:
        self.refusals = refusals
        self.code = code
        self.tries = 0

    def __call__(self, place: str) -> ChildProcess:
        self.tries += 1
        if self.tries <= self.refusals:
            raise OSError(self.code, os.strerror(self.code))
        return ChildProcess(place)


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN])
async def test_a_run_waits_while_the_host_has_no_process_for_it(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    start = Scarce(2, code)
    monkeypatch.setattr("gandy.train.process.runner.ChildProcess", start)

    outcome = await engine.execute(trains.host.registry.get("stamp"), Order(number=1), run=Run())

    assert isinstance(outcome, Completed)
    assert start.tries == 3


async def test_a_run_that_waits_for_the_host_can_be_cancelled(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, run = Scarce(inf), Run()
    monkeypatch.setattr("gandy.train.process.runner.ChildProcess", start)
    running = asyncio.ensure_future(
        engine.execute(trains.host.registry.get("stamp"), Order(number=1), run=run)
    )

    async def has_tried() -> bool:
        return start.tries > 0

    await eventually(has_tried, "a process was refused")
    run.request_cancel(CancelledBy.OPERATOR)

    assert isinstance(await running, Cancelled)


async def test_a_process_that_never_can_be_started_fails_its_run(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gandy.train.process.runner.ChildProcess", Scarce(inf, errno.ENOENT))

    outcome = await engine.execute(trains.host.registry.get("stamp"), Order(number=1), run=Run())

    assert isinstance(outcome, Failed)
    assert isinstance(outcome.exception, TrainProcessError)


async def test_a_run_that_hogs_the_interpreter_is_killed_and_never_completed() -> None:
    runner = ProcessRunner(host=trains.PLACE, cancel_grace=timedelta(milliseconds=100))
    sink = ListeningSink()
    run = Run(train="burn", sink=sink)
    task = asyncio.ensure_future(runner.execute(trains.host.registry.get("burn"), 60.0, run=run))
    await sink.heard.wait()
    run.request_cancel(CancelledBy.TIMEOUT, "too long")
    outcome = await task

    assert isinstance(outcome, Cancelled)
    with pytest.raises(ProcessLookupError):
        os.kill(int(sink.lines[0].message), 0)
    await runner.close()


async def test_an_end_that_comes_after_the_request_to_cancel_is_a_cancellation() -> None:
    runner = ProcessRunner(host=trains.PLACE)
    sink = ListeningSink()
    run = Run(train="burn", sink=sink)
    task = asyncio.ensure_future(runner.execute(trains.host.registry.get("burn"), 0.3, run=run))
    await sink.heard.wait()
    run.request_cancel(CancelledBy.OPERATOR, "enough")
    outcome = await task
    await runner.close()

    assert isinstance(outcome, Cancelled)
    assert outcome.by is CancelledBy.OPERATOR
