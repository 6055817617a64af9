"""The log of a worker names failures, a bounded number of them for each set of ends."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from gandy.events import EventBus
from gandy.model.run import Failure, TrainState
from gandy.train.hooks import HookDelivery, Hooks
from gandy.work.announcing import MOST_CHARACTERS, MOST_FAILURES, announce_ends

if TYPE_CHECKING:
    import pytest

    from gandy.store.finishing import FinishResult
    from gandy.work.runner import FinishedRun


def ended(run_id: int, state: TrainState, reason: str = "no such address") -> FinishedRun:
    failure = Failure("send", "ValueError", reason) if state is TrainState.FAILED else None
    claimed = SimpleNamespace(id=run_id, train="send")
    return cast(
        "FinishedRun", SimpleNamespace(claimed=claimed, end=SimpleNamespace(state=state, failure=failure))
    )


def recorded(*run_ids: int) -> FinishResult:
    found = SimpleNamespace(
        finished=dict.fromkeys(run_ids),
        refused=(),
        overruled=(),
        refused_activations={},
        letters={},
        parked=(),
    )
    return cast("FinishResult", found)


def announced(caplog: pytest.LogCaptureFixture, *ends: FinishedRun, result: FinishResult) -> list[str]:
    announce_ends(ends, result, events=EventBus(), hooks=HookDelivery(Hooks(), timeout=timedelta(seconds=1)))
    return [record.getMessage() for record in caplog.records]


def test_the_first_failures_of_a_set_are_logged_and_the_others_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    runs = range(1, MOST_FAILURES + 4)
    ends = [ended(run, TrainState.FAILED) for run in runs]

    lines = announced(caplog, *ends, ended(99, TrainState.COMPLETED), result=recorded(*runs, 99))

    assert lines[0] == "run 1 of send failed: ValueError: no such address"
    assert lines[MOST_FAILURES:] == ["3 more runs failed"]


def test_a_failure_that_was_not_recorded_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    assert announced(caplog, ended(1, TrainState.FAILED), result=recorded()) == []


def test_a_long_reason_is_cut(caplog: pytest.LogCaptureFixture) -> None:
    [line] = announced(caplog, ended(1, TrainState.FAILED, "x" * 10_000), result=recorded(1))

    assert len(line) < MOST_CHARACTERS + 50


def test_a_reason_of_several_lines_is_one_line(caplog: pytest.LogCaptureFixture) -> None:
    reason = "no such street\r\n2026-01-01 INFO a forged line\u2028"

    [line] = announced(caplog, ended(1, TrainState.FAILED, reason), result=recorded(1))

    assert line.splitlines() == [line]
    assert "no such street\\r\\n2026-01-01 INFO" in line
    [long] = announced(caplog, ended(2, TrainState.FAILED, "\n" * 10_000), result=recorded(2))[1:]
    assert len(long) < MOST_CHARACTERS + 50
