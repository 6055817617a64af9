"""What one cycle is given, what its junctions hand on, and what it has done in the end."""

from __future__ import annotations

import time
from collections.abc import Callable  # noqa: TC003 read at run time
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from gandy.rules.ending import spans_of
from gandy.settings import CleanupSettings, ManifestManagerSettings, RetentionSettings, RetrySettings
from gandy.store.reaping import ReapRules

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gandy.events import RecoveryCause
    from gandy.model.manifest import Decision, DispatchView
    from gandy.store.manifests import Backlog
    from gandy.store.reaping import ParkedManifest


#: A cycle looks at manifests for this long; those that are left follow in the next one, at once.
LOOK_FOR: Final = timedelta(seconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleRequest:
    """The settings of a cycle."""

    settings: ManifestManagerSettings
    retention: RetentionSettings
    retry: RetrySettings = field(default_factory=RetrySettings)
    cleanup: CleanupSettings = field(default_factory=CleanupSettings)
    trusts_leases: bool = False  #: the database has answered for long enough to believe in expired leases
    charges_all: bool = (
        False  #: all items were refused alike in the cycles before: they are charged after all
    )
    monotonic: Callable[[], float] = (
        time.monotonic
    )  #: the process's own clock, which the looks are bounded by
    look_for: timedelta = LOOK_FOR

    @property
    def reap_rules(self) -> ReapRules:
        """How runs that others left behind are ended."""
        spans = spans_of(self.retention, self.cleanup)
        return ReapRules(spans, self.retention.max_awaiting_letters_per_train, self.retry)


@dataclass(frozen=True, slots=True)
class LoadedManifests:
    """The snapshots of everything that needs a look, and the one instant that the cycle decides for."""

    now: datetime
    views: tuple[DispatchView, ...]
    unreadable: Mapping[int, str]
    left_over: int  #: due, and not looked at yet
    backlog: Backlog | None  #: since when cycles have left something over
    begun: float  #: by the process's own clock


@dataclass(frozen=True, slots=True)
class TimedOutRuns:
    """Runs that were asked to stop."""

    run_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ReapedPending:
    """Runs that no worker would have started."""

    runs: int
    manifest_ids: frozenset[int]
    causes: Mapping[RecoveryCause, int]


@dataclass(frozen=True, slots=True)
class ReapedInProgress:
    """Runs whose worker is gone, or that are far too old."""

    runs: int
    manifest_ids: frozenset[int]
    causes: Mapping[RecoveryCause, int]
    silent_workers: int  #: with expired leases that are not believed yet
    next_lease_end: timedelta | None


@dataclass(frozen=True, slots=True)
class FreshManifests:
    """The snapshots as the reapers left them, the newly parked ones marked."""

    views: tuple[DispatchView, ...]
    unreadable: Mapping[int, str]
    parked: tuple[ParkedManifest, ...]


@dataclass(frozen=True, slots=True)
class DeterminedJobs:
    """Every decision that changes something, beside the snapshot that it was made for."""

    decided: tuple[tuple[DispatchView, Decision], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleResult:
    """What a cycle did."""

    looked_at: int = 0
    queued: int = 0
    skipped: int = 0
    contended: int = 0  #: changed by another writer meanwhile; decided again in the next cycle
    errors: int = 0
    left_over: int = 0
    timed_out: tuple[int, ...] = ()
    reaped: int = 0
    recovered: Mapping[RecoveryCause, int] = field(default_factory=dict)  #: what was reaped, by cause
    parked: tuple[ParkedManifest, ...] = ()
    lateness: timedelta = field(default=timedelta(0))  #: of the latest entry
    silent_workers: int = 0
    next_lease_end: timedelta | None = None
    next_look: timedelta | None = None

    @property
    def counts(self) -> dict[str, int]:
        """What was done, in words and numbers."""
        return {
            "looked_at": self.looked_at,
            "queued": self.queued,
            "skipped": self.skipped,
            "contended": self.contended,
            "errors": self.errors,
            "left_over": self.left_over,
            "timed_out": len(self.timed_out),
            "reaped": self.reaped,
            "dead_lettered": len(self.parked),
        }

    @property
    def is_idle(self) -> bool:
        """Whether nothing was there to do."""
        return not any(self.counts.values())

    @property
    def wants_another(self) -> bool:
        """Whether the next cycle should follow at once."""
        return bool(self.left_over or self.contended)
