"""The six kinds of schedule with their stored forms, and the values of a verdict."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, Self, TypeAlias

from gandy.errors import IntervalError, NaiveInstantError, OnceError

if TYPE_CHECKING:
    from collections.abc import Mapping

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


class EdgeKind(StrEnum):
    """Which end of a parent a dependent follows."""

    SUCCESS = "success"
    FAILURE = (
        "failure"  #: its last attempt has failed; an attempt that is followed by another one does not count
    )
    END = "end"  #: success, failure, or cancelled
    ACTIVATION = "activation"  #: a run of the parent asks for it; of dormant dependents only


class Edge(NamedTuple):
    """A dependency, from the side of the dependent."""

    parent: str  #: external id
    kind: EdgeKind
    is_output_passed: bool = False  #: the output of the parent is the input of the dependent


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
class Span:
    """The instants from `since` to `until`, both included."""

    since: datetime
    until: datetime


class ScheduleColumns(NamedTuple):
    """The columns of a manifest that hold its schedule, in the order of the view."""

    kind: str
    expression: str | None = None
    seconds: float | None = None
    timezone: str = "UTC"
    scheduled_at: datetime | None = None


class ScheduleKind:
    """What every kind of schedule offers: its type, its forms in JSON and in columns, and its values."""

    __slots__ = ()
    type: ClassVar[ScheduleType]

    def to_json(self) -> dict[str, object]:
        """Serialise the fields; a delay stays relative, so that declaring it again changes nothing."""
        return {"type": self.type.value}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:  # noqa: ARG003 - for kinds with fields
        """Read what `to_json` wrote."""
        return cls()

    def columns(self) -> dict[str, object]:
        """Return the columns that only this kind fills."""
        return {}

    @classmethod
    def from_columns(cls, columns: ScheduleColumns) -> Self:  # noqa: ARG003 - the same
        """Read the columns of a manifest."""
        return cls()

    def bounded(self) -> dict[str, object | None]:
        """Return the values that the table of bounds limits, by their names there."""
        return {}


@dataclass(frozen=True, slots=True)
class Manual(ScheduleKind):
    """Never due by itself: an operator or another job triggers it."""

    type = ScheduleType.NONE


@dataclass(frozen=True, slots=True)
class Cron(ScheduleKind):
    """A cron expression read in a time zone; `gandy.cron` makes a checked one."""

    type = ScheduleType.CRON
    expression: str
    timezone: str = "UTC"

    def to_json(self) -> dict[str, object]:
        """Serialise the expression and its zone."""
        return {"type": self.type.value, "expression": self.expression, "timezone": self.timezone}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Read both."""
        return cls(data["expression"], data["timezone"])

    def columns(self) -> dict[str, object]:
        """Return the expression."""
        return {"cron_expression": self.expression}

    @classmethod
    def from_columns(cls, columns: ScheduleColumns) -> Self:
        """Read the expression and its zone."""
        return cls(columns.expression or "", columns.timezone)


@dataclass(frozen=True, slots=True)
class Interval(ScheduleKind):
    """A fixed rate, anchored at the first due instant."""

    type = ScheduleType.INTERVAL
    every: timedelta
    timezone: str = "UTC"  #: for exclusions only; the rate does not depend on a zone

    def __post_init__(self) -> None:
        if self.every < SHORTEST_INTERVAL:
            raise IntervalError(self.every, "is shorter than one second")
        if self.every > LONGEST_INTERVAL:
            raise IntervalError(self.every, "is longer than a century")

    def to_json(self) -> dict[str, object]:
        """Serialise the rate in seconds."""
        return {"type": self.type.value, "every": self.every.total_seconds(), "timezone": self.timezone}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Read the rate."""
        return cls(timedelta(seconds=data["every"]), data["timezone"])

    def columns(self) -> dict[str, object]:
        """Return the rate."""
        return {"interval_seconds": self.every.total_seconds()}

    @classmethod
    def from_columns(cls, columns: ScheduleColumns) -> Self:
        """Read the rate."""
        return cls(timedelta(seconds=columns.seconds or 0), columns.timezone)

    def bounded(self) -> dict[str, object | None]:
        """Return the rate."""
        return {"every": self.every}


@dataclass(frozen=True, slots=True)
class Once(ScheduleKind):
    """One instant, given outright or as a delay that the first seeding resolves."""

    type = ScheduleType.ONCE
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

    def to_json(self) -> dict[str, object]:
        """Serialise the instant, or the delay in seconds."""
        at = None if self.at is None else self.at.astimezone(UTC).isoformat()
        delay = None if self.delay is None else self.delay.total_seconds()
        return {"type": self.type.value, "at": at, "delay": delay, "timezone": self.timezone}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Read the instant or the delay."""
        at = None if data["at"] is None else datetime.fromisoformat(data["at"])
        delay = None if data["delay"] is None else timedelta(seconds=data["delay"])
        return cls(at, delay, data["timezone"])

    @classmethod
    def from_columns(cls, columns: ScheduleColumns) -> Self:
        """Read the instant, which the first seeding has resolved."""
        return cls(at=columns.scheduled_at, timezone=columns.timezone)

    def bounded(self) -> dict[str, object | None]:
        """Return the instant and the delay."""
        return {"at": self.at, "delay": self.delay}


@dataclass(frozen=True, slots=True, init=False)
class Dependent(ScheduleKind):
    """Due when each parent has ended, in the way that `on` names, since this manifest was last queued."""

    type = ScheduleType.DEPENDENT
    parents: tuple[str, ...]  #: external ids
    on: EdgeKind
    is_output_passed: bool  #: the parent's output is the input

    def __init__(
        self, *parents: str, on: EdgeKind = EdgeKind.SUCCESS, is_output_passed: bool = False
    ) -> None:
        object.__setattr__(self, "parents", parents)
        object.__setattr__(self, "on", on)
        object.__setattr__(self, "is_output_passed", is_output_passed)

    @property
    def edges(self) -> tuple[Edge, ...]:
        """The parents, in the order in which they were declared."""
        return tuple(Edge(parent, self.on, self.is_output_passed) for parent in self.parents)

    def to_json(self) -> dict[str, object]:
        """Serialise the parents, and which of their ends count."""
        return {
            "type": self.type.value,
            "parents": list(self.parents),
            "on": self.on.value,
            "is_output_passed": self.is_output_passed,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Read them; older declarations have one parent, whose successes count."""
        if "parents" not in data:
            return cls(data["parent"])
        return cls(*data["parents"], on=EdgeKind(data["on"]), is_output_passed=data["is_output_passed"])

    def bounded(self) -> dict[str, object | None]:
        """Return the parents."""
        return {"after": self.parents}


@dataclass(frozen=True, slots=True)
class DormantDependent(ScheduleKind):
    """Belongs to a parent, and runs only when the parent's run activates it."""

    type = ScheduleType.DORMANT_DEPENDENT
    parent: str  #: external id

    @property
    def edges(self) -> tuple[Edge, ...]:
        """The parent."""
        return (Edge(self.parent, EdgeKind.ACTIVATION),)

    def to_json(self) -> dict[str, object]:
        """Serialise the parent."""
        return {"type": self.type.value, "parent": self.parent}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Read the parent."""
        return cls(data["parent"])

    @classmethod
    def from_columns(cls, columns: ScheduleColumns) -> Self:  # noqa: ARG003 - the parent is an edge
        """Read the kind alone."""
        return cls("")

    def bounded(self) -> dict[str, object | None]:
        """Return the parent."""
        return {"after": (self.parent,)}


#: Kinds with a timetable: instants that follow each other without end.
Recurring: TypeAlias = Cron | Interval
#: Kinds that an application passes to `schedule`; the others follow a parent.
TimeSchedule: TypeAlias = Manual | Recurring | Once
Schedule: TypeAlias = TimeSchedule | Dependent | DormantDependent


_KINDS: Final = {kind.type: kind for kind in (Manual, Cron, Interval, Once, Dependent, DormantDependent)}


def schedule_from_json(data: Mapping[str, Any]) -> Schedule:
    """Read a schedule of any kind."""
    return _KINDS[ScheduleType(data["type"])].from_json(data)


def schedule_from_columns(columns: ScheduleColumns) -> Schedule:
    """Read the columns of a schedule of any kind."""
    return _KINDS[ScheduleType(columns.kind)].from_columns(columns)


def timezone_of(schedule: Schedule) -> str:
    """Return the zone of this schedule and its exclusions."""
    return schedule.timezone if isinstance(schedule, Cron | Interval | Once) else "UTC"


def edges_of(schedule: Schedule) -> tuple[Edge, ...]:
    """Return the dependencies of a manifest with this schedule."""
    return schedule.edges if isinstance(schedule, Dependent | DormantDependent) else ()


def edges_from_json(text: str | None) -> tuple[Edge, ...]:
    """Read the edges of a manifest, as the statements that list manifests write them."""
    return tuple(
        Edge(parent, EdgeKind(kind), bool(is_passed)) for parent, kind, is_passed in json.loads(text or "[]")
    )
