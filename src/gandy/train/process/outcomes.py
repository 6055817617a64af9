"""Outcomes on their way from a train's process to its parent."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final, assert_never

from gandy.errors import RemoteJunctionError
from gandy.model.run import Cancelled, Completed, Failed, Outcome, RetryRequest
from gandy.train.failure import failure
from gandy.train.giving_up import gives_up
from gandy.train.process.messages import Ended, EndedBadly, EndedStopped, EndedWell

if TYPE_CHECKING:
    from gandy.train.definition import TrainDefinition
    from gandy.train.inside.run import Run

MAX_ARGUMENT_CHARS: Final = 10_000
MAX_ARGUMENT_BITS: Final = 63
_arguments_of = BaseException.__dict__["args"].__get__  # a subclass may hide them behind code of its own


def to_message(
    outcome: Outcome[Any], definition: TrainDefinition[Any, Any], run: Run, *, ticket: int
) -> Ended:
    """Put an outcome into a message; an output that has no JSON form is a failure."""
    match outcome:
        case Completed():
            return _completed(outcome, definition, run, ticket=ticket)
        case Failed():
            return failed_message(outcome, ticket, definition.options.give_up_on)
        case Cancelled():
            return EndedStopped(
                ticket=ticket,
                by=outcome.by,
                reason=outcome.reason,
                junction=outcome.junction,
                timings=outcome.timings,
            )
        case _:
            assert_never(outcome)


def failed_message(failed: Failed, ticket: int, given_up_on: tuple[type[Exception], ...] = ()) -> EndedBadly:
    """Put a failure into a message; whether it is given up on is asked here, where the exception is."""
    return EndedBadly(
        ticket=ticket,
        junction=failed.junction,
        exception_type=failed.exception_type,
        arguments=_plain_arguments(failed.exception),
        reason=failed.reason,
        stack_trace=failed.stack_trace,
        wants_retry=failed.retry is not None,
        retry_after=failed.retry.after if failed.retry else None,
        gives_up=gives_up(failed.exception, given_up_on),
        timings=failed.timings,
    )


def from_message(ended: Ended, definition: TrainDefinition[Any, Any], run: Run) -> Outcome[Any]:
    """Take an outcome out of a message."""
    match ended:
        case EndedWell():
            value = definition.output.decode(ended.output_json)
            return Completed(value, ended.timings, ended.ended_early_by)
        case EndedStopped():
            return Cancelled(ended.by, ended.reason, ended.junction, ended.timings)
        case EndedBadly():
            return Failed(
                exception=_rebuilt(ended),
                junction=ended.junction,
                exception_type=ended.exception_type,
                reason=run.without_secrets(ended.reason),
                stack_trace=run.without_secrets(ended.stack_trace),
                timings=ended.timings,
                retry=RetryRequest(ended.retry_after) if ended.wants_retry else None,
                gives_up=ended.gives_up,
            )
        case _:
            assert_never(ended)


def _completed(
    outcome: Completed[Any], definition: TrainDefinition[Any, Any], run: Run, *, ticket: int
) -> Ended:
    try:
        output_json = definition.output.encode(outcome.value)
    except BaseException as error:  # noqa: BLE001 - the output's type has code of its own
        failed = failure(error, run, junction=run.junction, timings=outcome.timings)
        return failed_message(failed, ticket, definition.options.give_up_on)
    return EndedWell(
        ticket=ticket,
        output_json=output_json,
        ended_early_by=outcome.ended_early_by,
        timings=outcome.timings,
    )


def _plain_arguments(exception: BaseException) -> tuple[str | int | float | bool | None, ...] | None:
    arguments = _arguments_of(exception)
    return tuple(arguments) if all(map(_is_plain, arguments)) else None


def _is_plain(argument: object) -> bool:
    if type(argument) is str:
        return len(argument) <= MAX_ARGUMENT_CHARS
    if type(argument) is int:
        return argument.bit_length() <= MAX_ARGUMENT_BITS
    return argument is None or type(argument) in {float, bool}


def _rebuilt(ended: EndedBadly) -> BaseException:
    """Make the original exception again where its class is loaded here and takes its plain arguments."""
    kind = _loaded_exception(ended.exception_type)
    if kind is not None and ended.arguments is not None:
        try:
            exception = kind(*ended.arguments)
            exception.add_note(ended.stack_trace)
        except BaseException:  # noqa: BLE001 - the constructor asks for more: the stand-in tells the same
            return RemoteJunctionError(exception_type=ended.exception_type, reason=ended.reason)
        return exception
    return RemoteJunctionError(exception_type=ended.exception_type, reason=ended.reason)


def _loaded_exception(path: str) -> type[Exception] | None:
    """Find an exception class among the modules that are already loaded; nothing is imported for a name."""
    module, _, name = path.rpartition(".")
    kind = getattr(sys.modules.get(module or "builtins"), name, None)
    return kind if isinstance(kind, type) and issubclass(kind, Exception) else None
