"""Every setting: its type, its default and what it does, in one frozen section for each component."""

# ruff: noqa: RUF009 the calls declare fields, as dataclasses.field does
from __future__ import annotations

import os
from collections.abc import Mapping  # noqa: TC003 read at run time, as an input of our own trains
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Literal, TypeVar

from gandy.settings.bounds import Timeout  # noqa: TC001 read at run time, as an input of our own trains
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

#: A loop that pauses for longer than this looks dead to everything that watches it.
_LONGEST_PAUSE = timedelta(days=1)
_HIGHEST_PORT = 65_535


def _setting(kind: Kind[T], default: T, about: str) -> T:
    return field(default=default, repr=kind.mask is None, metadata={"kind": kind, "about": about})


def _measured(kind: Kind[T], measure: Callable[[], T], about: str, *, default_is: str) -> T:
    """Declare a setting whose default depends on the machine; `default_is` says on what."""
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
        "The database. A relative SQLite path in gandy.toml, and the default, are seen from the folder of "
        "that file; others from the current folder. In a user name or password write @ as %40, / as %2F, "
        "? as %3F, # as %23 and % as %25; a password among the parameters comes last.",
    )
    notify_url: str | None = _setting(
        or_none(database_url("postgresql://", "postgres://")),
        None,
        "A direct connection for LISTEN and NOTIFY, where `url` leads through a transaction pooler.",
    )
    pool_size: int = _setting(whole_number(maximum=1_000), 10, "The most connections that one process opens.")
    connect_timeout: timedelta = _setting(
        span(timedelta(milliseconds=100), timedelta(hours=1)),
        timedelta(seconds=5),
        "How long to wait for a connection.",
    )
    listen_check_every: timedelta = _setting(
        _pause(),
        timedelta(seconds=10),
        "How often a silent LISTEN connection is asked whether it is still there.",
    )
    prepared_statements: bool = _setting(
        switch(), True, "Off where a transaction pooler does not know prepared statements."
    )


@dataclass(frozen=True, slots=True)
class ManifestManagerSettings:
    """The loop that decides what is due."""

    poll_every: timedelta = _setting(
        _pause(), timedelta(seconds=5), "The longest pause between two cycles; a due instant wakes it sooner."
    )
    max_entries_per_cycle: int | None = _setting(
        or_none(whole_number()), 200, "The most entries that one cycle queues; the next follows at once."
    )
    advisory_lock: bool = _setting(
        switch(), True, "Off lets every server evaluate at once: more work, the same result. For tests."
    )
    default_timeout: Timeout = _setting(
        or_no_timeout(span()),
        timedelta(minutes=20),
        "How long a run may take where neither its job nor its manifest says.",
    )
    stale_pending_after: timedelta = _setting(
        span(), timedelta(minutes=20), "When a pending run fails that no live worker can take."
    )
    stale_in_progress_after: timedelta = _setting(
        span(), timedelta(minutes=60), "When a run fails by age, whatever its worker's lease says."
    )
    stale_grace: timedelta = _setting(
        span(), timedelta(minutes=40), "Added to a run's timeout, where that is longer than the age above."
    )
    repair_page: int = _setting(
        whole_number(maximum=100_000), 1_000, "How many manifests one repair pass looks at."
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
        "The most runs pending or in progress. auto: twice the slots of the live workers, at least 10; "
        "no limit where a submitter hands the runs to another engine.",
    )
    max_per_group: int = _setting(whole_number(), 100, "The most entries of one group in one cycle.")


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """The process that claims runs and executes them."""

    slots: int = _setting(
        whole_number(maximum=100_000), 100, "The most runs that one worker executes at once."
    )
    threads: int = _setting(
        whole_number(maximum=10_000),
        100,
        "The most sync junctions that one worker runs at once, each in a thread.",
    )
    processes: int = _measured(
        whole_number(maximum=1_000),
        _count_cpus,
        "The most processes for trains that ask for one.",
        default_is="the number of CPUs",
    )
    prefetch: int = _setting(
        whole_number(minimum=0, maximum=100_000),
        2_000,
        "The most runs that a worker claims beyond its free slots; fewer where its runs take long.",
    )
    lease_for: timedelta = _setting(
        span(timedelta(seconds=1), _LONGEST_PAUSE),
        timedelta(seconds=9),
        "How long a worker is trusted after its last sign of life; then its runs are given to others.",
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
        "How long runs may end by themselves at shutdown.",
    )
    finish_batch: int = _setting(
        whole_number(maximum=10_000), 1_000, "The most runs that are finished in one write."
    )
    max_output_bytes: int = _setting(
        whole_number(maximum=1_000_000_000),
        1_048_576,
        "The longest output that is kept; a longer one fails the run.",
    )


@dataclass(frozen=True, slots=True)
class HookSettings:
    """The application's hooks, which are called beside the runs."""

    timeout: timedelta = _setting(
        span(), timedelta(seconds=10), "How long one call of a hook may take before it is given up."
    )


@dataclass(frozen=True, slots=True)
class RetrySettings:
    """What follows a failure, where neither the job nor its manifest says."""

    max_retries: int = _setting(
        count_of("max_retries"), 3, "How many attempts fail before a job is parked; at least one is made."
    )
    delay: timedelta = _setting(
        span_of("retry_delay"),
        timedelta(minutes=5),
        "The pause before the first retry; it doubles with each further failure.",
    )
    longest_delay: timedelta = _setting(
        span_of("retry_delay"),
        timedelta(hours=1),
        "Where the doubling ends; a first pause that is longer stays as it is.",
    )
    jitter: float = _setting(
        share(), 0.1, "The share of the pause that is added to it at most; the run's id decides how much."
    )
    park_window: timedelta = _setting(
        span_of("park_window"),
        timedelta(minutes=15),
        "For how long a schedule with a period shorter than the pause must have failed before it is parked.",
    )


@dataclass(frozen=True, slots=True)
class ScheduleSettings:
    """What holds for a schedule that does not say it itself."""

    misfire: Literal["fire_once_now", "do_nothing", "catch_up"] = _setting(
        choice("fire_once_now", "do_nothing", "catch_up"),
        "fire_once_now",
        "What becomes of instants that were missed.",
    )
    misfire_threshold: timedelta = _setting(
        span_of("misfire_threshold"), timedelta(seconds=60), "How late an instant counts as missed."
    )


@dataclass(frozen=True, slots=True)
class RunLogSettings:
    """The log lines that are kept with a run."""

    max_lines: int = _setting(whole_number(minimum=0), 1_000, "The most lines that are kept of one run.")
    max_line_chars: int = _setting(whole_number(), 4_000, "Where a longer line is cut.")
    flush_every: timedelta = _setting(
        _pause(), timedelta(milliseconds=500), "How long lines are gathered before they are written."
    )


@dataclass(frozen=True, slots=True)
class CleanupSettings:
    """The deletion of the runs of noisy trains, Gandy's own first of all."""

    retention: timedelta = _setting(
        kept_for(), timedelta(minutes=30), "How long such a run is kept after its start."
    )
    retention_by_train: Mapping[str, timedelta] = _measured(
        spans_by_name(),
        dict,
        "How long the finished runs of single trains are kept, noisy or not, after their end; in gandy.toml "
        'the table `[cleanup.retention]`, where `"*"` stands for `retention`. The `keep_for` of a manifest '
        "or of a train stands over it.",
        default_is="",
    )
    interval: timedelta = _setting(_pause(), timedelta(minutes=1), "The pause between two passes.")
    batch_size: int | None = _setting(
        or_none(whole_number()),
        1_000,
        "The most runs in one transaction; none: one statement for each table.",
    )
    trains: tuple[str, ...] = _setting(names(), (), "Names of further trains whose runs go this way.")

    def kept(self, train: str) -> timedelta:
        """Say how long the run of a noisy train is kept."""
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
        "Awaiting dead letters of one train's ad-hoc work; failures beyond write none.",
    )
    skipped: timedelta = _setting(kept_for(), timedelta(days=7), "Skipped occurrences.")
    dispatched: timedelta = _setting(
        kept_for(), timedelta(minutes=10), "Dispatched entries of the work queue."
    )
    cancelled_entries: timedelta = _setting(
        kept_for(), timedelta(days=7), "Cancelled entries of the work queue."
    )
    once_completed: timedelta = _setting(
        kept_for(), timedelta(days=30), "Manifests that ran once and are no longer declared."
    )
    orphaned: timedelta = _setting(kept_for(), timedelta(hours=24), "Manifests that are no longer declared.")
    workers: timedelta = _setting(kept_for(), timedelta(days=1), "Workers, from their last sign of life.")
    audit: timedelta = _setting(kept_for(), timedelta(days=90), "The trail of who did what.")
    interval: timedelta = _setting(
        _pause(), timedelta(minutes=1), "The pause between two passes over these tables."
    )


@dataclass(frozen=True, slots=True)
class LifecycleSettings:
    """The maintenance of the application's tables."""

    contract: str | None = _setting(
        or_none(file_path()),
        None,
        "The file that holds the contracts; none: gandy.toml itself, if it holds any.",
    )


@dataclass(frozen=True, slots=True)
class WebSettings:
    """The dashboard, the REST interface and the metrics."""

    host: str = _setting(
        host(), "127.0.0.1", "Where to listen. Any host but the local one needs a token that is set."
    )
    port: int = _setting(
        whole_number(minimum=0, maximum=_HIGHEST_PORT), 8423, "The port to listen on; 0 takes a free one."
    )
    token: str | None = _setting(
        or_none(secret_token()),
        None,
        "Opens everything, as a Bearer token or in the login form. Without any token a start on the local "
        "host makes one and prints a link that signs in.",
    )
    readonly_token: str | None = _setting(
        or_none(secret_token()),
        None,
        "Opens what changes nothing. Alone, it makes a dashboard that changes nothing.",
    )
    tokens_file: str | None = _setting(
        or_none(file_path()),
        None,
        "Tokens for several people: a line each, with a name, `operator` or `read-only`, and the SHA-256 of "
        "the token. A change is seen at once.",
    )


@dataclass(frozen=True, slots=True)
class LoggingSettings:
    """What a process writes about itself."""

    level: Literal["debug", "info", "warning", "error"] = _setting(
        choice("debug", "info", "warning", "error"), "info", "The least important lines that are written."
    )
    format: Literal["text", "json"] = _setting(
        choice("text", "json"), "text", "Lines for people or for machines."
    )


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
