"""Every setting with its type, default and description, in one frozen section for each component."""

# ruff: noqa: RUF009 the calls declare fields, as dataclasses.field does
from __future__ import annotations

import os
from collections.abc import Mapping  # noqa: TC003 - read at run time, as an input of our own trains
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Literal, TypeVar

from gandy.settings.bounds import Timeout  # noqa: TC001 - read at run time, as an input of our own trains
from gandy.settings.kinds import (
    Kind,
    choice,
    count_of,
    database_url,
    file_path,
    host,
    kept_for,
    names,
    or_auto,
    or_no_timeout,
    or_none,
    piece_size,
    secret_token,
    share,
    span,
    span_of,
    spans_by_name,
    switch,
    whole_number,
)

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

#: Monitoring would consider a loop with a longer pause dead.
_LONGEST_PAUSE = timedelta(days=1)
_HIGHEST_PORT = 65_535


def _setting(kind: Kind[T], default: T, about: str) -> T:
    return field(default=default, repr=kind.mask is None, metadata={"kind": kind, "about": about})


def _measured(kind: Kind[T], measure: Callable[[], T], about: str, *, default_is: str) -> T:
    """Declare a setting whose default depends on the machine; `default_is` describes the default."""
    return field(default_factory=measure, metadata={"kind": kind, "about": about, "default_is": default_is})


def _pause() -> Kind[timedelta]:
    return span(maximum=_LONGEST_PAUSE)


def _count_cpus() -> int:
    return os.cpu_count() or 1


@dataclass(frozen=True, slots=True)
class DatabaseSettings:
    """Where Gandy keeps its tables."""

    url: str = _setting(
        database_url(),
        "sqlite:///gandy.db",
        "The database. A relative SQLite path in gandy.toml, and the default, are relative to the folder of "
        "that file; others to the current folder. In a user name or password write @ as %40, / as %2F, "
        "? as %3F, # as %23 and % as %25; a password among the parameters comes last.",
    )
    notify_url: str | None = _setting(
        or_none(database_url("postgresql://", "postgres://")),
        None,
        "A direct connection for LISTEN and NOTIFY, if `url` points to a transaction pooler.",
    )
    pool_size: int = _setting(
        whole_number(maximum=1_000), 10, "The size of the connection pool of one process."
    )
    connect_timeout: timedelta = _setting(
        span(timedelta(milliseconds=100), timedelta(hours=1)),
        timedelta(seconds=5),
        "How long to wait for a connection.",
    )
    listen_check_every: timedelta = _setting(
        _pause(),
        timedelta(seconds=10),
        "How often a silent LISTEN connection is checked.",
    )
    prepared_statements: bool = _setting(
        switch(), True, "Off if a transaction pooler does not support prepared statements."
    )


@dataclass(frozen=True, slots=True)
class ManifestManagerSettings:
    """The loop that evaluates schedules."""

    poll_every: timedelta = _setting(
        _pause(), timedelta(seconds=5), "The longest pause between two cycles; a due instant wakes it sooner."
    )
    max_entries_per_cycle: int | None = _setting(
        or_none(whole_number()),
        200,
        "The maximum number of entries that one cycle queues; the next follows at once.",
    )
    advisory_lock: bool = _setting(
        switch(), True, "Off lets all servers evaluate concurrently: more work, the same result. For tests."
    )
    default_timeout: Timeout = _setting(
        or_no_timeout(span()),
        timedelta(minutes=20),
        "The timeout of a run if neither its job nor its manifest sets one.",
    )
    stale_pending_after: timedelta = _setting(
        span(), timedelta(minutes=20), "The age at which a pending run fails if no live worker can take it."
    )
    stale_in_progress_after: timedelta = _setting(
        span(), timedelta(minutes=60), "The age at which a run fails, regardless of its worker's lease."
    )
    stale_grace: timedelta = _setting(
        span(), timedelta(minutes=40), "Added to a run's timeout, if that is longer than the age above."
    )
    repair_page: int = _setting(
        whole_number(maximum=100_000), 1_000, "The number of manifests that one repair pass checks."
    )


@dataclass(frozen=True, slots=True)
class DispatcherSettings:
    """The loop that turns queued entries into runs."""

    poll_every: timedelta = _setting(
        _pause(),
        timedelta(seconds=2),
        "The longest pause between two cycles; a notification wakes it sooner.",
    )
    max_active_jobs: int | Literal["auto"] | None = _setting(
        or_none(or_auto(whole_number())),
        "auto",
        "The maximum number of runs pending or in progress. auto: twice the slots of the live workers, at "
        "least 10; no limit if a submitter passes the runs to another engine.",
    )
    max_per_group: int = _setting(
        whole_number(), 100, "The maximum number of entries of one group in one cycle."
    )


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """The process that claims runs and executes them."""

    slots: int = _setting(
        whole_number(maximum=100_000),
        100,
        "The maximum number of runs that one worker executes concurrently.",
    )
    count: int = _setting(
        whole_number(maximum=1_000),
        1,
        "Worker processes of `up` and `work`, each with all `slots`; 1: inside the process of the services.",
    )
    threads: int = _setting(
        whole_number(maximum=10_000),
        100,
        "The maximum number of sync junctions that one worker runs concurrently, each in a thread.",
    )
    processes: int = _measured(
        whole_number(maximum=1_000),
        _count_cpus,
        "The maximum number of processes for trains with `process=True`.",
        default_is="the number of CPUs",
    )
    prefetch: int = _setting(
        whole_number(minimum=0, maximum=100_000),
        2_000,
        "The maximum number of runs that a worker claims beyond its free slots; fewer if its runs take long.",
    )
    lease_for: timedelta = _setting(
        span(timedelta(seconds=1), _LONGEST_PAUSE),
        timedelta(seconds=9),
        "How long a worker is trusted after its last heartbeat; then its runs are given to others.",
    )
    heartbeat_every: timedelta = _setting(
        _pause(), timedelta(seconds=3), "How often a worker renews its lease; at most half of `lease_for`."
    )
    poll_every: timedelta = _setting(
        _pause(),
        timedelta(seconds=2),
        "The longest pause between two claims; a notification wakes it sooner.",
    )
    shutdown_grace: timedelta = _setting(
        span(timedelta(0), _LONGEST_PAUSE),
        timedelta(seconds=30),
        "The grace period in which runs may end by themselves at shutdown.",
    )
    finish_batch: int = _setting(
        whole_number(maximum=10_000), 1_000, "The maximum number of runs that are finished in one write."
    )
    max_output_bytes: int = _setting(
        whole_number(maximum=1_000_000_000),
        1_048_576,
        "The maximum size of an output; a larger output fails the run.",
    )


@dataclass(frozen=True, slots=True)
class HookSettings:
    """The application's hooks, which are called concurrently with the runs."""

    timeout: timedelta = _setting(span(), timedelta(seconds=10), "The timeout of one call of a hook.")


@dataclass(frozen=True, slots=True)
class RetrySettings:
    """Retries after a failure, if neither the job nor its manifest sets them."""

    max_retries: int = _setting(
        count_of("max_retries"),
        3,
        "The number of failed attempts after which a job is parked; at least one attempt is made.",
    )
    delay: timedelta = _setting(
        span_of("retry_delay"),
        timedelta(minutes=5),
        "The delay before the first retry; it doubles with each further failure (exponential back-off).",
    )
    longest_delay: timedelta = _setting(
        span_of("retry_delay"),
        timedelta(hours=1),
        "The maximum of the doubled delay; a longer first delay is not shortened.",
    )
    jitter: float = _setting(
        share(), 0.1, "The maximum jitter, as a share of the delay; it is derived from the run's id."
    )
    park_window: timedelta = _setting(
        span_of("park_window"),
        timedelta(minutes=15),
        "How long a schedule with a period shorter than the delay must have failed before it is parked.",
    )


@dataclass(frozen=True, slots=True)
class ScheduleSettings:
    """Defaults of schedules."""

    misfire: Literal["fire_once_now", "do_nothing", "catch_up"] = _setting(
        choice("fire_once_now", "do_nothing", "catch_up"),
        "fire_once_now",
        "What to do with missed instants.",
    )
    misfire_threshold: timedelta = _setting(
        span_of("misfire_threshold"),
        timedelta(seconds=60),
        "The lateness from which an instant counts as missed.",
    )


@dataclass(frozen=True, slots=True)
class RunLogSettings:
    """The log lines that are kept with a run."""

    max_lines: int = _setting(whole_number(minimum=0), 1_000, "The maximum number of lines kept of one run.")
    max_line_chars: int = _setting(whole_number(), 4_000, "The length at which a line is cut.")
    flush_every: timedelta = _setting(
        _pause(), timedelta(milliseconds=500), "How long lines are collected before they are written."
    )


@dataclass(frozen=True, slots=True)
class CleanupSettings:
    """The deletion of the runs of noisy trains, such as Gandy's own."""

    retention: timedelta = _setting(
        kept_for(), timedelta(minutes=30), "How long such a run is kept after its start."
    )
    retention_by_train: Mapping[str, timedelta] = _measured(
        spans_by_name(),
        dict,
        "How long the finished runs of single trains are kept, noisy or not, after their end; in gandy.toml "
        'the table `[cleanup.retention]`, where `"*"` stands for `retention`. The `keep_for` of a manifest '
        "or of a train overrides it.",
        default_is="",
    )
    interval: timedelta = _setting(_pause(), timedelta(minutes=1), "The pause between two passes.")
    batch_size: int | None = _setting(
        or_none(whole_number()),
        1_000,
        "The maximum number of runs in one transaction; none: one statement for each table.",
    )
    trains: tuple[str, ...] = _setting(
        names(), (), "Names of further trains whose runs are deleted in this way."
    )

    def kept(self, train: str) -> timedelta:
        """Return the retention of a run of a noisy train."""
        return self.retention_by_train.get(train, self.retention)


@dataclass(frozen=True, slots=True)
class RetentionSettings:
    """How long the rows of Gandy's own tables are kept."""

    completed: timedelta = _setting(kept_for(), timedelta(days=7), "Completed runs, from their end.")
    failed: timedelta = _setting(kept_for(), timedelta(days=30), "Failed runs, from their end.")
    cancelled: timedelta = _setting(kept_for(), timedelta(days=30), "Cancelled runs, from their end.")
    dead_letters: timedelta = _setting(kept_for(), timedelta(days=30), "Dead letters, from their resolution.")
    max_awaiting_letters_per_train: int = _setting(
        whole_number(),
        10_000,
        "The maximum number of awaiting dead letters of one train's ad-hoc work; later failures write none.",
    )
    skipped: timedelta = _setting(kept_for(), timedelta(days=7), "Skipped occurrences.")
    cancelled_entries: timedelta = _setting(kept_for(), timedelta(days=7), "Cancelled entries.")
    once_completed: timedelta = _setting(
        kept_for(), timedelta(days=30), "Manifests that ran once and are no longer declared."
    )
    orphaned: timedelta = _setting(kept_for(), timedelta(hours=24), "Manifests that are no longer declared.")
    workers: timedelta = _setting(kept_for(), timedelta(days=1), "Workers, from their last heartbeat.")
    audit: timedelta = _setting(kept_for(), timedelta(days=90), "The audit trail.")
    statistics: timedelta = _setting(
        kept_for(), timedelta(days=90), "Daily figures of trains and manifests; those of hours 3 days."
    )
    samples: timedelta = _setting(
        kept_for(), timedelta(days=400), "Daily sizes of tables; those of hours at most 30 days."
    )
    piece_bytes: int = _setting(piece_size(), 2**30, "When a piece of a day's history is full (PostgreSQL).")
    interval: timedelta = _setting(_pause(), timedelta(minutes=1), "The pause between two passes.")


@dataclass(frozen=True, slots=True)
class LifecycleSettings:
    """The maintenance of the application's tables."""

    contract: str | None = _setting(
        or_none(file_path()),
        None,
        "The file with the contracts; none: gandy.toml itself, if it contains any.",
    )


@dataclass(frozen=True, slots=True)
class WebSettings:
    """The dashboard, the REST interface and the metrics."""

    host: str = _setting(
        host(),
        "127.0.0.1",
        "The address to listen on. Any address but the local host requires a configured token.",
    )
    port: int = _setting(
        whole_number(minimum=0, maximum=_HIGHEST_PORT), 8423, "The port to listen on; 0 chooses a free port."
    )
    token: str | None = _setting(
        or_none(secret_token()),
        None,
        "Grants full access, as a Bearer token or in the login form. Without any token a start on the local "
        "host makes one and prints a link that signs in.",
    )
    readonly_token: str | None = _setting(
        or_none(secret_token()),
        None,
        "Grants read-only access. Without another token the dashboard is read-only for everyone.",
    )
    tokens_file: str | None = _setting(
        or_none(file_path()),
        None,
        "Tokens for several people: a line each, with a name, `operator` or `read-only`, and the SHA-256 of "
        "the token. Changes take effect at once.",
    )


@dataclass(frozen=True, slots=True)
class LoggingSettings:
    """The log of a process."""

    level: Literal["debug", "info", "warning", "error"] = _setting(
        choice("debug", "info", "warning", "error"), "info", "The lowest level that is logged."
    )
    format: Literal["text", "json"] = _setting(choice("text", "json"), "text", "Plain text or JSON lines.")


@dataclass(frozen=True, slots=True)
class Settings:
    """Every section; each field of each is one setting."""

    database: DatabaseSettings = field(default_factory=DatabaseSettings)
    manifest_manager: ManifestManagerSettings = field(default_factory=ManifestManagerSettings)
    dispatcher: DispatcherSettings = field(default_factory=DispatcherSettings)
    worker: WorkerSettings = field(default_factory=WorkerSettings)
    retry: RetrySettings = field(default_factory=RetrySettings)
    schedule: ScheduleSettings = field(default_factory=ScheduleSettings)
    run_log: RunLogSettings = field(default_factory=RunLogSettings)
    hooks: HookSettings = field(default_factory=HookSettings)
    cleanup: CleanupSettings = field(default_factory=CleanupSettings)
    retention: RetentionSettings = field(default_factory=RetentionSettings)
    lifecycle: LifecycleSettings = field(default_factory=LifecycleSettings)
    web: WebSettings = field(default_factory=WebSettings)
    logging: LoggingSettings = field(default_factory=LoggingSettings)
