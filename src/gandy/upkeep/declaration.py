"""The retention of Gandy's own rows: the declaration, and the documentation page made from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from datetime import timedelta
from enum import StrEnum
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, TypeAlias, assert_never

from gandy.lifecycle.contract.tables import MatrixRow
from gandy.model.run import ADMINISTRATIVE_TRAINS
from gandy.settings import CleanupSettings, RetentionSettings, Settings
from gandy.settings.values import format_duration
from gandy.store import cleanup as walks
from gandy.store.stats.growth import KEPT_SAMPLES, old_samples
from gandy.store.stats.rollups import KEPT_HOURS, KEPT_MINUTES, TALLIED_AFTER, EndedTallies, old_rollups

if TYPE_CHECKING:
    from datetime import datetime

    from gandy.store.cleanup import Walk


class PrunedBy(StrEnum):
    """The trains that prune."""

    METADATA_CLEANUP = "MetadataCleanupTrain"
    DEAD_LETTER_CLEANUP = "DeadLetterCleanupTrain"
    TABLE_MAINTENANCE = "TableMaintenanceTrain"


@dataclass(frozen=True, slots=True, kw_only=True)
class UpkeepRequest:
    """The owner and the settings of a pruning cycle."""

    owner: str
    retention: RetentionSettings
    cleanup: CleanupSettings


Dead: TypeAlias = Callable[[UpkeepRequest, "datetime"], "Walk"]


@dataclass(frozen=True, slots=True)
class ByRow:
    """Dead rows are found by an index and deleted in batches."""

    dead: Dead


@dataclass(frozen=True, slots=True)
class ByDay:
    """Partitions of a day are dropped when it is over."""


@dataclass(frozen=True, slots=True)
class ByCount:
    """Rows beyond the newest N are deleted."""


@dataclass(frozen=True, slots=True)
class ByKey:
    """Nothing is deleted: the key bounds the table."""


@dataclass(frozen=True, slots=True)
class RemovedInline:
    """The code that wrote the row removes it."""

    path: str


Means: TypeAlias = ByRow | ByDay | ByCount | ByKey | RemovedInline


@dataclass(frozen=True, slots=True, kw_only=True)
class Upkeep:
    """One bound of one table; `bound` names settings in braces."""

    table: str
    bound: str
    means: Means
    safety: str
    pruned_by: PrunedBy = PrunedBy.TABLE_MAINTENANCE


def _without_own_date(names: tuple[str, ...], cleanup: CleanupSettings) -> tuple[str, ...]:
    """Leave out the trains with their own retention: their runs carry its date."""
    return tuple(name for name in names if name not in cleanup.retention_by_train)


UPKEEP: Final[tuple[Upkeep, ...]] = (
    Upkeep(
        table="metadata",
        bound="finished runs of administrative trains and of those in cleanup.trains: {cleanup.retention} "
        "from their start; those of trains in cleanup.retention_by_train by the date that each carries",
        means=ByRow(
            lambda request, now: walks.expired_runs(
                administrative=_without_own_date(ADMINISTRATIVE_TRAINS, request.cleanup),
                owner=request.owner,
                names=_without_own_date(request.cleanup.trains, request.cleanup),
                before=now - request.cleanup.retention,
            )
        ),
        safety="Never an unfinished run, of any age. The lines are deleted with the run.",
        pruned_by=PrunedBy.METADATA_CLEANUP,
    ),
    Upkeep(
        table="metadata",
        bound="finished runs: completed {retention.completed}, failed {retention.failed}, cancelled "
        "{retention.cancelled} from their end, or as their train or manifest declares; at most a day longer",
        means=ByDay(),
        safety="A day is dropped only when it is over. Unfinished runs are in the queue, never in a day.",
    ),
    Upkeep(
        table="metadata",
        bound="finished runs that are kept by row (on SQLite all; those kept for less than a day; those "
        "whose day has no partition): the date that each carries",
        means=ByRow(lambda _, now: walks.dead_runs(now)),
        safety="Only finished runs carry a date. No decision is read from a run: dependents do not "
        "need their parent's history.",
    ),
    Upkeep(
        table="metadata",
        bound="runs of a manifest with keep_last: that number, the newest",
        means=ByCount(),
        safety="Unfinished runs are not counted and never deleted.",
    ),
    Upkeep(
        table="log",
        bound="with their run; at most run_log.max_lines for each",
        means=ByRow(lambda _request, _now: walks.stray_logs()),
        safety="Lines are deleted with their run. Lines of a lost worker are moved to their run first.",
    ),
    Upkeep(
        table="work_queue",
        bound="dispatched entries: the end of their run",
        means=RemovedInline("finishing a run"),
        safety="The run's record has all that the entry had.",
    ),
    Upkeep(
        table="work_queue",
        bound="skipped occurrences: {retention.skipped} from their last instant",
        means=ByRow(lambda request, now: walks.settled_entries("skipped", now - request.retention.skipped)),
        safety="The manifest's cursor decides what is settled; the row is for information only.",
    ),
    Upkeep(
        table="work_queue",
        bound="cancelled entries: {retention.cancelled_entries} from their cancellation",
        means=ByRow(
            lambda request, now: walks.settled_entries("cancelled", now - request.retention.cancelled_entries)
        ),
        safety="Queued entries are never deleted: they are work to do.",
    ),
    Upkeep(
        table="dead_letter",
        bound="resolved letters: {retention.dead_letters} from their resolution",
        means=ByRow(lambda request, now: walks.resolved_letters(now - request.retention.dead_letters)),
        safety="Never a letter that awaits an operator, never while its requeued entry waits.",
        pruned_by=PrunedBy.DEAD_LETTER_CLEANUP,
    ),
    Upkeep(
        table="dead_letter",
        bound="awaiting letters: one for each manifest, {retention.max_awaiting_letters_per_train} for each "
        "train's ad-hoc work",
        means=RemovedInline("finishing a run"),
        safety="Failures beyond that are counted and alarmed. Lost by design: their letters.",
    ),
    Upkeep(
        table="manifest",
        bound="no longer declared: {retention.orphaned}; a once that has run: {retention.once_completed} "
        "from its completion",
        means=ByRow(
            lambda request, now: walks.orphaned_manifests(
                now, request.retention.orphaned, keep_once_for=request.retention.once_completed
            )
        ),
        safety="Never a manifest that was made at run time, or has an unfinished run, an awaiting letter, a "
        "dependent, or a queued or waiting retry, trigger, activation or requeued letter. Other entries that "
        "still wait are cancelled: their input is the declared one.",
    ),
    Upkeep(
        table="manifest",
        bound="made at run time to run once, and completed: {retention.once_completed}",
        means=ByRow(lambda request, now: walks.completed_manifests(now, request.retention.once_completed)),
        safety="Never a manifest that is declared, or has an unfinished run, an awaiting letter, or a queued "
        "or waiting retry, trigger, activation or requeued letter.",
    ),
    Upkeep(
        table="manifest_edge",
        bound="one for each parent of a dependent, at most 1,000 for each; gone with the dependent",
        means=ByKey(),
        safety="Decides when a dependent is due: a parent stays until its dependents are gone.",
    ),
    Upkeep(
        table="manifest_output",
        bound="one for each manifest whose dependent takes its output, or has taken it",
        means=ByKey(),
        safety="The newest output only; gone with the manifest, or a day after the last edge that takes it.",
    ),
    Upkeep(
        table="manifest_former_edge",
        bound="one for each parent that a dependent no longer has: {retention.orphaned}",
        means=ByRow(lambda request, now: walks.former_edges(now - request.retention.orphaned)),
        safety="Keeps the ends that wait while two versions of an application are deployed in turn.",
    ),
    Upkeep(
        table="worker",
        bound="stopped or lost workers: {retention.workers} from their last sign of life",
        means=ByRow(lambda request, now: walks.gone_workers(now - request.retention.workers)),
        safety="Identities are never used again.",
    ),
    Upkeep(
        table="worker",
        bound="silent workers that are not marked as lost: {retention.workers} from the end of their lease",
        means=ByRow(lambda request, now: walks.silent_workers(now - request.retention.workers)),
        safety="Only after all their runs are settled.",
    ),
    Upkeep(
        table="unique_key",
        bound="one for each unfinished job with a unique key; expired keys until the next pass",
        means=ByRow(lambda _, now: walks.expired_keys(now)),
        safety="An expired key blocks nothing: the next job may take it.",
    ),
    Upkeep(
        table="audit",
        bound="{retention.audit}",
        means=ByRow(lambda request, now: walks.old_audit(now - request.retention.audit)),
        safety="Read by operators only. Lost by design: older entries.",
    ),
    Upkeep(
        table="audit_subject",
        bound="one for each entry of the audit trail and each job, letter, manifest... that it changed",
        means=RemovedInline(path="the deletion of the entry, by its foreign key"),
        safety="Finds entries of the trail, and goes with them.",
    ),
    Upkeep(
        table="service_state",
        bound="one for each key; keys not touched for {retention.audit} are deleted",
        means=ByRow(lambda request, now: walks.old_state(now - request.retention.audit)),
        safety="A service without its state begins its slow pass from the start.",
    ),
    Upkeep(
        table="web_key",
        bound="sessions of the dashboard 12 hours, one-time codes 10 minutes; the newest 1,000 of each for "
        "a token",
        means=ByRow(lambda _, now: walks.expired_web_keys(now)),
        safety="An expired key gives no access.",
    ),
    Upkeep(
        table="run_tally",
        bound="one row for each worker, train, manifest and minute, until it is merged into run_rollup",
        means=ByRow(lambda _, now: EndedTallies(before=now - TALLIED_AFTER)),
        safety="Merged and deleted in one transaction. What a worker writes late is merged by the next pass.",
    ),
    Upkeep(
        table="run_rollup",
        bound="figures of minutes: 3 hours",
        means=ByRow(lambda _, now: old_rollups("minute", now - KEPT_MINUTES)),
        safety="The figures of hours and days have them, too.",
    ),
    Upkeep(
        table="run_rollup",
        bound="figures of hours: 3 days",
        means=ByRow(lambda _, now: old_rollups("hour", now - KEPT_HOURS)),
        safety="The figures of days have them, too.",
    ),
    Upkeep(
        table="run_rollup",
        bound="figures of days: {retention.statistics}",
        means=ByRow(lambda request, now: old_rollups("day", now - request.retention.statistics)),
        safety="Read by operators only. Lost by design: older figures.",
    ),
    Upkeep(
        table="table_sample",
        bound="one for each table and hour: 30 days, or {retention.samples} if that is less",
        means=ByRow(
            lambda request, now: old_samples(
                now - min(KEPT_SAMPLES, request.retention.samples), is_daily=False
            )
        ),
        safety="Read by operators only. The first sample of each day is kept for longer.",
    ),
    Upkeep(
        table="table_sample",
        bound="the first of each day: {retention.samples}",
        means=ByRow(lambda request, now: old_samples(now - request.retention.samples, is_daily=True)),
        safety="Read by operators only. Lost by design: older samples.",
    ),
    Upkeep(
        table="manifest_group",
        bound="groups without manifests, settings, or waiting or running work: {retention.orphaned}",
        means=ByRow(lambda request, now: walks.idle_groups(now - request.retention.orphaned)),
        safety="Never a group with a manifest, or with a configured cap, priority or pause. A group that is "
        "named again is created again.",
    ),
    Upkeep(
        table="payload_layout",
        bound="one row for each layout of a train's payloads",
        means=ByKey(),
        safety="Records which parts are secret, also in payloads of older code.",
    ),
    Upkeep(
        table="history_horizon",
        bound="one row (PostgreSQL)",
        means=ByKey(),
        safety="Records which days have partitions.",
    ),
    Upkeep(
        table="history_piece",
        bound="one row for each day with several pieces, of {retention.piece_bytes} bytes each, until the "
        "day is over (PostgreSQL)",
        means=RemovedInline("dropping past days"),
        safety="Records into which piece of a day ended runs go.",
    ),
    Upkeep(
        table="sequence",
        bound="one row for each sequence (SQLite)",
        means=ByKey(),
        safety="Holds the last fence.",
    ),
    Upkeep(
        table="schema_version",
        bound="one row for each migration",
        means=ByKey(),
        safety="Determines which code may run.",
    ),
)


def upkeep_of(pruned_by: PrunedBy) -> tuple[Upkeep, ...]:
    """Return the bounds that one train maintains, in the order of the declaration."""
    return tuple(upkeep for upkeep in UPKEEP if upkeep.pruned_by is pruned_by)


#: The tables that operators know by the name of a view.
STORED_AS: Final = {"metadata": "history"}


def own_matrix(settings: Settings) -> tuple[MatrixRow, ...]:
    """Return the bounds of each table under these settings; `scheduler` is Gandy itself."""
    spoken = {section.name: _spoken(getattr(settings, section.name)) for section in fields(Settings)}
    return tuple(
        MatrixRow(
            scheduler="gandy",
            table=upkeep.table,
            bounded_by=upkeep.bound.format(**spoken),
            prune_path=_path(upkeep),
            safety=upkeep.safety,
        )
        for upkeep in UPKEEP
    )


def _path(upkeep: Upkeep) -> str:
    match upkeep.means:
        case ByRow():
            return f"{upkeep.pruned_by}, by row"
        case ByDay():
            return f"{upkeep.pruned_by}, by partition"
        case ByCount():
            return f"{upkeep.pruned_by}, manifest by manifest"
        case RemovedInline(path):
            return path
        case ByKey():
            return "none: bounded by its key"
        case means:
            assert_never(means)


def _spoken(section: Any) -> SimpleNamespace:  # noqa: ANN401 any section of the settings
    values = {each.name: getattr(section, each.name) for each in fields(section)}
    return SimpleNamespace(
        **{
            name: format_duration(value) if isinstance(value, timedelta) else value
            for name, value in values.items()
        }
    )
