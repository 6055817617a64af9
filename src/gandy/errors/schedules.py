"""What can be wrong with a schedule."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gandy.errors.base import GandyError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime, timedelta


class ScheduleError(GandyError, ValueError):
    """A schedule that cannot be kept; the classes below say which part of it."""

    exit_code = 2


class CronExpressionError(ScheduleError):
    """A cron expression that cannot be read, or that never matches."""

    def __init__(self, expression: str, problem: str) -> None:
        super().__init__(
            f"cron expression {expression!r}: {problem}. Write five fields (minute hour day month weekday), "
            'or six with leading seconds, such as "30 3 * * mon-fri"'
        )
        self.expression = expression
        self.problem = problem


class TimezoneNotFoundError(ScheduleError):
    """A time zone that the machine's zone database does not hold."""

    def __init__(self, timezone: str) -> None:
        super().__init__(
            f"time zone {timezone!r} is not known here. Use an IANA name such as 'Europe/Berlin' or 'UTC'; "
            "if the name is right, update the tzdata package"
        )
        self.timezone = timezone


class IntervalError(ScheduleError):
    """An interval that is too short or too long."""

    def __init__(self, every: timedelta | str, problem: str) -> None:
        said = every if isinstance(every, str) else f"an interval of {every}"
        super().__init__(f"{said} {problem}. Use something like every(minutes=5)")
        self.every = every
        self.problem = problem


class OnceError(ScheduleError):
    """A one-off schedule that does not say when, or says it twice."""

    def __init__(self, problem: str) -> None:
        super().__init__(
            f"a job that runs once {problem}. Give either at=<aware datetime> or delay=<timedelta>"
        )
        self.problem = problem


class ExclusionError(ScheduleError):
    """An exclusion that cannot be read or would never end."""

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__(f"exclusion: {problem}. {remedy}")
        self.problem = problem
        self.remedy = remedy


class ExcludedInstantError(ScheduleError):
    """A one-off job whose only instant is excluded."""

    def __init__(self, at: datetime, timezone: str) -> None:
        super().__init__(
            f"{at.isoformat()} is excluded in {timezone}, so this job would never run. "
            "Choose another instant or drop the exclusion"
        )
        self.at = at
        self.timezone = timezone


class DependencyCycleError(ScheduleError):
    """Manifests that wait for each other."""

    def __init__(self, cycle: Sequence[str]) -> None:
        super().__init__(
            f"these manifests wait for each other: {' -> '.join(cycle)}. Remove one of these dependencies"
        )
        self.cycle = tuple(cycle)
