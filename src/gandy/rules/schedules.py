"""The words that people write in a declaration: checked at once, so that a mistake stops the deploy."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from gandy.errors import IntervalError, NaiveInstantError, OnceError
from gandy.model.schedule import Cron, Interval, Once, timezone_of
from gandy.rules.calendar.cron import validate
from gandy.rules.calendar.words import plain_expression
from gandy.rules.calendar.zones import zone
from gandy.settings.bounds import BOUNDS, shown

if TYPE_CHECKING:
    from gandy.model.schedule import Schedule


def every(
    *,
    weeks: float = 0,
    days: float = 0,
    hours: float = 0,
    minutes: float = 0,
    seconds: float = 0,
    timezone: str = "UTC",
) -> Interval:
    """Run at a fixed rate, at least a second apart: `every(minutes=5)`. The zone is for exclusions only."""
    zone(timezone)
    given = {"weeks": weeks, "days": days, "hours": hours, "minutes": minutes, "seconds": seconds}
    return Interval(_rate(given), timezone)


def cron(expression: str, timezone: str = "UTC") -> Cron:
    """Run when the wall clock of a zone matches: `cron("0 3 * * *", timezone="Europe/Berlin")`.

    `@hourly`, `@daily` and their kin are read too, and so are ranges that wrap, such as `22-2` or `FRI-MON`.
    """
    plain = plain_expression(expression)
    validate(plain, timezone)
    return Cron(plain, timezone)


def once(*, at: datetime | None = None, delay: timedelta | None = None, timezone: str = "UTC") -> Once:
    """Run one time, at an instant or after a delay. The zone is for exclusions only."""
    zone(timezone)
    for option, value in (("at", at), ("delay", delay)):
        if option == "at" and isinstance(value, datetime) and value.tzinfo is None:
            raise NaiveInstantError(value)
        if value is not None and (problem := BOUNDS[option].problem(option, value)):
            raise OnceError(f"cannot be kept: {problem}")
    return Once(at, delay, timezone)


def checked(schedule: Schedule) -> Schedule:
    """Check a schedule that was made by hand as the words above would have."""
    if isinstance(schedule, Cron):
        return cron(schedule.expression, schedule.timezone)
    zone(timezone_of(schedule))
    return schedule


def _rate(given: dict[str, float]) -> timedelta:
    """Add up the parts of a rate; each is a number, and their sum is what a duration may be."""
    rate = _sum(given)
    if rate is None or not BOUNDS["every"].holds(rate):
        parts = ", ".join(f"{unit}={shown(number)}" for unit, number in given.items() if number != 0)
        raise IntervalError(f"every({parts})", f"must be {BOUNDS['every'].expected}")
    return rate


def _sum(given: dict[str, float]) -> timedelta | None:
    if any(isinstance(number, bool) for number in given.values()):
        return None
    try:
        return timedelta(**given)
    except (OverflowError, ValueError, TypeError):
        return None
