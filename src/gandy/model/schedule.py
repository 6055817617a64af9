"""The six kinds of schedule, and the values of a verdict."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias, assert_never

from gandy.errors import IntervalError, NaiveInstantError, OnceError

if TYPE_CHECKING:
    from typing import Final

#: For a shorter interval the cycles would cost more than the work.
SHORTEST_INTERVAL: Final = timedelta(seconds=1)
LONGEST_INTERVAL: Final = timedelta(days=36_525)


class ScheduleType(StrEnum):
    """The kind of a schedule, as stored in the manifest table."""

    NONE = "none"
    CRON = "cron"
    INTERVAL = "interval"
    ONCE = "once"
    DEPENDENT = "dependent"
    DORMANT_DEPENDENT = "dormant_dependent"


class MisfirePolicy(StrEnum):
    """What to do with occurrences that were not evaluated in time."""

    FIRE_ONCE_NOW = "fire_once_now"
    DO_NOTHING = "do_nothing"
    CATCH_UP = "catch_up"


class SkipReason(StrEnum):
    """Why an occurrence was not queued."""

    EXCLUDED = "excluded"
    MISFIRED = "misfired"
    COALESCED = "coalesced"  #: written by older versions only
    ACTIVE = "active"
    ALREADY_QUEUED = "already_queued"
    DEAD_LETTER = "dead_letter"
    DISABLED = "disabled"
    CLOCK = "clock"
    ERROR = "error"


class Origin(StrEnum):
    """The origin of a queue entry."""

    SCHEDULE = "schedule"
    DEPENDENT = "dependent"
    TRIGGER = "trigger"
    RETRY = "retry"
    AD_HOC = "ad_hoc"
    DORMANT = "dormant"
    REQUEUE = "requeue"


@dataclass(frozen=True, slots=True)
class Manual:
    """Never due by itself: an operator or another job triggers it."""


@dataclass(frozen=True, slots=True)
class Cron:
    """A cron expression read in a time zone; `gandy.cron` makes a checked one."""

    expression: str
    timezone: str = "UTC"


@dataclass(frozen=True, slots=True)
class Interval:
    """A fixed rate, anchored at the first due instant."""

    every: timedelta
    timezone: str = "UTC"  #: for exclusions only; the rate does not depend on a zone

    def __post_init__(self) -> None:
        if self.every < SHORTEST_INTERVAL:
            raise IntervalError(self.every, "is shorter than one second")
        if self.every > LONGEST_INTERVAL:
            raise IntervalError(self.every, "is longer than a century")


@dataclass(frozen=True, slots=True)
class Once:
    """One instant, given outright or as a delay that the first seeding resolves."""

    at: datetime | None = None
    delay: timedelta | None = None
    timezone: str = "UTC"  #: for exclusions only

    def __post_init__(self) -> None:
        if (self.at is None) == (self.delay is None):
            raise OnceError("has no instant" if self.at is None else "has both an instant and a delay")
        if self.at is not None and self.at.tzinfo is None:
            raise NaiveInstantError(self.at)
        if self.delay is not None and self.delay < timedelta(0):
            raise OnceError(f"cannot be delayed by {self.delay}")

    def due_at(self, now: datetime) -> datetime:
        """Return the instant in UTC; a delay counts from `now`."""
        if self.at is not None:
            return self.at.astimezone(UTC)
        return now if self.delay is None else now + self.delay


@dataclass(frozen=True, slots=True)
class Dependent:
    """Due when the parent has succeeded since this manifest was last queued."""

    parent: str  #: external id


@dataclass(frozen=True, slots=True)
class DormantDependent:
    """Belongs to a parent, and runs only when the parent's run activates it."""

    parent: str  #: external id


Schedule: TypeAlias = Manual | Cron | Interval | Once | Dependent | DormantDependent


def schedule_type(schedule: Schedule) -> ScheduleType:
    """Return the stored value of this kind of schedule."""
    match schedule:
        case Manual():
            return ScheduleType.NONE
        case Cron():
            return ScheduleType.CRON
        case Interval():
            return ScheduleType.INTERVAL
        case Once():
            return ScheduleType.ONCE
        case Dependent():
            return ScheduleType.DEPENDENT
        case DormantDependent():
            return ScheduleType.DORMANT_DEPENDENT
        case _:
            assert_never(schedule)


def timezone_of(schedule: Schedule) -> str:
    """Return the zone of this schedule and its exclusions."""
    match schedule:
        case Cron() | Interval() | Once():
            return schedule.timezone
        case Manual() | Dependent() | DormantDependent():
            return "UTC"
        case _:
            assert_never(schedule)
