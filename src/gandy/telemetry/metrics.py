"""Prometheus metrics: declaration, updates from events, exposition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import REGISTRY

from gandy.events import (
    CycleEnded,
    DeadLettered,
    DeliveryFailed,
    HintRepaired,
    LeaseLost,
    LoopEnded,
    OccurrencesQueued,
    RequestRefused,
    RunFinished,
    RunsRecovered,
    RunStarted,
    WriteFenced,
)
from gandy.telemetry.sums import ChildSums, CounterChanges, Summed
from gandy.upkeep.pruning import declare_metrics

if TYPE_CHECKING:
    from gandy.events import EventBus
    from gandy.telemetry.observing import Measured


#: Maximum number of distinct label values; further values become "other", because series are never dropped.
MOST_VALUES: Final = 200
OTHER: Final = "other"
_SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600)
_SIZES: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 5_000)


class BoundedLabel:
    """Limits the number of distinct values of a label."""

    def __init__(self, most: int = MOST_VALUES) -> None:
        self._most = most
        self._seen: set[str] = set()

    def __call__(self, value: str) -> str:
        """Return the value, or "other" once the limit is reached."""
        if value not in self._seen:
            if len(self._seen) >= self._most:
                return OTHER
            self._seen.add(value)
        return value


class Metrics:
    """The metrics of one application in this process."""

    content_type: Final = CONTENT_TYPE_LATEST

    def __init__(self, events: EventBus) -> None:
        """Declare the metrics and subscribe to the application's events."""
        self.registry = CollectorRegistry()
        self.children = ChildSums()  #: of the worker processes of this process
        declare_metrics()
        self._train = BoundedLabel()
        self._declare_runs()
        self._declare_cycles()
        self._declare_measures()
        events.subscribe(RunStarted, self._run_started)
        events.subscribe(RunFinished, self._run_finished)
        events.subscribe(DeadLettered, self._dead_lettered)
        events.subscribe(OccurrencesQueued, self._occurrences_queued)
        events.subscribe(CycleEnded, self._cycle_ended)
        events.subscribe(LeaseLost, lambda _event: self._leases_lost.inc())
        events.subscribe(RunsRecovered, lambda event: self._recovered.labels(event.cause).inc(event.count))
        events.subscribe(WriteFenced, lambda event: self._fenced.labels(event.statement).inc(event.count))
        events.subscribe(LoopEnded, lambda event: self._restarts.labels(event.service).inc())
        events.subscribe(RequestRefused, lambda event: self._refused.labels(event.reason).inc())
        events.subscribe(HintRepaired, lambda event: self._repaired.inc(event.count))
        events.subscribe(
            DeliveryFailed, lambda event: self._undelivered.labels(self._train(event.train)).inc()
        )

    def measure(self, found: Measured) -> None:
        """Set the gauges to the measured values."""
        for gate, entries in found.waiting.items():
            self._waiting.labels(gate).set(entries)
        for state, runs in found.live_runs.items():
            self._live.labels(state).set(runs)
        self._wait.set(found.longest_wait)
        self._letters.set(found.awaiting_letters)
        self._workers.set(found.workers)
        self._slots.set(found.slots)
        self._busy.set(found.busy)

    def exposition(self) -> bytes:
        """Return all metrics: of the application, of the lifecycle and of the process."""
        registries = (Summed(each, self.children) for each in (self.registry, REGISTRY))
        return b"".join(generate_latest(each) for each in registries)

    def changes(self) -> CounterChanges:
        """Return the values that this process counts, for its parent."""
        return CounterChanges((self.registry, REGISTRY))

    def _declare_runs(self) -> None:
        registry = self.registry
        self._runs = Counter("gandy_runs", "Runs that ended", ["train", "state"], registry=registry)
        self._took = Histogram(
            "gandy_run_seconds", "Duration of runs", ["train"], buckets=_SECONDS, registry=registry
        )
        self._waited = Histogram(
            "gandy_run_wait_seconds",
            "Time from the instant a run could start until it started",
            ["train"],
            buckets=_SECONDS,
            registry=registry,
        )
        self._parked = Counter("gandy_dead_letters", "Dead letters written", ["train"], registry=registry)
        self._undelivered = Counter(
            "gandy_deliveries_failed", "Runs that could not be delivered", ["train"], registry=registry
        )
        self._leases_lost = Counter("gandy_leases_lost", "Leases that workers found lost", registry=registry)
        self._recovered = Counter(
            "gandy_runs_recovered",
            "Runs without a live process that were ended or requeued, by cause",
            ["cause"],
            registry=registry,
        )
        self._fenced = Counter(
            "gandy_writes_fenced",
            "Writes refused because the run has a newer fence",
            ["statement"],
            registry=registry,
        )
        self._repaired = Counter(
            "gandy_hints_repaired", "Manifests whose next_look_at was wrong", registry=registry
        )

    def _declare_cycles(self) -> None:
        registry = self.registry
        self._restarts = Counter(
            "gandy_service_restarts",
            "Loops and worker processes of services that ended unexpectedly and were restarted",
            ["service"],
            registry=registry,
        )
        self._queued = Counter(
            "gandy_occurrences_queued", "Occurrences that cycles queued", registry=registry
        )
        self._lateness = Histogram(
            "gandy_lateness_seconds",
            "Delay of the latest occurrence that a cycle queued",
            buckets=_SECONDS,
            registry=registry,
        )
        self._batch = Histogram(
            "gandy_batch_size", "Occurrences that one cycle queued", buckets=_SIZES, registry=registry
        )
        self._cycles = Counter(
            "gandy_cycles", "Cycles of services", ["service", "verdict"], registry=registry
        )
        self._cycle_took = Histogram(
            "gandy_cycle_seconds", "Duration of cycles", ["service"], buckets=_SECONDS, registry=registry
        )
        self._cycle_did = Counter(
            "gandy_cycle_items",
            "Items that cycles processed, by kind",
            ["service", "what"],
            registry=registry,
        )

        self._refused = Counter(
            "gandy_web_refused",
            "Requests that the gate of the dashboard refused, by reason",
            ["reason"],
            registry=registry,
        )

    def _declare_measures(self) -> None:
        registry = self.registry
        self._waiting = Gauge(
            "gandy_queue_entries",
            "Waiting entries by gate; counted up to 10000",
            ["gate"],
            registry=registry,
        )
        self._live = Gauge("gandy_live_runs", "Runs pending and in progress", ["state"], registry=registry)
        self._wait = Gauge(
            "gandy_queue_wait_seconds", "Waiting time of the next entry to dispatch", registry=registry
        )
        self._letters = Gauge("gandy_dead_letters_awaiting", "Unresolved dead letters", registry=registry)
        self._workers = Gauge("gandy_workers", "Workers with a valid lease", registry=registry)
        self._slots = Gauge("gandy_worker_slots", "Slots of these workers", registry=registry)
        self._busy = Gauge("gandy_worker_slots_busy", "Slots in use", registry=registry)

    def _run_started(self, event: RunStarted) -> None:
        self._waited.labels(self._train(event.train)).observe(max(event.waited_for.total_seconds(), 0))

    def _run_finished(self, event: RunFinished) -> None:
        train = self._train(event.train)
        self._runs.labels(train, event.state).inc()
        self._took.labels(train).observe(event.took.total_seconds())

    def _dead_lettered(self, event: DeadLettered) -> None:
        self._parked.labels(self._train(event.train)).inc()

    def _occurrences_queued(self, event: OccurrencesQueued) -> None:
        self._queued.inc(event.count)
        self._batch.observe(event.count)
        self._lateness.observe(max(event.lateness.total_seconds(), 0))

    def _cycle_ended(self, event: CycleEnded) -> None:
        self._cycles.labels(event.service, event.verdict).inc()
        self._cycle_took.labels(event.service).observe(event.took.total_seconds())
        for what, count in event.counts.items():
            if count > 0:
                self._cycle_did.labels(event.service, what).inc(count)
