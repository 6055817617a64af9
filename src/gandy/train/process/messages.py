"""What a parent and the process of a train say to each other: JSON over a pipe, nothing pickled."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta  # noqa: TC003 - pydantic reads the fields
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import Field, TypeAdapter

from gandy.model.outcome import CancelledBy, JunctionTiming  # noqa: TC001 - pydantic reads the fields


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Run this train with this input."""

    kind: Literal["start"] = "start"
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
    by: CancelledBy
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Leave:
    """There is nothing more to do: close what you opened and end."""

    kind: Literal["leave"] = "leave"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entered:
    """A junction begins."""

    kind: Literal["entered"] = "entered"
    junction: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Logged:
    """The run wrote a line."""

    kind: Literal["logged"] = "logged"
    level: str
    logger: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Progressed:
    """The run reports how far it is."""

    kind: Literal["progressed"] = "progressed"
    done: int
    total: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Activated:
    """The run activates a dormant dependent."""

    kind: Literal["activated"] = "activated"
    external_id: str
    input_json: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedWell:
    """The train completed."""

    kind: Literal["completed"] = "completed"
    output_json: str
    ended_early_by: str | None
    timings: tuple[JunctionTiming, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedBadly:
    """The train failed; the exception travels as texts, and as arguments where these are plain."""

    kind: Literal["failed"] = "failed"
    junction: str | None
    exception_type: str
    arguments: tuple[str | int | float | bool | None, ...] | None
    reason: str
    stack_trace: str
    wants_retry: bool
    retry_after: timedelta | None
    timings: tuple[JunctionTiming, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedStopped:
    """The train was cancelled."""

    kind: Literal["cancelled"] = "cancelled"
    by: CancelledBy
    reason: str
    junction: str | None
    timings: tuple[JunctionTiming, ...]


Ended: TypeAlias = EndedWell | EndedBadly | EndedStopped
ToChild: TypeAlias = Start | Stop | Leave
ToParent: TypeAlias = Entered | Logged | Progressed | Activated | EndedWell | EndedBadly | EndedStopped

_to_child: Final[TypeAdapter[ToChild]] = TypeAdapter(Annotated[ToChild, Field(discriminator="kind")])
_to_parent: Final[TypeAdapter[ToParent]] = TypeAdapter(Annotated[ToParent, Field(discriminator="kind")])

encode_to_child = _to_child.dump_json
decode_to_child = _to_child.validate_json
encode_to_parent = _to_parent.dump_json
decode_to_parent = _to_parent.validate_json
