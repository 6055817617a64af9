"""The words that people write in a declaration: checked at once, so that a mistake stops the deploy."""

from __future__ import annotations

from datetime import datetime, timedelta

from gandy.errors import IntervalError
from gandy.model.schedule import LONGEST_INTERVAL, Cron, Interval, Once
from gandy.rules.calendar.cron import validate
from gandy.rules.calendar.zones import zone


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
    try:
        span = timedelta(weeks=weeks, days=days, hours=hours, minutes=minutes, seconds=seconds)
    except (OverflowError, ValueError) as error:
        raise IntervalError(LONGEST_INTERVAL, "is the longest there is") from error
    return Interval(span, timezone)


def cron(expression: str, timezone: str = "UTC") -> Cron:
    """Run when the wall clock of a zone matches: `cron("0 3 * * *", timezone="Europe/Berlin")`."""
    validate(expression, timezone)
    return Cron(" ".join(expression.split()), timezone)


def once(*, at: datetime | None = None, delay: timedelta | None = None, timezone: str = "UTC") -> Once:
    """Run one time, at an instant or after a delay. The zone is for exclusions only."""
    zone(timezone)
    return Once(at, delay, timezone)
