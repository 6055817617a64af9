"""The messages between the parent and a worker process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import Field, TypeAdapter

from gandy.telemetry.sums import CountedValue  # noqa: TC001 - pydantic reads the fields


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """How to load the application in a worker process, as the parent has loaded it."""

    reference: str | None  #: MODULE:NAME; None: as gandy.toml names it
    keywords: dict[str, dict[str, Any]]  #: the settings given as options


@dataclass(frozen=True, slots=True, kw_only=True)
class Begin:
    """Load the application, and claim runs."""

    kind: Literal["begin"] = "begin"
    launch: Launch
    parent_pid: int
    has_metrics: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveMessage:
    """Shut down within the grace period."""

    kind: Literal["leave"] = "leave"


@dataclass(frozen=True, slots=True, kw_only=True)
class AskIdle:
    """Answer once you have nothing to do, by a claim that begins after this message."""

    kind: Literal["ask_idle"] = "ask_idle"
    round: int


@dataclass(frozen=True, slots=True, kw_only=True)
class IsIdle:
    """The answer: there is nothing to do; with the number of runs that have begun since the start."""

    kind: Literal["is_idle"] = "is_idle"
    round: int
    begun: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerReport:
    """The state of a worker process; sent at intervals, so that silence is noticed."""

    kind: Literal["report"] = "report"
    problems: tuple[str, ...]  #: of its loops
    ended: int  #: runs since the start
    parked: int  #: dead letters since the start
    counted: tuple[CountedValue, ...]  #: the counters that have changed since the last report


ToWorker: TypeAlias = Begin | LeaveMessage | AskIdle
ToParent: TypeAlias = IsIdle | WorkerReport

_TO_WORKER: Final[TypeAdapter[ToWorker]] = TypeAdapter(Annotated[ToWorker, Field(discriminator="kind")])
_TO_PARENT: Final[TypeAdapter[ToParent]] = TypeAdapter(Annotated[ToParent, Field(discriminator="kind")])


def encode_to_worker(message: ToWorker) -> bytes:
    """Encode a message as JSON."""
    return _TO_WORKER.dump_json(message)


def decode_to_worker(raw: bytes) -> ToWorker:
    """Decode a message of the parent."""
    return _TO_WORKER.validate_json(raw)


def encode_to_parent(message: ToParent) -> bytes:
    """Encode a message as JSON."""
    return _TO_PARENT.dump_json(message)


def decode_to_parent(raw: bytes) -> ToParent:
    """Decode a message of a worker process."""
    return _TO_PARENT.validate_json(raw)
