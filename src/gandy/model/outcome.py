"""How a run of a train ended: completed, failed or cancelled, as a value."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeAlias, TypeVar

if TYPE_CHECKING:
    from datetime import timedelta

Out = TypeVar("Out")


class CancelledBy(StrEnum):
    """Who stopped a run; what follows (a retry, a count, nothing) depends on it."""

    OPERATOR = "operator"
    TIMEOUT = "timeout"
    SHUTDOWN = "shutdown"
    LEASE_LOST = "lease_lost"
    CALLER = "caller"
    RUN = "run"


class JunctionTiming(NamedTuple):
    """When a junction started, counted from the start of its run, and how long it took."""

    junction: str
    started_ns: int
    duration_ns: int


Timings: TypeAlias = tuple[JunctionTiming, ...]


@dataclass(frozen=True, slots=True)
class RetryRequest:
    """A run asked to be tried again; `after` is None where the usual delay is meant."""

    after: timedelta | None = None


@dataclass(frozen=True, slots=True)
class Completed(Generic[Out]):
    """The train reached its end, or a junction ended it early."""

    value: Out
    timings: Timings = ()
    ended_early_by: str | None = None  # the junction that returned End

    @property
    def ended_early(self) -> bool:
        """Whether a junction ended the train before its last one."""
        return self.ended_early_by is not None


@dataclass(frozen=True, slots=True)
class Failed:
    """A junction raised; the junctions after it were skipped. The texts are bounded and hold no secret."""

    exception: BaseException
    junction: str | None
    exception_type: str
    reason: str
    stack_trace: str
    timings: Timings = ()
    retry: RetryRequest | None = None
    gives_up: bool = False  #: said by the process that ran it: no further attempt makes sense


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The run was asked to stop and did, in or before the named junction."""

    by: CancelledBy
    reason: str
    junction: str | None
    timings: Timings = ()


Outcome: TypeAlias = Completed[Out] | Failed | Cancelled
