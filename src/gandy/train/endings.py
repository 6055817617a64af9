"""Describe and encode the ends of runs."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, assert_never

from gandy.errors import PayloadError
from gandy.model.layout import MASK, Layouts
from gandy.model.run import Cancelled, CancelledBy, Completed, EndedBy, Failed, Failure, TrainState
from gandy.train.failure import gives_up, message_of, type_path

if TYPE_CHECKING:
    from datetime import timedelta

    from gandy.model.layout import Json
    from gandy.model.run import Outcome, Timings
    from gandy.train.registry import AnyTrain
    from gandy.train.run import Run


class Ending(NamedTuple):
    """The recorded part of an outcome."""

    state: TrainState
    ended_by: EndedBy
    junctions_json: str
    output_json: str | None = None
    failure: Failure | None = None
    retry_after: timedelta | None = None
    gives_up: bool = False


def describe(outcome: Outcome[object], definition: AnyTrain | None, *, max_output_bytes: int) -> Ending:
    """Return the record of an outcome; an output that cannot be stored fails the run."""
    junctions = encode_timings(outcome.timings)
    match outcome:
        case Completed():
            return _completed(outcome, definition, junctions=junctions, max_output_bytes=max_output_bytes)
        case Failed():
            failure = Failure(outcome.junction, outcome.exception_type, outcome.reason, outcome.stack_trace)
            after = outcome.retry.after if outcome.retry else None
            return Ending(
                TrainState.FAILED,
                EndedBy.ITSELF,
                junctions,
                failure=failure,
                retry_after=after,
                gives_up=_gives_up(outcome, definition),
            )
        case Cancelled():
            return _stopped(outcome, junctions)
        case _:
            assert_never(outcome)


def bare_failure(outcome: Failed) -> Ending:
    """Return the record of a failure alone, for which nothing is encoded."""
    failure = Failure(outcome.junction, outcome.exception_type, outcome.reason, outcome.stack_trace)
    return Ending(TrainState.FAILED, EndedBy.ITSELF, "[]", failure=failure)


def without_secrets(ending: Ending, run: Run, definition: AnyTrain | None) -> Ending:
    """Mask the input's secrets in everything that is recorded; secrets of the output's type are stored."""
    failure = ending.failure
    if failure is not None:
        failure = Failure(
            failure.junction,
            run.without_secrets(failure.exception),
            run.without_secrets(failure.reason),
            None if failure.stack_trace is None else run.without_secrets(failure.stack_trace),
        )
    output = ending.output_json
    if output is not None and definition is not None and run.without_secrets(output) != output:
        output = _without_secrets(output, run, Layouts([definition.output.layout]))
    return ending._replace(failure=failure, output_json=output)


class _Own(NamedTuple):
    """A secret declared by the output's type: it is stored, and masked wherever it is shown."""

    value: Json


def _without_secrets(output: str, run: Run, layouts: Layouts) -> str:
    def cleaned(value: Json) -> Json:
        match value:
            case _Own():
                return value.value
            case dict():
                return {run.without_secrets(key): cleaned(each) for key, each in value.items()}
            case list():
                return [cleaned(each) for each in value]
            case str():
                return run.without_secrets(value)
            case _:
                text = json.dumps(value)
                return value if run.without_secrets(text) == text else MASK

    value = cleaned(layouts.replaced(json.loads(output), _Own))
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _gives_up(outcome: Failed, definition: AnyTrain | None) -> bool:
    """Prefer the verdict of the child process: here the exception may be only a stand-in of another class."""
    if outcome.gives_up or definition is None:
        return outcome.gives_up
    return gives_up(outcome.exception, definition.options.give_up_on)


def encode_timings(timings: Timings) -> str:
    """Write junction timings as JSON, in microseconds from the start of the run."""
    parts = [
        f'{{"junction":{_quoted(junction)},"started_us":{started // 1_000},"took_us":{duration // 1_000}}}'
        for junction, started, duration in timings
    ]
    return f"[{','.join(parts)}]"


def _completed(
    outcome: Completed[object], definition: AnyTrain | None, *, junctions: str, max_output_bytes: int
) -> Ending:
    try:
        output = definition.output.encode(outcome.value, limit=max_output_bytes) if definition else None
    except PayloadError as error:
        failure = Failure(outcome.ended_early_by, type(error).__name__, message_of(error))
        return Ending(TrainState.FAILED, EndedBy.ITSELF, junctions, failure=failure)
    except KeyboardInterrupt as error:  # raised by code of the output's type, not by Ctrl-C
        failure = Failure(outcome.ended_early_by, type_path(type(error)), message_of(error))
        return Ending(TrainState.FAILED, EndedBy.ITSELF, junctions, failure=failure)
    return Ending(TrainState.COMPLETED, EndedBy.ITSELF, junctions, output)


def _stopped(outcome: Cancelled, junctions: str) -> Ending:
    """Record a stopped run as cancelled or failed, depending on the reason."""
    match outcome.by:
        case CancelledBy.TIMEOUT:
            failure = Failure(outcome.junction, "TimedOut", outcome.reason or "the run exceeded its timeout")
            return Ending(TrainState.FAILED, EndedBy.TIMEOUT, junctions, failure=failure)
        case CancelledBy.SHUTDOWN:
            failure = Failure(outcome.junction, "Interrupted", outcome.reason or "its worker was shut down")
            return Ending(TrainState.FAILED, EndedBy.SHUTDOWN, junctions, failure=failure)
        case CancelledBy.LEASE_LOST:
            failure = Failure(outcome.junction, "WorkerLost", outcome.reason or "its worker lost the lease")
            return Ending(TrainState.FAILED, EndedBy.LOST_WORKER, junctions, failure=failure)
        case CancelledBy.OPERATOR | CancelledBy.CALLER | CancelledBy.RUN:
            by = EndedBy.OPERATOR if outcome.by is CancelledBy.OPERATOR else EndedBy.ITSELF
            failure = Failure(outcome.junction, "Cancelled", outcome.reason or f"cancelled by {outcome.by}")
            return Ending(TrainState.CANCELLED, by, junctions, failure=failure)
        case _:
            assert_never(outcome.by)


@lru_cache(maxsize=4096)
def _quoted(junction: str) -> str:
    return json.dumps(junction)
