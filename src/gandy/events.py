"""What happens, as typed facts: emitted anywhere, heard by telemetry and hooks."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Literal, TypeAlias, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import timedelta

#: How a run got lost; the label of a metric.
RecoveryCause: TypeAlias = Literal[
    "worker_lost", "worker_stopped", "worker_unknown", "answer_lost", "never_started", "age"
]

_log = logging.getLogger("gandy.events")


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """The base of every event; who subscribes to it hears them all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted(Event):
    """A worker began a run."""

    run_id: int
    train: str
    manifest: str | None
    attempt: int
    waited_for: timedelta  #: from the instant it could have run


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFinished(Event):
    """A run reached its end, and that is recorded."""

    run_id: int
    train: str
    manifest: str | None
    attempt: int
    state: Literal["completed", "failed", "cancelled"]
    took: timedelta
    failure: str | None = None  #: the name of the exception


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLettered(Event):
    """A job was parked for a person."""

    run_id: int
    train: str
    manifest: str | None
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OccurrencesQueued(Event):
    """A cycle decided that these are to run."""

    count: int
    lateness: timedelta  #: of the latest one


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleEnded(Event):
    """One cycle of a service is over."""

    service: str
    verdict: Literal["worked", "idle", "skipped", "failed"]  #: skipped: another server holds the lock
    took: timedelta
    counts: Mapping[str, int]  #: what the cycle did, by the words of its result
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseLost(Event):
    """A worker found that it is no longer trusted with its runs."""

    worker_id: str
    runs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunsRecovered(Event):
    """Runs that no living process held were ended or put back, so that others may run them."""

    cause: RecoveryCause
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteFenced(Event):
    """A write of somebody who no longer owns the run changed nothing."""

    statement: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HintRepaired(Event):
    """Manifests whose next look was wrong or missing were set right."""

    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryFailed(Event):
    """A run could not be handed to the submitter; it stays pending and is handed over again."""

    run_id: int
    train: str
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRefused(Event):
    """A request to the dashboard or the REST interface was refused at the gate."""

    reason: str  #: of a closed set; the label of a metric


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopEnded(Event):
    """A loop of a service ended without being told to; it starts again after a pause."""

    service: str
    loop: str
    cause: str  #: the name of the exception


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopRestarted(Event):
    """A loop that had ended runs again."""

    service: str
    loop: str


E = TypeVar("E", bound=Event)


class EventBus:
    """Brings events to their subscribers, in the emitter's thread; safe to share between threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._deliveries: tuple[Callable[[Event], None], ...] = ()

    def subscribe(self, kind: type[E], callback: Callable[[E], object]) -> Callable[[], None]:
        """Call back for every event of the kind; gives the function that ends this."""

        def deliver(event: Event) -> None:
            if isinstance(event, kind):
                callback(event)

        with self._lock:
            self._deliveries = (*self._deliveries, deliver)

        def unsubscribe() -> None:
            with self._lock:
                self._deliveries = tuple(other for other in self._deliveries if other is not deliver)

        return unsubscribe

    @property
    def is_heard(self) -> bool:
        """Whether anybody listens, so that nothing is built for nobody."""
        return bool(self._deliveries)

    def emit(self, event: Event) -> None:
        """Tell every subscriber; one that raises is logged and changes nothing for the others."""
        for deliver in self._deliveries:
            try:
                deliver(event)
            except Exception:  # noqa: BLE001 whatever a subscriber raises is its own affair
                _log.exception("a subscriber to %s raised", type(event).__name__)
