"""One value as text: for the eye of a person, and for a program."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import UTC, date, datetime, time, timedelta
from enum import Enum
from pathlib import PurePath
from uuid import UUID

from gandy.settings import format_duration
from gandy.settings.files import one_line

_SECOND = timedelta(seconds=1)
_MILLISECOND = timedelta(milliseconds=1)
_TEN_SECONDS = timedelta(seconds=10)


def human(value: object) -> str:
    """Write a value for people, on one line and without characters that could move a terminal's cursor."""
    match value:
        case None:
            text = "-"
        case bool():
            text = "yes" if value else "no"
        case Enum():
            text = human(value.value)
        case datetime():
            text = f"{value.astimezone(UTC):%Y-%m-%d %H:%M:%S}Z"
        case timedelta():
            text = format_duration(_rounded(value))
        case Mapping() | list() | tuple():
            text = to_json(value, indent=None)
        case _:
            text = str(value)
    return one_line(text)


def to_json(value: object, *, indent: int | None = 2) -> str:
    """Write a value for programs: instants in ISO 8601 and UTC, durations in seconds."""
    return json.dumps(value, default=_plain, indent=indent)


def as_mapping(row: object) -> Mapping[str, object]:
    """See a mapping or a dataclass as a mapping."""
    if isinstance(row, Mapping):
        return row
    if is_dataclass(row):
        return {field.name: getattr(row, field.name) for field in fields(row)}
    raise TypeError(f"{type(row).__name__} is neither a mapping nor a dataclass")


def _plain(value: object) -> object:
    match value:
        case datetime():
            plain: object = value.astimezone(UTC).isoformat().replace("+00:00", "Z")
        case date() | time():
            plain = value.isoformat()
        case timedelta():
            plain = value.total_seconds()
        case Enum():
            plain = value.value
        case UUID() | PurePath():
            plain = str(value)
        case set() | frozenset():
            plain = sorted(value)
        case _:
            plain = dict(as_mapping(value))
    return plain


def _rounded(span: timedelta) -> timedelta:
    """Drop what nobody reads: the milliseconds of what took long, the microseconds always."""
    unit = _SECOND if abs(span) >= _TEN_SECONDS else _MILLISECOND
    return round(span / unit) * unit
