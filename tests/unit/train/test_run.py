from __future__ import annotations

import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest
from pydantic import SecretStr

from gandy.errors import NoCurrentRunError
from gandy.model.run import Activation
from gandy.train.base import Train
from gandy.train.execution import execute
from gandy.train.log import RunLogHandler
from gandy.train.run import MemorySink, Progress, Run, RunLimits, current_run, running_now
from gandy.train.threads import ThreadPool

THREADS = ThreadPool(2, "test-junction")


@pytest.fixture
def sink() -> MemorySink:
    return MemorySink()


@pytest.fixture
def captured_logging() -> Iterator[None]:
    handler, root = RunLogHandler(running_now), logging.getLogger()
    root.addHandler(handler)
    yield
    root.removeHandler(handler)


def messages(sink: MemorySink) -> list[tuple[str, str, str]]:
    return [(line.level, line.logger, line.message) for line in sink.lines]


def test_outside_of_a_run_there_is_no_current_run() -> None:
    assert running_now() is None
    with pytest.raises(NoCurrentRunError, match="inside a junction"):
        current_run()


def test_lines_of_every_level_are_kept_whatever_logging_is_set_to(sink: MemorySink) -> None:
    log = Run(sink=sink).log
    log.debug("one %s", 1)
    log.info("two")
    log.warning("three %d%%", 3)
    log.error("four")

    assert messages(sink) == [
        ("DEBUG", "gandy.run", "one 1"),
        ("INFO", "gandy.run", "two"),
        ("WARNING", "gandy.run", "three 3%"),
        ("ERROR", "gandy.run", "four"),
    ]


def test_an_exception_is_kept_with_its_traceback(sink: MemorySink) -> None:
    try:
        int("bad")
    except ValueError:
        Run(sink=sink).log.exception("it failed")

    assert sink.lines[0].level == "ERROR"
    assert sink.lines[0].message.startswith("it failed\nTraceback")
    assert sink.lines[0].message.endswith("'bad'")


def test_a_bad_format_does_not_fail_the_run(sink: MemorySink) -> None:
    Run(sink=sink).log.info("%d items", "many")

    assert sink.lines[0].message == "%d items ('many',)"


def test_lines_are_bounded_in_number_and_length(sink: MemorySink) -> None:
    run = Run(sink=sink, limits=RunLimits(max_lines=3, max_line_chars=10))
    for _ in range(10):
        run.log.info("y" * 50)

    assert len(sink.lines) == 4
    assert sink.lines[0].message == "y" * 10 + " ... (40 characters more)"
    assert sink.lines[3].level == "WARNING"


def test_lines_from_many_threads_are_counted_exactly(sink: MemorySink) -> None:
    run = Run(sink=sink, limits=RunLimits(max_lines=500))
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(run.log.info, ["line"] * 1000))

    assert len(sink.lines) == 501


@pytest.mark.usefixtures("captured_logging")
async def test_ordinary_logging_inside_a_run_is_kept_with_it_and_outside_is_not(sink: MemorySink) -> None:
    logger = logging.getLogger("app.invoices")

    def in_thread(number: int) -> float:
        logger.warning("thread %s", number)
        return float(number)

    async def on_loop(number: float, run: Run) -> None:
        logger.error("loop %s", number)
        run.log.error("own line")

    class Logging(Train[int, None]):
        route = (in_thread, on_loop)

    logger.warning("before")
    await execute(Logging.definition.plan, 1, run=Run(sink=sink), threads=THREADS)
    logger.warning("after")

    assert messages(sink) == [
        ("WARNING", "app.invoices", "thread 1"),
        ("ERROR", "app.invoices", "loop 1.0"),
        ("ERROR", "gandy.run", "own line"),
    ]


def test_own_lines_are_passed_on_to_ordinary_logging(caplog: pytest.LogCaptureFixture) -> None:
    Run().log.warning("seen by %s", "all")

    assert [(record.name, record.message) for record in caplog.records] == [("gandy.run", "seen by all")]


def test_progress_and_activations_reach_the_sink(sink: MemorySink) -> None:
    @dataclass
    class Delta:
        table: str
        token: SecretStr

    run = Run(sink=sink)
    run.progress(3, 10)
    run.progress(4)
    run.activate("delta-7", Delta("users", SecretStr("s3cret")))
    run.activate("delta-8", {"table": "orders"})
    run.activate("delta-9")
    run.activate("delta-10", None)

    assert sink.progress == Progress(4, None)
    assert sink.activations == [
        Activation("delta-7", '{"table":"users","token":"s3cret"}'),
        Activation("delta-8", '{"table":"orders"}'),
        Activation("delta-9", None),
        Activation("delta-10", "null"),
    ]


def test_known_secrets_are_masked_in_lines(sink: MemorySink) -> None:
    run = Run(sink=sink)
    run.hide(("hunter22", "abc"))
    run.log.info("the password is hunter22, the pin abc")

    assert sink.lines[0].message == "the password is **********, the pin abc"


def test_lines_carry_their_distance_from_the_start(sink: MemorySink) -> None:
    run = Run(sink=sink)
    run.log.info("one")
    run.log.info("two")

    assert 0 <= sink.lines[0].offset_ns <= sink.lines[1].offset_ns
