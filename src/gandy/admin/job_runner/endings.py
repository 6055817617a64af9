"""From the outcome of a train to what is recorded of its run."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, assert_never

from gandy.errors import PayloadError
from gandy.model.outcome import Cancelled, CancelledBy, Completed, Failed
from gandy.model.run import EndedBy, Failure, TrainState
from gandy.train.failure import type_path, words_of

if TYPE_CHECKING:
    from datetime import timedelta

    from gandy.model.outcome import Outcome, Timings
    from gandy.train.registry import AnyTrain


class Ending(NamedTuple):
    """The recorded part of an outcome."""

    state: TrainState
    ended_by: EndedBy
    junctions_json: str
    output_json: str | None = None
    failure: Failure | None = None
    retry_after: timedelta | None = None


def describe(outcome: Outcome[object], definition: AnyTrain | None, *, max_output_bytes: int) -> Ending:
    """Say what is recorded; an output that cannot be stored fails the run."""
    junctions = encode_timings(outcome.timings)
    match outcome:
        case Completed():
            return _completed(outcome, definition, junctions=junctions, max_output_bytes=max_output_bytes)
        case Failed():
            failure = Failure(outcome.junction, outcome.exception_type, outcome.reason, outcome.stack_trace)
            after = outcome.retry.after if outcome.retry else None
            return Ending(TrainState.FAILED, EndedBy.ITSELF, junctions, failure=failure, retry_after=after)
        case Cancelled():
            return _stopped(outcome, junctions)
        case _:
            assert_never(outcome)


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
        failure = Failure(outcome.ended_early_by, type(error).__name__, words_of(error))
        return Ending(TrainState.FAILED, EndedBy.ITSELF, junctions, failure=failure)
    except KeyboardInterrupt as error:  # raised by the code of the output's type
        failure = Failure(outcome.ended_early_by, type_path(type(error)), words_of(error))
        return Ending(TrainState.FAILED, EndedBy.ITSELF, junctions, failure=failure)
    return Ending(TrainState.COMPLETED, EndedBy.ITSELF, junctions, output)


def _stopped(outcome: Cancelled, junctions: str) -> Ending:
    """Why a run was stopped decides whether that is a cancellation or a failure."""
    match outcome.by:
        case CancelledBy.TIMEOUT:
            failure = Failure(
                outcome.junction, "TimedOut", outcome.reason or "the run took longer than it may"
            )
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
