"""Schedules in plain words, as far as plain words go; the expression itself says the rest."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Final

from gandy.settings import format_duration

_DAYS: Final = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_NAMES: Final = {name[:3].lower(): number for number, name in enumerate(_DAYS[:7])}
_MONTHS: Final = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
    "November", "December",
)  # fmt: skip
_FIELDS: Final = 5


def plain_interval(every: timedelta) -> str:
    """Say how often, as a person would."""
    for unit, name in (
        (timedelta(days=1), "day"),
        (timedelta(hours=1), "hour"),
        (timedelta(minutes=1), "minute"),
    ):
        if every == unit:
            return f"every {name}"
    return f"every {format_duration(every)}"


def plain_cron(expression: str) -> str | None:
    """Say what a common expression means; None where words would be longer than the expression."""
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
        if step is not None:
            return f"every {step[1]} minutes"
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
