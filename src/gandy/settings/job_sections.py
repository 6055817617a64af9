"""The settings of what evaluates schedules and runs jobs, in one frozen section for each component."""

# ruff: noqa: RUF009 the calls declare fields, as dataclasses.field does
from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from gandy.settings.bounds import Timeout  # noqa: TC001 - read at run time, as an input of our own trains
from gandy.settings.kinds import (
    LONGEST_PAUSE,
    choice,
    count_of,
    measured,
    or_auto,
    or_no_timeout,
    or_none,
    pause,
    setting,
    share,
    span,
    span_of,
    switch,
    whole_number,
)


def _count_cpus() -> int:
    return os.cpu_count() or 1


@dataclass(frozen=True, slots=True)
class ManifestManagerSettings:
    """The loop that evaluates schedules."""

    poll_every: timedelta = setting(
        pause(), timedelta(seconds=5), "The longest pause between two cycles; a due instant wakes it sooner."
    )
    max_entries_per_cycle: int | None = setting(
        or_none(whole_number()),
        200,
        "The maximum number of entries that one cycle queues; the next follows at once.",
    )
    advisory_lock: bool = setting(
        switch(), True, "Off lets all servers evaluate concurrently: more work, the same result. For tests."
    )
    default_timeout: Timeout = setting(
        or_no_timeout(span()),
        timedelta(minutes=20),
        "The timeout of a run if neither its job nor its manifest sets one.",
    )
    stale_pending_after: timedelta = setting(
        span(), timedelta(minutes=20), "The age at which a pending run fails if no live worker can take it."
    )
    stale_in_progress_after: timedelta = setting(
        span(), timedelta(minutes=60), "The age at which a run fails, regardless of its worker's lease."
    )
    stale_grace: timedelta = setting(
        span(), timedelta(minutes=40), "Added to a run's timeout, if that is longer than the age above."
    )
    repair_page: int = setting(
        whole_number(maximum=100_000), 1_000, "The number of manifests that one repair pass checks."
    )


@dataclass(frozen=True, slots=True)
class DispatcherSettings:
    """The loop that turns queued entries into runs."""

    poll_every: timedelta = setting(
        pause(),
        timedelta(seconds=2),
        "The longest pause between two cycles; a notification wakes it sooner.",
    )
    max_active_jobs: int | Literal["auto"] | None = setting(
        or_none(or_auto(whole_number())),
        "auto",
        "The maximum number of runs pending or in progress. auto: twice the slots of the live workers, at "
        "least 10; no limit if a submitter passes the runs to another engine.",
    )
    max_per_group: int = setting(
        whole_number(), 100, "The maximum number of entries of one group in one cycle."
    )


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """The process that claims runs and executes them."""

    slots: int = setting(
        whole_number(maximum=100_000),
        100,
        "The maximum number of runs that one worker executes concurrently.",
    )
    count: int = setting(
        whole_number(maximum=1_000),
        1,
        "Worker processes of `up` and `work`, each with all `slots`; 1: inside the process of the services.",
    )
    threads: int = setting(
        whole_number(maximum=10_000),
        100,
        "The maximum number of sync junctions that one worker runs concurrently, each in a thread.",
    )
    processes: int = measured(
        whole_number(maximum=1_000),
        _count_cpus,
        "The maximum number of processes for trains with `process=True`.",
        default_is="the number of CPUs",
    )
    prefetch: int = setting(
        whole_number(minimum=0, maximum=100_000),
        2_000,
        "The maximum number of runs that a worker claims beyond its free slots; fewer if its runs take long.",
    )
    lease_for: timedelta = setting(
        span(timedelta(seconds=1), LONGEST_PAUSE),
        timedelta(seconds=9),
        "How long a worker is trusted after its last heartbeat; then its runs are given to others.",
    )
    heartbeat_every: timedelta = setting(
        pause(), timedelta(seconds=3), "How often a worker renews its lease; at most half of `lease_for`."
    )
    poll_every: timedelta = setting(
        pause(),
        timedelta(seconds=2),
        "The longest pause between two claims; a notification wakes it sooner.",
    )
    shutdown_grace: timedelta = setting(
        span(timedelta(0), LONGEST_PAUSE),
        timedelta(seconds=30),
        "The grace period in which runs may end by themselves at shutdown.",
    )
    finish_batch: int = setting(
        whole_number(maximum=10_000), 1_000, "The maximum number of runs that are finished in one write."
    )
    max_output_bytes: int = setting(
        whole_number(maximum=1_000_000_000),
        1_048_576,
        "The maximum size of an output; a larger output fails the run.",
    )


@dataclass(frozen=True, slots=True)
class HookSettings:
    """The application's hooks, which are called concurrently with the runs."""

    timeout: timedelta = setting(span(), timedelta(seconds=10), "The timeout of one call of a hook.")


@dataclass(frozen=True, slots=True)
class RetrySettings:
    """Retries after a failure, if neither the job nor its manifest sets them."""

    max_retries: int = setting(
        count_of("max_retries"),
        3,
        "The number of failed attempts after which a job is parked; at least one attempt is made.",
    )
    delay: timedelta = setting(
        span_of("retry_delay"),
        timedelta(minutes=5),
        "The delay before the first retry; it doubles with each further failure (exponential back-off).",
    )
    longest_delay: timedelta = setting(
        span_of("retry_delay"),
        timedelta(hours=1),
        "The maximum of the doubled delay; a longer first delay is not shortened.",
    )
    jitter: float = setting(
        share(), 0.1, "The maximum jitter, as a share of the delay; it is derived from the run's id."
    )
    park_window: timedelta = setting(
        span_of("park_window"),
        timedelta(minutes=15),
        "How long a schedule with a period shorter than the delay must have failed before it is parked.",
    )


@dataclass(frozen=True, slots=True)
class ScheduleSettings:
    """Defaults of schedules."""

    misfire: Literal["fire_once_now", "do_nothing", "catch_up"] = setting(
        choice("fire_once_now", "do_nothing", "catch_up"),
        "fire_once_now",
        "What to do with missed instants.",
    )
    misfire_threshold: timedelta = setting(
        span_of("misfire_threshold"),
        timedelta(seconds=60),
        "The lateness from which an instant counts as missed.",
    )


@dataclass(frozen=True, slots=True)
class RunLogSettings:
    """The log lines that are kept with a run."""

    max_lines: int = setting(whole_number(minimum=0), 1_000, "The maximum number of lines kept of one run.")
    max_line_chars: int = setting(whole_number(), 4_000, "The length at which a line is cut.")
    flush_every: timedelta = setting(
        pause(), timedelta(milliseconds=500), "How long lines are collected before they are written."
    )
