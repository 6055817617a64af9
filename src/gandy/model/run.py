"""Runs: how they are claimed, how they end, and what is kept of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, TypeAlias, TypeVar

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime, timedelta


class TrainState(StrEnum):
    """Where a run stands."""

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class EndedBy(StrEnum):
    """Why a run ended the way it did; it decides what follows a failure."""

    ITSELF = "itself"
    TIMEOUT = "timeout"
    OPERATOR = "operator"
    SHUTDOWN = "shutdown"
    LOST_WORKER = "lost_worker"
    AGE = "age"
    HAND = "hand"  #: an operator failed it


_UNCOUNTED: Final = frozenset({EndedBy.SHUTDOWN, EndedBy.LOST_WORKER, EndedBy.HAND})


class ClaimedRun(NamedTuple):
    """A run that this worker owns: a tuple, because thousands of them pass each second."""

    id: int
    fence: int
    train: str
    input_json: str | None
    manifest_id: int | None
    manifest: str | None
    group_id: int
    due_at: datetime
    attempt: int
    started_at: datetime
    waited_since: datetime
    failures: int
    losses: int
    lone_losses: int
    max_retries: int | None
    is_retried: bool | None
    retry_delay_seconds: float | None
    timeout_seconds: float
    unique_key: str | None
    is_capped: bool = False  #: its end makes room under a cap, which is to be filled at once


@dataclass(frozen=True, slots=True)
class Failure:
    """What a failed run leaves for a person."""

    junction: str | None
    exception: str
    reason: str
    stack_trace: str | None = None


class Activation(NamedTuple):
    """A dormant dependent that a run activates; `input_json` None keeps the declared input."""

    external_id: str
    input_json: str | None = None
    checked_by: str | None = None  #: the train by whose type the input was checked where the run asked


class RunEnd(NamedTuple):
    """How a run ended, guarded by the claim that owned it, with what its job allows next.

    A tuple, because thousands of them pass each second.
    """

    id: int
    train: str
    worker_id: str | None
    fence: int | None
    state: TrainState
    ended_by: EndedBy = EndedBy.ITSELF
    manifest_id: int | None = None
    output_json: str | None = None
    junctions_json: str | None = None
    failure: Failure | None = None
    keep_for: timedelta | None = None  #: None: by the manifest, else by the state
    retry_after: timedelta | None = None  #: what the run itself asked for
    failures: int = 0  #: of ad-hoc work, before this end
    losses: int = 0
    lone_losses: int = 0
    was_alone: bool = False  #: it ran in a process of its own
    max_retries: int | None = None
    is_retried: bool | None = None
    retry_delay: timedelta | None = None
    unique_key: str | None = None
    progress_done: int | None = None
    progress_total: int | None = None
    gives_up: bool = False  #: it failed in a way that its train does not try again
    activations: tuple[Activation, ...] = ()  #: in the order in which the run asked

    @property
    def is_counted(self) -> bool:
        """Whether the failure counts against the job, unlike a lost worker, a shutdown or an operator."""
        return self.state is TrainState.FAILED and self.ended_by not in _UNCOUNTED


@dataclass(frozen=True, slots=True)
class RetentionSpans:
    """How long runs are kept, by how they ended."""

    completed: timedelta
    failed: timedelta
    cancelled: timedelta
    by_train: Mapping[str, timedelta] = field(default_factory=dict, kw_only=True)  #: stands over the three

    def of(self, state: TrainState) -> timedelta:
        """Return the span for a terminal state."""
        if state is TrainState.COMPLETED:
            return self.completed
        return self.cancelled if state is TrainState.CANCELLED else self.failed


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


#: Gandy's own trains that write runs; JobRunner writes none of its own.
ADMINISTRATIVE_TRAINS: Final = (
    "DeadLetterCleanupTrain",
    "JobDispatcherTrain",
    "ManifestManagerTrain",
    "MetadataCleanupTrain",
    "TableMaintenanceTrain",
)
