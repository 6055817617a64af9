"""Zone changes of many kinds, and the slow and obvious way to say what cron does around them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

MINUTE = timedelta(minutes=1)
AROUND = timedelta(hours=40)

#: Zone and day (UTC) of a change: forward, back, by 15 minutes to a day, at midnight, at one past it.
CHANGES = (
    ("Africa/Cairo", "2023-04-27"),
    ("Africa/Cairo", "2023-10-26"),
    ("Africa/Casablanca", "2026-02-15"),
    ("Africa/Casablanca", "2026-03-22"),
    ("America/Asuncion", "2023-10-01"),
    ("America/Caracas", "2016-05-01"),
    ("America/Havana", "2026-03-08"),
    ("America/Havana", "2026-11-01"),
    ("America/New_York", "2026-03-08"),
    ("America/New_York", "2026-11-01"),
    ("America/Nuuk", "2023-03-26"),
    ("America/Santiago", "2026-04-05"),
    ("America/Sao_Paulo", "2018-02-18"),
    ("America/Sao_Paulo", "2018-11-04"),
    ("America/St_Johns", "2006-04-02"),
    ("America/St_Johns", "2006-10-29"),
    ("Antarctica/Troll", "2026-03-29"),
    ("Antarctica/Troll", "2026-10-25"),
    ("Asia/Amman", "2022-02-24"),
    ("Asia/Beirut", "2026-03-28"),
    ("Asia/Gaza", "2023-10-28"),
    ("Asia/Kathmandu", "1985-12-31"),
    ("Asia/Pyongyang", "2015-08-14"),
    ("Asia/Pyongyang", "2018-05-04"),
    ("Asia/Tehran", "2021-03-21"),
    ("Asia/Tehran", "2021-09-21"),
    ("Australia/Lord_Howe", "2026-04-04"),
    ("Australia/Lord_Howe", "2026-10-03"),
    ("Europe/Berlin", "2026-03-29"),
    ("Europe/Berlin", "2026-10-25"),
    ("Europe/Dublin", "2026-10-25"),
    ("Europe/Volgograd", "2020-12-26"),
    ("Pacific/Apia", "2011-12-30"),
    ("Pacific/Chatham", "2026-04-04"),
    ("Pacific/Chatham", "2026-09-26"),
    ("Pacific/Kwajalein", "1993-08-21"),
)


@dataclass(frozen=True)
class Fields:
    """A cron expression of five fields, as text and as the sets that it stands for."""

    text: str
    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]  #: Sunday is 0

    def matches(self, wall: datetime) -> bool:
        return (
            wall.minute in self.minutes
            and wall.hour in self.hours
            and wall.month in self.months
            and self._matches_day(wall)
        )

    def _matches_day(self, wall: datetime) -> bool:
        in_days, in_week = wall.day in self.days, wall.isoweekday() % 7 in self.weekdays
        fields = self.text.split()
        if fields[2].startswith("*") or fields[4].startswith("*"):
            return in_days and in_week
        return in_days or in_week

    @property
    def follows_the_clock(self) -> bool:
        return any(field.startswith("*") for field in self.text.split()[:2])


def window(day: str) -> tuple[datetime, datetime]:
    """The span of time around a change in which the two ways are compared."""
    middle = datetime.fromisoformat(day).replace(tzinfo=UTC, hour=12)
    return middle - AROUND, middle + AROUND


@lru_cache(maxsize=64)
def walk(zone: str, day: str) -> tuple[tuple[datetime, datetime], ...]:
    """Every minute around a change with what the wall clock shows then."""
    (at, end), tz = window(day), ZoneInfo(zone)
    minutes = []
    while at <= end:
        minutes.append((at, at.astimezone(tz).replace(tzinfo=None)))
        at += MINUTE
    return tuple(minutes)


@lru_cache(maxsize=64)
def first_reached(zone: str, day: str) -> tuple[tuple[datetime, tuple[datetime, ...]], ...]:
    """Every minute around a change with the times that the clock then reaches, or jumps over, first."""
    minutes = walk(zone, day)
    reached, found = minutes[0][1], []
    for at, wall in minutes[1:]:
        fresh = []
        while reached < wall:
            reached += MINUTE
            fresh.append(reached)
        found.append((at, tuple(fresh)))
    return tuple(found)


def brute_force(fields: Fields, zone: str, day: str) -> list[datetime]:
    """The occurrences around a change, found minute by minute."""
    if fields.follows_the_clock:
        return [at for at, wall in walk(zone, day)[1:] if fields.matches(wall)]
    return [at for at, fresh in first_reached(zone, day) if any(map(fields.matches, fresh))]
