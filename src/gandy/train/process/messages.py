"""What a parent and the process of a train say to each other: JSON over a pipe, nothing pickled.

A process may run several trains at once: a ticket, given by the parent, names the run of a message.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime, timedelta  # noqa: TC003 - pydantic reads the fields
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import Field, TypeAdapter

from gandy.model.run import CancelledBy, JunctionTiming  # noqa: TC001 - pydantic reads the fields

PIPE_LOST: Final = 76  # the exit code of a process that can say nothing more (EX_PROTOCOL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
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
    """There is nothing more to do: close what you opened and end."""

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
    """The run reports how far it is."""

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
    """The train failed; the exception travels as texts, and as arguments where these are plain."""

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
ToChild: TypeAlias = Start | Stop | Leave
ToParent: TypeAlias = Report | Ended

_to_child: Final[TypeAdapter[ToChild]] = TypeAdapter(Annotated[ToChild, Field(discriminator="kind")])
_to_parent: Final[TypeAdapter[ToParent]] = TypeAdapter(Annotated[ToParent, Field(discriminator="kind")])

encode_to_child = _to_child.dump_json
decode_to_child = _to_child.validate_json


def encode_to_parent(message: ToParent) -> bytes:
    """Write a message; texts of a job may hold what UTF-8 cannot, which only escapes carry."""
    try:
        return _to_parent.dump_json(message)
    except ValueError:
        return json.dumps(_to_parent.dump_python(message, mode="json")).encode()


def decode_to_parent(raw: bytes) -> ToParent:
    """Read a message, also one with escapes that stand for no character."""
    try:
        return _to_parent.validate_json(raw)
    except ValueError:
        return _to_parent.validate_python(json.loads(raw))
