"""The messages between parent and child process."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from datetime import (
    datetime,  # noqa: TC003 - pydantic reads the fields
    timedelta,  # noqa: TC003 - pydantic reads the fields
)
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias, assert_never

from pydantic import Field, TypeAdapter

from gandy.errors import RemoteJunctionError
from gandy.model.run import (
    Cancelled,
    CancelledBy,
    Completed,
    Failed,
    JunctionTiming,
    Outcome,
    RetryRequest,
)
from gandy.train.failure import failure, gives_up

if TYPE_CHECKING:
    from gandy.train.definition import TrainDefinition
    from gandy.train.run import Run


PIPE_LOST: Final = 76  # the exit code of a child without its pipe (EX_PROTOCOL)


@dataclass(frozen=True, slots=True, kw_only=True)
class StartMessage:
    """Run this train with this input."""

    kind: Literal["start"] = "start"
    ticket: int
    train: str
    input_json: str
    id: int
    manifest: str | None
    due_at: datetime | None
    attempt: int
    fence: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """Cancel the run."""

    kind: Literal["stop"] = "stop"
    ticket: int
    by: CancelledBy
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Leave:
    """End after closing the provided values."""

    kind: Literal["leave"] = "leave"


@dataclass(frozen=True, slots=True, kw_only=True)
class Began:
    """The application is imported and its values are made: the code of the train begins."""

    kind: Literal["began"] = "began"
    ticket: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Entered:
    """A junction begins."""

    kind: Literal["entered"] = "entered"
    ticket: int
    junction: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Logged:
    """The run wrote a line."""

    kind: Literal["logged"] = "logged"
    ticket: int
    level: str
    logger: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Progressed:
    """The run reports its progress."""

    kind: Literal["progressed"] = "progressed"
    ticket: int
    done: int
    total: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Activated:
    """The run activates a dormant dependent."""

    kind: Literal["activated"] = "activated"
    ticket: int
    external_id: str
    input_json: str | None
    checked_by: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedWell:
    """The train completed."""

    kind: Literal["completed"] = "completed"
    ticket: int
    output_json: str
    ended_early_by: str | None
    timings: tuple[JunctionTiming, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedBadly:
    """The train failed; the exception is sent as texts, and as arguments if these are plain values."""

    kind: Literal["failed"] = "failed"
    ticket: int
    junction: str | None
    exception_type: str
    arguments: tuple[str | int | float | bool | None, ...] | None
    reason: str
    stack_trace: str
    wants_retry: bool
    retry_after: timedelta | None
    gives_up: bool = False
    timings: tuple[JunctionTiming, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedStopped:
    """The train was cancelled."""

    kind: Literal["cancelled"] = "cancelled"
    ticket: int
    by: CancelledBy
    reason: str
    junction: str | None
    timings: tuple[JunctionTiming, ...]


Ended: TypeAlias = EndedWell | EndedBadly | EndedStopped
Report: TypeAlias = Began | Entered | Logged | Progressed | Activated
ToChild: TypeAlias = StartMessage | Stop | Leave
ToParent: TypeAlias = Report | Ended

_to_child: Final[TypeAdapter[ToChild]] = TypeAdapter(Annotated[ToChild, Field(discriminator="kind")])
_to_parent: Final[TypeAdapter[ToParent]] = TypeAdapter(Annotated[ToParent, Field(discriminator="kind")])

encode_to_child = _to_child.dump_json
decode_to_child = _to_child.validate_json


def encode_to_parent(message: ToParent) -> bytes:
    """Encode a message; escape lone surrogates in texts of a job, which UTF-8 cannot encode."""
    try:
        return _to_parent.dump_json(message)
    except ValueError:
        return json.dumps(_to_parent.dump_python(message, mode="json")).encode()


def decode_to_parent(raw: bytes) -> ToParent:
    """Decode a message, also one with escaped lone surrogates."""
    try:
        return _to_parent.validate_json(raw)
    except ValueError:
        return _to_parent.validate_python(json.loads(raw))


MAX_ARGUMENT_CHARS: Final = 10_000
MAX_ARGUMENT_BITS: Final = 63
_arguments_of = BaseException.__dict__["args"].__get__  # a subclass may override args


def to_message(
    outcome: Outcome[Any], definition: TrainDefinition[Any, Any], run: Run, *, ticket: int
) -> Ended:
    """Convert an outcome to a message; an output without a JSON form is a failure."""
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
    """Convert a failure to a message; `given_up_on` is checked here, where the original exception is."""
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
    """Convert a message to an outcome."""
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
    except BaseException as error:  # noqa: BLE001 - code of the output's type may raise anything
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
    """Rebuild the original exception if its class is loaded here and accepts its plain arguments."""
    kind = _loaded_exception(ended.exception_type)
    if kind is not None and ended.arguments is not None:
        try:
            exception = kind(*ended.arguments)
            if exception.args != ended.arguments:  # it makes its text of other values, which are not sent
                exception = kind.__new__(kind, *ended.arguments)
            exception.add_note(ended.stack_trace)
        except BaseException:  # noqa: BLE001 - the constructor needs other arguments: use the stand-in
            return RemoteJunctionError(exception_type=ended.exception_type, reason=ended.reason)
        return exception
    return RemoteJunctionError(exception_type=ended.exception_type, reason=ended.reason)


def _loaded_exception(path: str) -> type[Exception] | None:
    """Find an exception class among the loaded modules; import nothing."""
    module, _, name = path.rpartition(".")
    kind = getattr(sys.modules.get(module or "builtins"), name, None)
    return kind if isinstance(kind, type) and issubclass(kind, Exception) else None
