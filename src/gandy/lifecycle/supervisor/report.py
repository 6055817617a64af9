"""Reports, events and metrics of a tick."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass, field
from functools import lru_cache
from threading import Lock
from typing import TYPE_CHECKING, Protocol

from typing_extensions import override

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime, timedelta

    from prometheus_client import CollectorRegistry

    from gandy.lifecycle.contract.tables import Contract
    from gandy.lifecycle.driver.rows import RuleOutcome
    from gandy.lifecycle.selection.findings import RuleFinding


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleFailure:
    """A rule that failed, and why."""

    table: str
    rule: str
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A rule that waits for a confirmation: it would delete `rows` of `of` rows."""

    table: str
    rule: str
    rows: int
    of: int
    is_counted: bool = True  # False: the count took too long, so both numbers are lower bounds
    is_shared: bool = False  # other rules delete some of the rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Overdue:
    """Rows that the application itself should have deleted."""

    table: str
    path: str
    oldest: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """How a rule keeps up: its lag, its backlog, and its rates if known."""

    table: str
    rule: str
    lag: timedelta
    backlog: int
    arriving_per_second: float | None = None
    draining_per_second: float | None = None

    @property
    def is_falling_behind(self) -> bool:
        """Whether rows arrive faster than they can be deleted."""
        return (
            self.backlog > 0
            and self.arriving_per_second is not None
            and self.draining_per_second is not None
            and self.arriving_per_second > self.draining_per_second
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfinished:
    """A rule that the contract's budget stopped before it was finished."""

    table: str
    rule: str
    budget: str  # the exhausted budget: rows or time
    left: int | None  # remaining dead rows; None if they were not counted
    is_counted: bool = True  # False: `left` is a lower bound


@dataclass(slots=True, kw_only=True)
class ContractReport:
    """One run of one contract."""

    scheduler: str
    started_at: datetime | None = None
    is_skipped: bool = False
    doubt: str | None = None  # why the clock is not trusted, so that nothing was done
    counts: dict[str, int] = field(default_factory=dict)
    rules: list[RuleOutcome] = field(default_factory=list)
    failures: list[RuleFailure] = field(default_factory=list)
    held: list[Held] = field(default_factory=list)
    overdue: list[Overdue] = field(default_factory=list)
    health: list[Health] = field(default_factory=list)
    warnings: list[RuleFinding] = field(default_factory=list)
    unfinished: list[Unfinished] = field(default_factory=list)

    def start_over(self) -> None:
        """Clear the findings before the rules are judged again; keep the counts of deleted rows."""
        found = (self.rules, self.failures, self.held, self.overdue, self.health, self.warnings)
        for each in (*found, self.unfinished):
            each.clear()

    @property
    def deleted(self) -> int:
        """Deleted rows, including children."""
        return sum(self.counts.values())

    @property
    def is_clean(self) -> bool:
        """Whether nothing failed and nothing waits for a confirmation."""
        return not (self.failures or self.held or self.doubt)


LOGGER = logging.getLogger("gandy.lifecycle")


def announce(level: int, name: str, fields: Mapping[str, object]) -> None:
    """Log one event."""
    text = json.dumps(fields, default=str, sort_keys=True)
    LOGGER.log(level, "%s %s", name, text, extra={"event": name, "fields": dict(fields)})


def pruned(scheduler: str, counts: Mapping[str, int]) -> None:
    """A tick deleted rows."""
    announce(logging.INFO, f"{scheduler}.lifecycle_pruned", {"tables": dict(counts)})


def tick_failed(scheduler: str, *, table: str, rule: str, error: str) -> None:
    """A rule failed; the others continued."""
    fields = {"table": table, "rule": rule, "error": error}
    announce(logging.ERROR, f"{scheduler}.lifecycle_tick_failed", fields)


def judged_again(scheduler: str) -> None:
    """A table or a hold changed while the sweep ran."""
    announce(logging.INFO, f"{scheduler}.lifecycle_judged_again", {})


def confirmation_needed(scheduler: str, *, table: str, rule: str, rows: int, of: int) -> None:
    """A rule waits for a confirmation."""
    fields = {"table": table, "rule": rule, "rows": rows, "of": of}
    announce(logging.WARNING, f"{scheduler}.lifecycle_confirmation_needed", fields)


def inline_overdue(scheduler: str, *, table: str, path: str, oldest: object) -> None:
    """Rows remain that the application itself should have deleted."""
    fields = {"table": table, "path": path, "oldest": oldest}
    announce(logging.WARNING, f"{scheduler}.lifecycle_inline_overdue", fields)


def falling_behind(scheduler: str, *, table: str, rule: str, arriving: float, draining: float) -> None:
    """Rows arrive faster than the budget allows to delete."""
    fields = {"table": table, "rule": rule, "arriving_per_second": arriving, "draining_per_second": draining}
    announce(logging.WARNING, f"{scheduler}.lifecycle_falling_behind", fields)


def quarantine_outdated(scheduler: str, *, table: str, key: str) -> None:
    """A quarantined key is no longer valid for its table: the row is tried again."""
    fields = {"table": table, "key": key}
    announce(logging.WARNING, f"{scheduler}.lifecycle_quarantine_outdated", fields)


class SweepMetrics(Protocol):
    """The metrics of the supervisor."""

    def declare(self, contracts: Iterable[Contract]) -> None:
        """Create every series at 0."""
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


class NoMetrics(SweepMetrics):
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


class PrometheusMetrics(SweepMetrics):
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
            "Ticks skipped because another replica holds the lease",
            ["scheduler"],
            registry=registry,
        )
        self._lag = Gauge(
            "gandy_lifecycle_lag_seconds",
            "How long the oldest dead row is overdue",
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


_MAKING = Lock()  # lru_cache alone lets two threads register the same counters


def process_metrics() -> SweepMetrics:
    """Return the counters of this process, in the registry that /metrics serves."""
    with _MAKING:
        return _made()


@lru_cache(maxsize=1)
def _made() -> SweepMetrics:
    try:
        from prometheus_client import REGISTRY  # noqa: PLC0415  # an extra
    except ImportError:
        return NoMetrics()
    return PrometheusMetrics(REGISTRY)
