"""Runs: claims, ends, and the retention of their records."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, TypeAlias, TypeVar

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime, timedelta


class TrainState(StrEnum):
    """The state of a run."""

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class EndedBy(StrEnum):
    """The cause of a run's end; it decides whether a failure is retried."""

    ITSELF = "itself"
    TIMEOUT = "timeout"
    OPERATOR = "operator"
    SHUTDOWN = "shutdown"
    LOST_WORKER = "lost_worker"
    AGE = "age"
    HAND = "hand"  #: an operator failed it


_UNCOUNTED: Final = frozenset({EndedBy.SHUTDOWN, EndedBy.LOST_WORKER, EndedBy.HAND})


class ClaimedRun(NamedTuple):
    """A run that this worker owns; a tuple, because thousands of them are made each second."""

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
    is_capped: bool = False  #: its end makes room under a cap, which should be filled at once


@dataclass(frozen=True, slots=True)
class Failure:
    """The description of a failure for the operator."""

    junction: str | None
    exception: str
    reason: str
    stack_trace: str | None = None


class Activation(NamedTuple):
    """A dormant dependent that a run activates; `input_json` None keeps the declared input."""

    external_id: str
    input_json: str | None = None
    checked_by: str | None = None  #: the train by whose type the input was checked in the run


class RunEnd(NamedTuple):
    """The end of a run, with the fence of its claim and the retry policy of its job.

    A tuple, because thousands of them are made each second.
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
    retry_after: timedelta | None = None  #: as requested by the run
    failures: int = 0  #: of ad-hoc work, before this end
    losses: int = 0
    lone_losses: int = 0
    was_alone: bool = False  #: it ran in its own process
    max_retries: int | None = None
    is_retried: bool | None = None
    retry_delay: timedelta | None = None
    unique_key: str | None = None
    progress_done: int | None = None
    progress_total: int | None = None
    gives_up: bool = False  #: it failed with an exception that its train does not retry
    activations: tuple[Activation, ...] = ()  #: in the order of the run's requests
    is_bare: bool = False  #: its usual form was refused: the manager writes the letter of its manifest

    @property
    def is_counted(self) -> bool:
        """Whether the failure counts against the job, unlike a lost worker, a shutdown or an operator."""
        return self.state is TrainState.FAILED and self.ended_by not in _UNCOUNTED


class RunMeasure(NamedTuple):
    """What statistics need of a recorded end; a tuple, because thousands of them are made each second."""

    train: str
    manifest_id: int | None
    state: TrainState
    minute: int  #: in which it ended, since the epoch
    waited: float  #: seconds from the scheduled instant to the start
    took: float  #: seconds from the start to the end


@dataclass(frozen=True, slots=True)
class RetentionSpans:
    """The retention of runs, by state."""

    completed: timedelta
    failed: timedelta
    cancelled: timedelta
    by_train: Mapping[str, timedelta] = field(default_factory=dict, kw_only=True)  #: overrides the three

    def of(self, state: TrainState) -> timedelta:
        """Return the span for a terminal state."""
        if state is TrainState.COMPLETED:
            return self.completed
        return self.cancelled if state is TrainState.CANCELLED else self.failed


Out = TypeVar("Out")


class CancelledBy(StrEnum):
    """The origin of a cancellation; it decides whether the run is retried and counted."""

    OPERATOR = "operator"
    TIMEOUT = "timeout"
    SHUTDOWN = "shutdown"
    LEASE_LOST = "lease_lost"
    CALLER = "caller"
    RUN = "run"


class JunctionTiming(NamedTuple):
    """The start of a junction, relative to the start of its run, and its duration."""

    junction: str
    started_ns: int
    duration_ns: int


Timings: TypeAlias = tuple[JunctionTiming, ...]


@dataclass(frozen=True, slots=True)
class RetryRequest:
    """A run requested a retry; `after` None means the usual delay."""

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
    gives_up: bool = False  #: set by the process that ran it: do not retry


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
