"""Manifests, as declared by an application and as read by the scheduler."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

from gandy.model.options import EXCLUSIONS, NUMBER, POLICY, SPAN, SWITCH, TEXT, TIMEOUT, Option
from gandy.model.schedule import MisfirePolicy, Origin, Schedule, SkipReason, Span, timezone_of

if TYPE_CHECKING:
    from gandy.model.exclusion import Exclusion
    from gandy.settings.bounds import Timeout


DEFAULT_GROUP: Final = "default"
DEFAULT_MAX_RETRIES: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDeclaration:
    """A group as declared in code."""

    name: str
    max_active_jobs: int | None = None
    priority: int = 0
    is_enabled: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestDeclaration:
    """A manifest as declared in code; its input is already JSON, checked against the train's type."""

    external_id: str
    train: str
    input_json: str | None
    input_type_name: str
    schedule: Schedule
    group: str = DEFAULT_GROUP
    priority: int | None = None  #: None: the priority of the group
    max_retries: int = DEFAULT_MAX_RETRIES
    is_retried: bool = True
    retry_delay: timedelta | None = None
    timeout: Timeout | None = None
    is_enabled: bool = True
    variance: timedelta = timedelta(0)
    exclusions: tuple[Exclusion, ...] = ()
    misfire_policy: MisfirePolicy = MisfirePolicy.FIRE_ONCE_NOW
    misfire_threshold: timedelta = timedelta(seconds=60)
    keep_for: timedelta | None = None
    keep_last: int | None = None
    batch: str | None = None  #: the schedule_many that declared it
    unsaid: frozenset[str] = frozenset()  #: the fields that the settings fill in before it is seeded


#: The options that a declaration, a schedule's keywords, operators and the stored row have in common.
MANIFEST_OPTIONS: Final = (
    Option(keyword="group", form=TEXT, label="Group", about="The group of the manifest."),
    Option(keyword="priority", form=NUMBER, label="Priority", about="0 to 31, higher first."),
    Option(
        keyword="max_retries",
        form=NUMBER,
        label="Max retries",
        about="Attempts before a dead letter.",
        column="max_retries",
        setting=("retry", "max_retries"),
    ),
    Option(
        keyword="retry",
        field="is_retried",
        form=SWITCH,
        label="Retry",
        about="Whether a failed run is retried.",
        column="is_retried",
    ),
    Option(
        keyword="retry_delay",
        form=SPAN,
        label="Retry delay",
        about="Delay before the first retry.",
        column="retry_delay_seconds",
    ),
    Option(
        keyword="timeout",
        form=TIMEOUT,
        label="Timeout",
        about="Time limit of a run, or none.",
        column="timeout_seconds",
    ),
    Option(
        keyword="enabled",
        field="is_enabled",
        form=SWITCH,
        label="Enabled",
        about="Whether it runs.",
        takes_none=False,
        is_overridable=False,
    ),
    Option(
        keyword="variance",
        form=SPAN,
        label="Variance",
        about="Maximum jitter.",
        takes_none=False,
        column="variance_seconds",
        section="when",
    ),
    Option(
        keyword="exclude",
        field="exclusions",
        form=EXCLUSIONS,
        label="Exclusions",
        about='A list such as [{"days": ["sat", "sun"]}, {"start": "22:00", "end": "06:00"}]; [] for none.',
        column="exclusions",
        section="when",
    ),
    Option(
        keyword="misfire",
        field="misfire_policy",
        form=POLICY,
        label="Misfire",
        about="Policy for missed occurrences.",
        column="misfire_policy",
        section="when",
        setting=("schedule", "misfire"),
    ),
    Option(
        keyword="misfire_threshold",
        form=SPAN,
        label="Misfire threshold",
        about="Delay that counts as missed.",
        column="misfire_threshold_seconds",
        section="when",
        setting=("schedule", "misfire_threshold"),
    ),
    Option(
        keyword="keep_for",
        form=SPAN,
        label="Keep for",
        about="Retention of its runs.",
        column="keep_for_seconds",
    ),
    Option(
        keyword="keep_last",
        form=NUMBER,
        label="Keep last",
        about="Maximum number of runs to keep.",
        column="keep_last",
    ),
)
#: The options that concern the instants of a schedule.
OPTIONS_OF_INSTANTS: Final = tuple(option for option in MANIFEST_OPTIONS if option.section == "when")
#: The problem with such an option of a dependent.
NO_INSTANTS: Final = (
    "a dependent has no instants of its own: it runs when its parent has ended; "
    "set this on the parent's schedule"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchDeclaration:
    """A set of manifests that is declared together; a manifest that is removed from it is orphaned."""

    name: str
    prune_empty: bool = False  #: whether an empty set orphans all its former members


@dataclass(frozen=True, slots=True, kw_only=True)
class Declarations:
    """All declarations of one application; its owner may prune manifests that are no longer declared."""

    owner: str
    groups: tuple[GroupDeclaration, ...] = ()
    manifests: tuple[ManifestDeclaration, ...] = ()
    batches: tuple[BatchDeclaration, ...] = ()


DEFAULT_MISFIRE_THRESHOLD: Final = timedelta(seconds=60)


class DispatchView(NamedTuple):
    """A read-only snapshot of one manifest: a tuple, because a cycle builds thousands of them."""

    id: int
    external_id: str
    owner: str
    train: str
    group_id: int
    schedule: Schedule
    #: The cursor: the next nominal instant without a verdict. None: no instant is pending.
    next_scheduled_run: datetime | None = None
    priority: int | None = None  #: None: the priority of the group
    group_priority: int = 0
    exclusions: tuple[Exclusion, ...] = ()
    variance: timedelta = timedelta(0)
    misfire_policy: MisfirePolicy = MisfirePolicy.FIRE_ONCE_NOW
    misfire_threshold: timedelta = DEFAULT_MISFIRE_THRESHOLD
    is_enabled: bool = True
    group_enabled: bool = True
    is_orphaned: bool = False
    #: When the manifest or its group was last enabled, or its orphan mark cleared, whichever is later.
    enabled_at: datetime | None = None
    #: The first cycle that found the pending instant due and could not queue it within its limit.
    deferred_since: datetime | None = None
    #: The reason of the manifest's latest verdict, if that was a skip.
    last_skip: SkipReason | None = None
    failed_count: int = 0
    success_count: int = 0
    has_awaiting_dead_letter: bool = False
    is_dead_lettered_now: bool = False
    has_queued_work: bool = False
    has_active_execution: bool = False
    has_successful_metadata: bool = False
    completed_at: datetime | None = None
    parents_enabled: bool = True
    parents_ended: bool = False  #: each of them, in the way that counts, since this manifest was last queued
    next_look_at: datetime | None = None
    max_retries: int = 3
    is_retried: bool = True
    version: str = ""  #: of the row, for optimistic locking: a decision is valid for this version only
    next_set_to: datetime | None = None  #: set by an operator, of a recurring schedule
    has_queued_retry: bool = False  #: the queued entry is a retry of a failed run
    created_at: datetime | None = None
    served: tuple[Span, ...] = ()  #: instants to come that ran under a clock ahead; they are skipped
    served_through: int = 0  #: the last time of service that `served` accounts for
    served_from: datetime | None = None  #: where the cursor was set back to then

    @property
    def timezone(self) -> str:
        """The zone in which schedule and exclusions are read."""
        return timezone_of(self.schedule)

    @property
    def is_next_set(self) -> bool:
        """Whether an operator set the cursor."""
        return self.next_set_to is not None and self.next_set_to == self.next_scheduled_run

    @property
    def may_run(self) -> bool:
        """Whether the manifest and its group are enabled, and it is still declared."""
        return self.is_enabled and self.group_enabled and not self.is_orphaned


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One entry for the work queue."""

    due_at: datetime  #: the nominal instant
    scheduled_at: datetime  #: with jitter
    origin: Origin
    priority: int


@dataclass(frozen=True, slots=True)
class Skipped:
    """Consecutive instants with one reason: one row."""

    due_at: datetime
    due_until: datetime
    occurrences: int
    reason: SkipReason
    extends_last: bool = False  #: extends the manifest's latest verdict row instead of adding one


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision about a manifest in this cycle; written as one conditional update of its cursor.

    It does not name the manifest: those that differ only in their identity share one.
    """

    next_scheduled_run: datetime | None
    #: When to look again. None: when something changes (a run ends, a parent succeeds, an operator acts).
    next_look_at: datetime | None = None
    occurrence: Occurrence | None = None
    skipped: tuple[Skipped, ...] = ()
    deferred_by: SkipReason | None = None  #: the guard that blocks a due occurrence
    problem: str | None = None  #: why the schedule itself could not be read

    @property
    def has_verdict(self) -> bool:
        """Whether at least one occurrence was settled."""
        return self.occurrence is not None or bool(self.skipped)
