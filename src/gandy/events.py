"""Typed events, emitted anywhere and received by telemetry and hooks."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Literal, TypeAlias, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import timedelta

#: The cause of a lost run; the label of a metric.
RecoveryCause: TypeAlias = Literal[
    "worker_lost", "worker_stopped", "worker_unknown", "answer_lost", "never_started", "age"
]

_log = logging.getLogger("gandy.events")


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """The base of every event; a subscriber to it receives all events."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted(Event):
    """A worker began a run."""

    run_id: int
    train: str
    manifest: str | None
    attempt: int
    waited_for: timedelta  #: since the instant at which it could have run


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFinished(Event):
    """The end of a run was recorded."""

    run_id: int
    train: str
    manifest: str | None
    attempt: int
    state: Literal["completed", "failed", "cancelled"]
    took: timedelta
    failure: str | None = None  #: the name of the exception


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLettered(Event):
    """A job became a dead letter."""

    run_id: int
    train: str
    manifest: str | None
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OccurrencesQueued(Event):
    """A cycle queued occurrences."""

    count: int
    lateness: timedelta  #: of the latest one


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleEnded(Event):
    """One cycle of a service is over."""

    service: str
    verdict: Literal["worked", "idle", "skipped", "failed"]  #: skipped: another server holds the lock
    took: timedelta
    counts: Mapping[str, int]  #: the counts of its result
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseLost(Event):
    """A worker detected that its lease has expired."""

    worker_id: str
    runs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunsRecovered(Event):
    """Runs without a live process were ended or put back, so that others may run them."""

    cause: RecoveryCause
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteFenced(Event):
    """A write with an outdated fence changed nothing."""

    statement: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HintRepaired(Event):
    """Manifests whose next look was wrong or missing were repaired."""

    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryFailed(Event):
    """A run could not be delivered to the submitter; it stays pending and is delivered again."""

    run_id: int
    train: str
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRefused(Event):
    """A request to the dashboard or the REST interface was refused by the access check."""

    reason: str  #: of a closed set; the label of a metric


@dataclass(frozen=True, slots=True, kw_only=True)
class RunsEndedInChild(Event):
    """Worker processes of this process recorded the ends of runs."""

    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopEnded(Event):
    """A loop or a process of a service ended unexpectedly; it is restarted after a back-off."""

    service: str
    loop: str
    cause: str  #: the name of the exception, or how the process ended


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopRestarted(Event):
    """A loop that had ended was restarted."""

    service: str
    loop: str


E = TypeVar("E", bound=Event)


class EventBus:
    """Delivers events to their subscribers, in the emitter's thread; safe to share between threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._deliveries: tuple[Callable[[Event], None], ...] = ()

    def subscribe(self, kind: type[E], callback: Callable[[E], object]) -> Callable[[], None]:
        """Call back for every event of the kind; return a function that unsubscribes."""

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
    def has_subscribers(self) -> bool:
        """Whether there is a subscriber, so that no unused event is built."""
        return bool(self._deliveries)

    def emit(self, event: Event) -> None:
        """Call every subscriber; log the exception of a subscriber and continue with the others."""
        for deliver in self._deliveries:
            try:
                deliver(event)
            except Exception:  # noqa: BLE001 - a subscriber may raise anything
                _log.exception("a subscriber to %s raised", type(event).__name__)
