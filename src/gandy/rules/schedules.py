"""Make schedules, describe them, compute their cursors, and detect cyclic dependencies."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, assert_never

from gandy.errors import DependencyCycleError, IntervalError, NaiveInstantError, OnceError
from gandy.model.schedule import (
    Cron,
    Dependent,
    DormantDependent,
    EdgeKind,
    Interval,
    Manual,
    Once,
    ScheduleType,
    timezone_of,
)
from gandy.rules.cron import next_after, plain_expression, validate
from gandy.rules.zones import zone
from gandy.settings import format_duration
from gandy.settings.bounds import BOUNDS, shown

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from gandy.model.schedule import Edge, Schedule, ScheduleColumns

_DAYS: Final = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_NAMES: Final = {name[:3].lower(): number for number, name in enumerate(_DAYS[:7])}
_MONTHS: Final = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
    "November", "December",
)  # fmt: skip
_FIELDS: Final = 5
_EVEN_STEPS: Final = frozenset((2, 3, 4, 5, 6, 10, 12, 15, 20, 30))


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


def describe(columns: ScheduleColumns, edges: Sequence[Edge] = ()) -> str:
    """Describe when a schedule is due, from what a listing reads of it."""
    if columns.kind == ScheduleType.CRON:
        words = plain_cron(columns.expression or "")
        exact = f"cron {columns.expression}, {columns.timezone}"
        return exact if words is None else f"{words} ({exact})"
    if columns.kind == ScheduleType.INTERVAL:
        return plain_interval(timedelta(seconds=columns.seconds or 0))
    others: dict[str, str] = {
        ScheduleType.NONE: "only when triggered",
        ScheduleType.ONCE: "once",
        ScheduleType.DEPENDENT: plain_edges(edges),
        ScheduleType.DORMANT_DEPENDENT: plain_edges(edges),
    }
    return others.get(columns.kind, f"unknown kind of schedule: {columns.kind}")


_AFTER: Final = {
    EdgeKind.SUCCESS: "after {}",
    EdgeKind.FAILURE: "after a failure of {}",
    EdgeKind.END: "after any end of {}",
    EdgeKind.ACTIVATION: "when {} activates it",
}


def plain_edges(edges: Sequence[Edge]) -> str:
    """Describe what a dependent follows."""
    names = [edge.parent for edge in edges] or ["its parent"]
    listed = " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
    kind = edges[0].kind if edges else EdgeKind.SUCCESS
    passed = ", with its output" if any(edge.is_output_passed for edge in edges) else ""
    return _AFTER[kind].format(listed) + passed


def plain_interval(rate: timedelta) -> str:
    """Describe an interval in words."""
    for unit, name in (
        (timedelta(days=1), "day"),
        (timedelta(hours=1), "hour"),
        (timedelta(minutes=1), "minute"),
    ):
        if rate == unit:
            return f"every {name}"
    return f"every {format_duration(rate)}"


def plain_cron(expression: str) -> str | None:
    """Describe a common cron expression in words; None for any other."""
    fields = expression.lower().split()
    if len(fields) != _FIELDS:
        return None
    minute, hour, day, month, weekday = fields
    when = _time(minute, hour)
    which = _days(day, month, weekday)
    return None if when is None or which is None else f"{when}{which}"


def _time(minute: str, hour: str) -> str | None:
    step = re.fullmatch(r"\*/(\d+)", minute)
    if hour == "*":
        if minute == "*":
            return "every minute"
        if step is not None:  # a step that does not divide the hour is no rate
            return f"every {step[1]} minutes" if int(step[1]) in _EVEN_STEPS else None
        return (
            f"every hour, {minute} minutes past" if minute.isdigit() and int(minute) else _on_the_hour(minute)
        )
    if minute.isdigit() and re.fullmatch(r"\d+(,\d+)*", hour):
        return "at " + " and ".join(f"{int(each):02}:{int(minute):02}" for each in hour.split(","))
    return None


def _on_the_hour(minute: str) -> str | None:
    return "every hour" if minute == "0" else None


def _days(day: str, month: str, weekday: str) -> str | None:
    if (day, month, weekday) == ("*", "*", "*"):
        return ""
    if (day, month) == ("*", "*"):
        said = _weekdays(weekday)
        return None if said is None else f", {said}"
    if day.isdigit() and weekday == "*":
        if month == "*":
            return f", on day {day} of the month"
        if month.isdigit():
            return f", on {_MONTHS[int(month) - 1]} {day}"
    return None


def _weekdays(field: str) -> str | None:
    found = [_weekday(each) for each in re.split(r"[-,]", field)]
    if any(each is None for each in found):
        return None
    if "-" not in field:
        return " and ".join(str(each) for each in found)
    return None if "," in field else f"{found[0]} to {found[1]}"


def _weekday(text: str) -> str | None:
    number = int(text) if text.isdigit() else _NAMES.get(text[:3], -1)
    return _DAYS[number] if 0 <= number < len(_DAYS) else None


def find_cycle(
    parents: Mapping[str, Collection[str]], starts: Iterable[str] | None = None
) -> tuple[str, ...] | None:
    """Find a cycle of dependents; the first manifest is repeated at the end.

    `parents` maps each dependent to its parents; `starts` limits the search to the added manifests.
    """
    cleared: set[str] = set()
    for start in parents if starts is None else starts:
        path: dict[str, Iterator[str]] = {} if start in cleared else {start: _above(parents, start)}
        while path:
            here = next(reversed(path))
            parent = next((each for each in path[here] if each not in cleared), None)
            if parent is None:
                cleared.add(here)
                del path[here]
            elif parent in path:
                names = list(path)
                return (*names[names.index(parent) :], parent)
            else:
                path[parent] = _above(parents, parent)
    return None


def _above(parents: Mapping[str, Collection[str]], name: str) -> Iterator[str]:
    return iter(parents.get(name, ()))


def refuse_cycle(parents: Mapping[str, Collection[str]], starts: Iterable[str] | None = None) -> None:
    """Raise an error that lists the cycle, if there is one."""
    cycle = find_cycle(parents, starts)
    if cycle is not None:
        raise DependencyCycleError(cycle)
