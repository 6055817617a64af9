"""The settings of what deletes rows, in one frozen section for each component."""

# ruff: noqa: RUF009 the calls declare fields, as dataclasses.field does
from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - read at run time, as an input of our own trains
from dataclasses import dataclass
from datetime import timedelta

from gandy.settings.kinds import (
    file_path,
    kept_for,
    measured,
    names,
    or_none,
    pause,
    piece_size,
    setting,
    spans_by_name,
    whole_number,
)


@dataclass(frozen=True, slots=True)
class CleanupSettings:
    """The deletion of the runs of noisy trains, such as Gandy's own."""

    retention: timedelta = setting(
        kept_for(), timedelta(minutes=30), "How long such a run is kept after its start."
    )
    retention_by_train: Mapping[str, timedelta] = measured(
        spans_by_name(),
        dict,
        "How long the finished runs of single trains are kept, noisy or not, after their end; in gandy.toml "
        'the table `[cleanup.retention]`, where `"*"` stands for `retention`. The `keep_for` of a manifest '
        "or of a train overrides it.",
        default_is="",
    )
    interval: timedelta = setting(pause(), timedelta(minutes=1), "The pause between two passes.")
    batch_size: int | None = setting(
        or_none(whole_number()),
        1_000,
        "The maximum number of runs in one transaction; none: one statement for each table.",
    )
    trains: tuple[str, ...] = setting(
        names(), (), "Names of further trains whose runs are deleted in this way."
    )

    def kept(self, train: str) -> timedelta:
        """Return the retention of a run of a noisy train."""
        return self.retention_by_train.get(train, self.retention)


@dataclass(frozen=True, slots=True)
class RetentionSettings:
    """How long the rows of Gandy's own tables are kept."""

    completed: timedelta = setting(kept_for(), timedelta(days=7), "Completed runs, from their end.")
    failed: timedelta = setting(kept_for(), timedelta(days=30), "Failed runs, from their end.")
    cancelled: timedelta = setting(kept_for(), timedelta(days=30), "Cancelled runs, from their end.")
    dead_letters: timedelta = setting(kept_for(), timedelta(days=30), "Dead letters, from their resolution.")
    max_awaiting_letters_per_train: int = setting(
        whole_number(),
        10_000,
        "The maximum number of awaiting dead letters of one train's ad-hoc work; later failures write none.",
    )
    skipped: timedelta = setting(kept_for(), timedelta(days=7), "Skipped occurrences.")
    cancelled_entries: timedelta = setting(kept_for(), timedelta(days=7), "Cancelled entries.")
    once_completed: timedelta = setting(
        kept_for(), timedelta(days=30), "Manifests that ran once and are no longer declared."
    )
    orphaned: timedelta = setting(kept_for(), timedelta(hours=24), "Manifests that are no longer declared.")
    workers: timedelta = setting(kept_for(), timedelta(days=1), "Workers, from their last heartbeat.")
    audit: timedelta = setting(kept_for(), timedelta(days=90), "The audit trail.")
    statistics: timedelta = setting(
        kept_for(), timedelta(days=90), "Daily figures of trains and manifests; those of hours 3 days."
    )
    samples: timedelta = setting(
        kept_for(), timedelta(days=400), "Daily sizes of tables; those of hours at most 30 days."
    )
    piece_bytes: int = setting(piece_size(), 2**30, "When a piece of a day's history is full (PostgreSQL).")
    interval: timedelta = setting(pause(), timedelta(minutes=1), "The pause between two passes.")


@dataclass(frozen=True, slots=True)
class LifecycleSettings:
    """The maintenance of the application's tables."""

    contract: str | None = setting(
        or_none(file_path()),
        None,
        "The file with the contracts; none: gandy.toml itself, if it contains any.",
    )
