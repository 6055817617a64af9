"""One cycle of the ManifestManager: its request, its cargo, and the writing of its decisions."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable  # noqa: TC003 - read at run time
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, TypeAlias

from gandy.errors import RowConflictError
from gandy.model.manifest import Decision, DispatchView, Skipped
from gandy.model.schedule import MisfirePolicy, Recurring, SkipReason
from gandy.rules.ending import spans_of
from gandy.rules.recurring import as_error
from gandy.settings import CleanupSettings, ManifestManagerSettings, RetentionSettings, RetrySettings
from gandy.store.manifests import (
    advance,
    advance_without_entry,
    announce_work,
    is_met_entry,
    record_skips,
    step_back,
)
from gandy.store.reaping import ReapRules
from gandy.store.statements import write_bisecting

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterator, Mapping, Sequence

    from gandy.events import RecoveryCause
    from gandy.store.drivers.database import Transaction
    from gandy.store.manifests import Backlog, SkipRow
    from gandy.store.reaping import ParkedJob


#: A cycle looks at manifests for this duration; the next cycle, which follows at once, takes the rest.
LOOK_FOR: Final = timedelta(seconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleRequest:
    """The settings of a cycle."""

    settings: ManifestManagerSettings
    retention: RetentionSettings
    retry: RetrySettings = field(default_factory=RetrySettings)
    cleanup: CleanupSettings = field(default_factory=CleanupSettings)
    trusts_leases: bool = False  #: the database has answered long enough to trust expired leases
    charges_all: bool = False  #: earlier cycles had all items refused: treat each as faulty
    monotonic: Callable[[], float] = time.monotonic  #: the process's own clock, which limits the looks
    look_for: timedelta = LOOK_FOR

    @property
    def reap_rules(self) -> ReapRules:
        """The rules by which abandoned runs are ended."""
        spans = spans_of(self.retention, self.cleanup)
        return ReapRules(spans, self.retention.max_awaiting_letters_per_train, self.retry)


@dataclass(frozen=True, slots=True)
class LoadedManifests:
    """The snapshots of the manifests that need a look, and the instant that the cycle decides for."""

    now: datetime
    views: tuple[DispatchView, ...]
    unreadable: Mapping[int, str]
    left_over: int  #: due, and not looked at yet
    backlog: Backlog | None  #: since when cycles could not look at all due manifests
    begun: float  #: by the process's own clock


@dataclass(frozen=True, slots=True)
class TimedOutRuns:
    """Runs that were asked to stop."""

    run_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ReapedPending:
    """Pending runs that no worker would have started."""

    runs: int
    manifest_ids: frozenset[int]
    causes: Mapping[RecoveryCause, int]
    parked: tuple[ParkedJob, ...]


@dataclass(frozen=True, slots=True)
class ReapedInProgress:
    """Runs in progress whose worker is lost, or that are far too old."""

    runs: int
    manifest_ids: frozenset[int]
    causes: Mapping[RecoveryCause, int]
    parked: tuple[ParkedJob, ...]
    silent_workers: int  #: with expired leases that are not trusted yet
    next_lease_end: timedelta | None


@dataclass(frozen=True, slots=True)
class FreshManifests:
    """The snapshots after reaping, with newly parked manifests marked."""

    views: tuple[DispatchView, ...]
    unreadable: Mapping[int, str]
    parked: tuple[ParkedJob, ...]


@dataclass(frozen=True, slots=True)
class DeterminedJobs:
    """Every decision that changes something, with its snapshot."""

    decided: tuple[tuple[DispatchView, Decision], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleResult:
    """The result of a cycle."""

    looked_at: int = 0
    queued: int = 0
    skipped: int = 0
    contended: int = 0  #: changed concurrently by another writer; decided again in the next cycle
    errors: int = 0
    left_over: int = 0
    timed_out: tuple[int, ...] = ()
    reaped: int = 0
    recovered: Mapping[RecoveryCause, int] = field(default_factory=dict)  #: reaped runs, by cause
    parked: tuple[ParkedJob, ...] = ()
    lateness: timedelta = field(default=timedelta(0))  #: of the latest entry
    silent_workers: int = 0
    next_lease_end: timedelta | None = None
    next_look: timedelta | None = None

    @property
    def counts(self) -> dict[str, int]:
        """The counts of the cycle, by name."""
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
        """Whether there was nothing to do."""
        return not any(self.counts.values())

    @property
    def wants_another(self) -> bool:
        """Whether the next cycle should follow at once."""
        return bool(self.left_over or self.contended)


_log = logging.getLogger("gandy.manifest_manager")

Decided: TypeAlias = tuple[DispatchView, Decision]


@dataclass(slots=True)
class Written:
    """The decisions written so far."""

    moved: list[Decided] = field(default_factory=list)
    queued: set[int] = field(default_factory=set)
    errors: dict[int, str] = field(default_factory=dict)
    skipped: int = 0

    @property
    def settled(self) -> set[int]:
        """The manifests whose cursor was advanced or which failed; the others were changed concurrently."""
        return {view.id for view, _ in self.moved} | self.errors.keys()

    def add(self, other: Written) -> None:
        """Add the result of a later set of the same cycle."""
        self.moved += other.moved
        self.queued |= other.queued
        self.errors |= other.errors
        self.skipped += other.skipped


async def write_decisions(
    transaction: Transaction, decided: Sequence[Decided], *, charges_all: bool = False
) -> Written:
    """Write entries and verdicts; a manifest that is refused alone gets its own error, the others proceed.

    Raise SetRefusedError if all of several are refused with the same error, since the cause is then not in a
    single manifest; with `charges_all`, which is set after repeated refusals, give each its error instead.
    """
    written = Written()
    if decided:
        result = await write_bisecting(decided, _writing(transaction, written), charges_all=charges_all)
        for refused in result.refused:
            await _write_as_error(transaction, written, pair=refused.item, error=refused.error)
    await _write_verdicts(transaction, written, charges_all=charges_all)
    return written


def _writing(transaction: Transaction, written: Written) -> Callable[[Sequence[Decided]], Awaitable[None]]:
    async def write(part: Sequence[Decided]) -> None:
        try:
            async with transaction.savepoint():
                advanced = await transaction.run(advance(part))
        except RowConflictError as error:
            if len(part) > 1 or not is_met_entry(error):
                raise
            async with transaction.savepoint():
                advanced = await transaction.run(advance_without_entry(*part[0]))
        written.moved += [pair for pair in part if pair[0].id in advanced.moved]
        written.queued |= advanced.queued

    return write


async def _write_as_error(
    transaction: Transaction, written: Written, *, pair: Decided, error: Exception
) -> None:
    """Write an error verdict, so that the cursor advances; if that is refused, the manifest stays due."""
    view, decision = pair
    _log.error("manifest %s could not be queued: %s", view.external_id, error)
    written.errors[view.id] = str(error)
    if decision.occurrence is not None:
        settled = [(view, as_error(decision))]
        result = await write_bisecting(settled, _writing(transaction, written), charges_all=True)
        for refused in result.refused:
            _log.error("manifest %s stays due: %s", view.external_id, refused.error)


async def _write_verdicts(transaction: Transaction, written: Written, *, charges_all: bool) -> None:
    """Record the skipped occurrences with their reasons, and notify the workers of queued entries."""
    crossed = [
        pair for pair in written.moved if pair[1].occurrence is not None and pair[0].id not in written.queued
    ]
    await transaction.run(step_back([view for view, _ in crossed if _is_only_deferred(view)]))
    skips = [
        *(
            skip
            for pair in written.moved
            if pair[1].skipped or pair[1].problem is not None
            for skip in _skips_of(pair, written)
        ),
        *(_settled_by_crossing(*pair) for pair in crossed if not _is_only_deferred(pair[0])),
    ]
    await _record(transaction, skips, charges_all=charges_all)
    written.skipped = sum(skip.occurrences for _, skip, _ in skips)
    owners = {view.owner for view, _ in written.moved if view.id in written.queued}
    await transaction.run(announce_work(owners))


async def _record(transaction: Transaction, skips: Sequence[SkipRow], *, charges_all: bool) -> None:
    """Write the skip verdicts; log refused ones, since their manifests have already advanced."""
    if not skips:
        return

    by_manifest: dict[int, list[SkipRow]] = {}
    for skip in skips:
        by_manifest.setdefault(skip[0], []).append(skip)

    async def write(part: Sequence[list[SkipRow]]) -> int:
        async with transaction.savepoint():
            return await transaction.run(record_skips([skip for rows in part for skip in rows]))

    result = await write_bisecting(list(by_manifest.values()), write, charges_all=charges_all)
    for refused in result.refused:
        _log.error(
            "%s verdicts of manifest %s are lost: %s", len(refused.item), refused.item[0][0], refused.error
        )


def _skips_of(pair: Decided, written: Written) -> Iterator[SkipRow]:
    view, decision = pair
    for skip in decision.skipped:
        yield view.id, skip, written.errors.get(view.id) if skip.reason is SkipReason.ERROR else None
    at = view.next_scheduled_run or view.next_look_at
    if decision.problem is not None and at is not None:
        written.errors[view.id] = decision.problem
        yield view.id, Skipped(at, at, 1, SkipReason.ERROR), decision.problem


def _is_only_deferred(view: DispatchView) -> bool:
    is_recurring = isinstance(view.schedule, Recurring)
    return not is_recurring or view.misfire_policy is MisfirePolicy.CATCH_UP


def _settled_by_crossing(view: DispatchView, decision: Decision) -> SkipRow:
    """Settle an instant whose entry conflicted with an entry queued concurrently."""
    at = decision.occurrence.due_at if decision.occurrence is not None else view.next_scheduled_run
    if at is None:
        raise AssertionError("only an instant can cross an entry")
    return view.id, Skipped(at, at, 1, SkipReason.ALREADY_QUEUED), None
