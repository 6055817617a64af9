"""How exclusions are stored: a JSON list with one object for each."""

from __future__ import annotations

import json
from datetime import date, time
from typing import TYPE_CHECKING, assert_never, cast

from gandy.errors import ExclusionError
from gandy.model.exclusion import WEEK, DateRange, Dates, Days, Exclusion, TimeWindow, bounded

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Final

_LONGEST_TEXT: Final = 1_000_000
_REMEDY: Final = 'Write a list such as [{"days": ["sat", "sun"]}, {"start": "22:00", "end": "06:00"}]'


def to_json(exclusions: Iterable[Exclusion]) -> str:
    """Write the stored form; equal exclusions give equal text."""
    items = [_to_object(exclusion) for exclusion in bounded(tuple(exclusions))]
    return json.dumps(items, separators=(",", ":"))


def from_json(text: str) -> tuple[Exclusion, ...]:
    """Read what `to_json` stored, or what an operator wrote."""
    if text == "[]":
        return ()
    items = _parsed(text)
    if not isinstance(items, list):
        raise ExclusionError("not a JSON list", _REMEDY)
    return bounded(tuple(_from_object(item) for item in items))


def _parsed(text: str) -> object:
    if len(text) > _LONGEST_TEXT:
        raise ExclusionError(f"{len(text)} characters are too many", "Use DateRange for long stretches")
    try:
        return cast("object", json.loads(text))
    except (ValueError, RecursionError) as error:
        raise ExclusionError(f"not JSON ({error})", _REMEDY) from error


def _to_object(exclusion: Exclusion) -> dict[str, object]:
    match exclusion:
        case Days(days):
            return {"days": [day.value for day in WEEK if day in days]}
        case Dates(dates):
            return {"dates": [day.isoformat() for day in sorted(dates)]}
        case DateRange(first, last):
            return {"first": first.isoformat(), "last": last.isoformat()}
        case TimeWindow(start, end):
            return {"start": start.isoformat(), "end": end.isoformat()}
        case _:
            assert_never(exclusion)


def _from_object(item: object) -> Exclusion:
    try:
        match item:
            case {"days": [*days], **rest} if not rest:
                return Days.on(*(_text(day) for day in days))
            case {"dates": [*dates], **rest} if not rest:
                return Dates.on(*(date.fromisoformat(_text(day)) for day in dates))
            case {"first": str(first), "last": str(last), **rest} if not rest:
                return DateRange(date.fromisoformat(first), date.fromisoformat(last))
            case {"start": str(start), "end": str(end), **rest} if not rest:
                return TimeWindow(time.fromisoformat(start), time.fromisoformat(end))
    except ExclusionError:
        raise
    except ValueError as error:
        raise ExclusionError(str(error), _REMEDY) from error
    raise ExclusionError(f"{str(item)[:80]} is not understood", _REMEDY)


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    raise ExclusionError(f"{value!r} is not text", _REMEDY)
