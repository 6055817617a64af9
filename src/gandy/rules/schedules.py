"""Make schedules, compute their cursors, and detect cyclic dependencies."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, assert_never

from gandy.errors import DependencyCycleError, IntervalError, NaiveInstantError, OnceError
from gandy.model.schedule import Cron, Dependent, DormantDependent, Interval, Manual, Once, timezone_of
from gandy.rules.cron import next_after, plain_expression, validate
from gandy.rules.zones import zone
from gandy.settings.bounds import BOUNDS, shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

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

    `@hourly`, `@daily` and the like are accepted, too, and so are ranges that wrap: `22-2` or `FRI-MON`.
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
            raise OnceError(f"cannot be stored: {problem}")
    return Once(at, delay, timezone)


def checked(schedule: Schedule) -> Schedule:
    """Check a schedule that was not made by the functions above."""
    if isinstance(schedule, Cron):
        return cron(schedule.expression, schedule.timezone)
    zone(timezone_of(schedule))
    return schedule


def _rate(given: dict[str, float]) -> timedelta:
    """Add up the parts of a rate; raise if a part is no number or the sum is out of bounds."""
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


def first_cursor(schedule: Schedule, now: datetime) -> datetime | None:
    """Return the cursor of a new manifest: an interval is due at once, a cron at its first occurrence."""
    match schedule:
        case Cron():
            return next_after(schedule.expression, schedule.timezone, now)
        case Interval():
            return now
        case Once():
            return schedule.due_at(now)
        case Manual() | Dependent() | DormantDependent():
            return None
        case _:
            assert_never(schedule)


def changed_cursor(
    before: Schedule, after: Schedule, *, cursor: datetime | None, now: datetime
) -> datetime | None:
    """Return the cursor of a manifest that is declared again: only a changed schedule moves it."""
    if _same_instants(before, after):
        return cursor
    if isinstance(before, Interval) and isinstance(after, Interval) and cursor is not None:
        # Counted from the previous instant, so that a deploy does not repeat a run that has just ended.
        return max(now, cursor - before.every + after.every)
    if isinstance(after, Interval):
        # Not due at once like a new manifest: two versions deployed alternately would run it each time.
        following = now + after.every
        return following if cursor is None else max(now, min(cursor, following))
    return first_cursor(after, now)


def _same_instants(before: Schedule, after: Schedule) -> bool:
    """Return whether only the zone of the exclusions differs, or nothing."""
    if isinstance(before, Interval) and isinstance(after, Interval):
        return before.every == after.every
    if isinstance(before, Once) and isinstance(after, Once):
        return replace(before, timezone=after.timezone) == after
    return before == after


def find_cycle(parents: Mapping[str, str], starts: Iterable[str] | None = None) -> tuple[str, ...] | None:
    """Find a cycle of dependents; the first manifest is repeated at the end.

    `parents` maps each dependent to its parent; `starts` limits the search to the added manifests.
    """
    cleared: set[str] = set()
    for start in parents if starts is None else starts:
        path: dict[str, None] = {}
        here: str | None = start
        while here is not None and here not in cleared:
            if here in path:
                names = list(path)
                return (*names[names.index(here) :], here)
            path[here] = None
            here = parents.get(here)
        cleared.update(path)
    return None


def refuse_cycle(parents: Mapping[str, str], starts: Iterable[str] | None = None) -> None:
    """Raise an error that lists the cycle, if there is one."""
    cycle = find_cycle(parents, starts)
    if cycle is not None:
        raise DependencyCycleError(cycle)
