"""The counters of the contract; without prometheus-client nothing is counted."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Protocol

from typing_extensions import override

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prometheus_client import CollectorRegistry

    from gandy.lifecycle.contract.tables import Contract


class Metrics(Protocol):
    """Where the supervisor counts."""

    def declare(self, contracts: Iterable[Contract]) -> None:
        """Make every series exist, at 0."""
        ...

    def pruned(self, scheduler: str, table: str, rows: int) -> None:
        """Rows were deleted and committed."""
        ...

    def failed(self, scheduler: str, times: int = 1) -> None:
        """A rule failed."""
        ...

    def skipped(self, scheduler: str) -> None:
        """Another replica holds the lease."""
        ...

    def lag(self, scheduler: str, *, table: str, rule: str, seconds: float) -> None:
        """How long the oldest dead row is overdue."""
        ...


class NoMetrics(Metrics):
    """Counts nothing."""

    @override
    def declare(self, contracts: Iterable[Contract]) -> None:
        return

    @override
    def pruned(self, scheduler: str, table: str, rows: int) -> None:
        return

    @override
    def failed(self, scheduler: str, times: int = 1) -> None:
        return

    @override
    def skipped(self, scheduler: str) -> None:
        return

    @override
    def lag(self, scheduler: str, *, table: str, rule: str, seconds: float) -> None:
        return


class PrometheusMetrics(Metrics):
    """Counts with prometheus-client."""

    def __init__(self, registry: CollectorRegistry) -> None:
        from prometheus_client import Counter, Gauge  # noqa: PLC0415  # an extra

        self._rows = Counter(
            "lifecycle_prune_rows",
            "Rows deleted by lifecycle rules",
            ["scheduler", "table"],
            registry=registry,
        )
        self._errors = Counter(
            "lifecycle_tick_errors", "Lifecycle rules that failed in a tick", ["scheduler"], registry=registry
        )
        self._skipped = Counter(
            "gandy_lifecycle_ticks_skipped",
            "Ticks left to the replica that holds the lease",
            ["scheduler"],
            registry=registry,
        )
        self._lag = Gauge(
            "gandy_lifecycle_lag_seconds",
            "How long the oldest row that should be gone is overdue",
            ["scheduler", "table", "rule"],
            registry=registry,
        )

    @override
    def declare(self, contracts: Iterable[Contract]) -> None:
        for contract in contracts:
            self._errors.labels(contract.name)
            self._skipped.labels(contract.name)
            for table in contract.tables:
                self._rows.labels(contract.name, table.label)
                for child, _ in table.child_modes:
                    self._rows.labels(contract.name, child.table)

    @override
    def pruned(self, scheduler: str, table: str, rows: int) -> None:
        self._rows.labels(scheduler, table).inc(rows)

    @override
    def failed(self, scheduler: str, times: int = 1) -> None:
        self._errors.labels(scheduler).inc(times)

    @override
    def skipped(self, scheduler: str) -> None:
        self._skipped.labels(scheduler).inc()

    @override
    def lag(self, scheduler: str, *, table: str, rule: str, seconds: float) -> None:
        self._lag.labels(scheduler, table, rule).set(seconds)


@lru_cache(maxsize=1)
def process_metrics() -> Metrics:
    """The counters of this process, in the registry that /metrics serves."""
    try:
        from prometheus_client import REGISTRY  # noqa: PLC0415  # an extra
    except ImportError:
        return NoMetrics()
    return PrometheusMetrics(REGISTRY)
