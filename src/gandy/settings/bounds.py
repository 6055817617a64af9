"""The table of bounds: the allowed values of every option, for every interface (Python, CLI, REST, files).

An interface looks an option up here by its name; a new option gets a line in `BOUNDS`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from enum import Enum
from functools import lru_cache
from typing import TYPE_CHECKING, Final, TypeAlias

from gandy.errors import DurationFormatError, ValueBoundsError
from gandy.settings import values as names
from gandy.settings.values import format_duration, is_storable, parse_duration, shortened, written

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from _typeshed import DataclassInstance

LONGEST_SPAN: Final = timedelta(days=3_650)
LONGEST_RETENTION: Final = timedelta(days=36_500)
HIGHEST_COUNT: Final = 2**31 - 1
HIGHEST_NUMBER: Final = 2**63 - 1
HIGHEST_PRIORITY: Final = 31
LONGEST_NAME: Final = names.LONGEST
LONGEST_TEXT: Final = 4_000
LONGEST_EXPRESSION: Final = 250
MOST_PARENTS: Final = 1_000
FIRST_INSTANT: Final = datetime(1970, 1, 1, tzinfo=UTC)
LAST_INSTANT: Final = datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)
_ZERO: Final = timedelta(0)
_MOMENT: Final = timedelta.resolution


class NoTimeout(Enum):
    """The type of `NO_TIMEOUT`."""

    NO_TIMEOUT = "none"  #: as written on the command line, in TOML and in JSON

    def __repr__(self) -> str:
        return "NO_TIMEOUT"

    def total_seconds(self) -> float:
        """Return infinity, like the method of a timedelta; it is stored so."""
        return math.inf


#: `timeout=NO_TIMEOUT`: the run has no time limit; only an expired lease of its worker ends it.
NO_TIMEOUT: Final = NoTimeout.NO_TIMEOUT
Timeout: TypeAlias = timedelta | NoTimeout


class RefusedValueError(ValueError):
    """A value outside its bound; without a reason, the message is the bound's `expected`."""


@dataclass(frozen=True, slots=True)
class Bound:
    """The allowed values of one option, and how it is read from text or JSON."""

    expected: str
    holds: Callable[[object], bool]
    schema: Mapping[str, object]  #: for the description of the REST interface
    read: Callable[[str], object] = str  #: from the command line, a form or the environment
    from_json: Callable[[object], object] = lambda value: value
    fault: Callable[[object], str | None] = lambda _: None  #: the exact problem, if it is not obvious

    def problem(self, option: str, value: object) -> str | None:
        """Describe why this value is refused; None: it is accepted."""
        return None if self.holds(value) else f"{option} {self.refusal(value)}"

    def refusal(self, value: object) -> str:
        """Describe the expected value and this one."""
        return f"must be {self.expected}, not {self.shown(value)}"

    def shown(self, value: object) -> str:
        """Format a refused value, with its problem."""
        fault = self.fault(value)
        return f"{shown(value)}: {fault}" if fault else shown(value)

    def take_text(self, text: str) -> object:
        """Read and check a text of a user."""
        try:
            value = self.read(text)
        except RefusedValueError as error:
            raise RefusedValueError(f"{shown(text)} {error}") from None
        return self._taken(value, text)

    def take_json(self, value: object) -> object:
        """Read and check a JSON value of a program."""
        try:
            read = self.from_json(value)
        except RefusedValueError as error:
            raise RefusedValueError(f"{shown(value)} {error}") from None
        return self._taken(read, value)

    def _taken(self, value: object, given: object) -> object:
        if not self.holds(value):
            raise RefusedValueError(self.refusal(given))
        return value


def count(minimum: int, maximum: int = HIGHEST_COUNT) -> Bound:
    """Accept an integer between two bounds, both included; a bool is not an integer."""

    def holds(value: object) -> bool:
        return isinstance(value, int) and not isinstance(value, bool) and minimum <= value <= maximum

    schema = {"type": "integer", "minimum": minimum, "maximum": maximum}
    return Bound(f"a whole number from {minimum} to {maximum}", holds, schema, read=names.parsed_or_text(int))


def span(minimum: timedelta = _ZERO, maximum: timedelta = LONGEST_SPAN) -> Bound:
    """Accept a duration between two bounds, both included."""
    expected = f"a duration from {format_duration(minimum)} to {format_duration(maximum)}"

    def holds(value: object) -> bool:
        return isinstance(value, timedelta) and minimum <= value <= maximum

    def read(text: str) -> object:
        try:
            return parse_duration(text)
        except DurationFormatError as error:
            raise RefusedValueError(f"{error.problem}; it must be {expected}") from None

    seconds = {
        "type": "number",
        "minimum": minimum.total_seconds(),
        "maximum": maximum.total_seconds(),
        "description": "In seconds.",
    }
    as_text = {"type": "string", "description": "A duration such as 90s, 1h30m or 7d."}
    schema = {"anyOf": [seconds, as_text]}
    return Bound(expected, holds, schema, read=read, from_json=names.seconds_or(read))


def share() -> Bound:
    """Accept a part of a whole, from none of it to all of it."""

    def holds(value: object) -> bool:
        return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1

    schema = {"type": "number", "minimum": 0, "maximum": 1}
    return Bound("a number from 0 to 1", holds, schema, read=names.parsed_or_text(float))


def or_no_timeout(bound: Bound) -> Bound:
    """Accept the values of the bound, or `none` for no limit."""
    word = NO_TIMEOUT.value
    return Bound(
        f"{bound.expected}, or {word}",
        lambda value: value is NO_TIMEOUT or bound.holds(value),
        {"anyOf": [dict(bound.schema), {"const": word, "type": "string"}]},
        read=lambda text: NO_TIMEOUT if text.strip() == word else bound.read(text),
        from_json=lambda value: NO_TIMEOUT if value == word else bound.from_json(value),
    )


def or_seconds(bound: Bound) -> Bound:
    """Accept a duration, also as a plain number of seconds."""
    return Bound(
        f"{bound.expected}, or its seconds",
        lambda value: bound.holds(names.span_or_value(value)),
        bound.schema,
        read=bound.read,
        from_json=bound.from_json,
    )


def name(longest: int = LONGEST_NAME) -> Bound:
    """Accept a name or a key: one line of visible characters."""

    def fault(value: object) -> str | None:
        return names.name_fault(value) if isinstance(value, str) and 0 < len(value) <= longest else None

    def holds(value: object) -> bool:
        return isinstance(value, str) and 0 < len(value) <= longest and names.name_fault(value) is None

    expected = f"1 to {longest} characters, printable and without spaces at the ends"
    return Bound(expected, holds, {"type": "string", "minLength": 1, "maxLength": longest}, fault=fault)


def text(shortest: int = 0, longest: int = LONGEST_TEXT) -> Bound:
    """Accept free text, possibly of several lines."""

    def holds(value: object) -> bool:
        if not isinstance(value, str) or not is_storable(value):
            return False
        return shortest <= len(value.strip()) and len(value) <= longest

    expected = f"{shortest} to {longest} characters of text, without NUL and lone surrogates"
    return Bound(expected, holds, {"type": "string", "minLength": shortest, "maxLength": longest})


def switch() -> Bound:
    """Accept true or false."""
    return Bound(
        "true or false", lambda value: isinstance(value, bool), {"type": "boolean"}, read=names.switch_or_text
    )


def choice(*words: str) -> Bound:
    """Accept one of a few words."""
    schema = {"type": "string", "enum": list(words)}
    return Bound(
        f"one of {', '.join(words)}", lambda value: isinstance(value, str) and value in words, schema
    )


def several(bound: Bound, most: int) -> Bound:
    """Accept one value, or a list of up to `most`."""

    def holds(value: object) -> bool:
        values = value if isinstance(value, list | tuple) else [value]
        return 0 < len(values) <= most and all(map(bound.holds, values))

    items = {"type": "array", "items": bound.schema, "minItems": 1, "maxItems": most}
    expected = f"{bound.expected}, or a list of 1 to {most:,} of them"
    return Bound(expected, holds, {"anyOf": [bound.schema, items]})


def exceptions() -> Bound:
    """Accept classes of exceptions, in a tuple."""

    def holds(value: object) -> bool:
        return isinstance(value, tuple) and all(
            isinstance(kind, type) and issubclass(kind, Exception) for kind in value
        )

    schema = {"type": "array", "items": {"type": "string"}}
    return Bound("a tuple of classes of exceptions", holds, schema)


def instant() -> Bound:
    """Accept an aware datetime in the range of every database and time zone."""

    def holds(value: object) -> bool:
        if not isinstance(value, datetime) or value.tzinfo is None or value.utcoffset() is None:
            return False
        return FIRST_INSTANT <= value <= LAST_INSTANT

    expected = f"a datetime with a time zone, from {FIRST_INSTANT:%Y} to the end of {LAST_INSTANT:%Y}"
    schema = {"type": "string", "format": "date-time"}
    return Bound(expected, holds, schema, read=names.instant_or_text, from_json=names.instant_or_text)


def moment() -> Bound:
    """Accept an instant, or a period before now."""
    before, at = span(_MOMENT), instant()
    expected = f"{before.expected} before now, or {at.expected}"

    def read(text: str) -> object:
        found = names.instant_or_text(text)
        if isinstance(found, datetime):
            return found.replace(tzinfo=UTC) if found.tzinfo is None else found
        try:
            return before.read(text)
        except RefusedValueError:
            return text  # refused as neither of the two

    return Bound(
        expected,
        lambda value: before.holds(value) or at.holds(value),
        {"anyOf": [before.schema, at.schema]},
        read=read,
        from_json=names.seconds_or(read),
    )


#: Every option of any interface, by its name there.
BOUNDS: Final[Mapping[str, Bound]] = {
    # names and keys
    "name": name(),
    "group": name(),
    "external_id": name(),
    "after": several(name(), MOST_PARENTS),
    "key": name(),
    "idempotency_key": name(),
    "as_operator": name(),
    "by": name(),
    "subject": name(),
    "cron": text(shortest=1, longest=LONGEST_EXPRESSION),
    "timezone": name(),
    "reason": text(),
    "note": text(shortest=1),
    "prefix": text(longest=LONGEST_NAME),
    "error_has": text(shortest=1, longest=LONGEST_NAME),
    "input_has": text(shortest=1, longest=LONGEST_NAME),
    # durations and instants
    "delay": span(),
    "since": span(_MOMENT),
    "within": span(_MOMENT),
    "every": span(timedelta(seconds=1)),
    "retry_delay": span(),
    "park_window": span(),
    "jitter": share(),
    "timeout": or_no_timeout(span(_MOMENT)),
    "unique_for": span(_MOMENT),
    "variance": span(),
    "misfire_threshold": span(),
    "keep_for": span(maximum=LONGEST_RETENTION),
    "moment": moment(),
    "window": span(timedelta(minutes=1), timedelta(days=400)),
    "at": instant(),
    "next_at": instant(),
    # numbers
    "id": count(1, HIGHEST_NUMBER),
    "priority": count(0, HIGHEST_PRIORITY),
    "max_retries": count(0),
    "keep_last": count(1),
    "max_active_jobs": count(1),
    "limit": count(1, 100_000),
    "count": count(1, 1_000),
    # switches and words
    "retry": switch(),
    "is_retried": switch(),
    "enabled": switch(),
    "is_enabled": switch(),
    "process": switch(),
    "dormant": switch(),
    "pass_output": switch(),
    "prune_empty": switch(),
    "give_up_on": exceptions(),
    "on": choice("success", "failure", "end"),
    "misfire": choice("fire_once_now", "do_nothing", "catch_up"),
    "misfire_policy": choice("fire_once_now", "do_nothing", "catch_up"),
    "unique_until": choice("start", "success"),
    "state": choice("pending", "in_progress", "completed", "failed", "cancelled"),
    "live_state": choice("pending", "in_progress"),
    "ended_state": choice("completed", "failed", "cancelled"),
    "entry_status": choice("undispatched", "queued", "waiting", "dispatched", "cancelled", "skipped", "all"),
    "undispatched_status": choice("undispatched", "queued", "waiting"),
    "letter_status": choice("awaiting_intervention", "retried", "acknowledged", "all"),
    "run_sort": choice("id", "start_time"),
    "entry_sort": choice("id", "scheduled_at"),
    "letter_sort": choice("id", "resolved_at"),
    "gate": choice("open", "time", "manifest", "train"),
    "schedule_type": choice("none", "cron", "interval", "once", "dependent", "dormant_dependent"),
    # reports of a run, and arguments of a waiting caller
    "done": count(0, HIGHEST_NUMBER),
    "total": count(0, HIGHEST_NUMBER),
    "retry_after": or_seconds(span()),
    "wait": or_seconds(span()),
}


def problems_of(options: DataclassInstance) -> tuple[str, ...]:
    """Describe the problems of a set of options; None is accepted if it is the default."""
    return tuple(
        found
        for option, bound, is_optional in _bounded_fields(type(options))
        if not ((value := getattr(options, option)) is None and is_optional)
        and (found := bound.problem(option, value))
    )


def check(option: str, value: object, *, called: str | None = None) -> None:
    """Raise if a value is outside its option's bound; `called` is the caller's name of the option."""
    bound = BOUNDS[option]
    if not bound.holds(value):
        raise ValueBoundsError(called or option, bound.expected, bound.shown(value))


def shown(value: object) -> str:
    """Format a refused value of any type in a few characters."""
    return shortened(format_duration(value) if isinstance(value, timedelta) else written(value))


def as_span(seconds: float) -> timedelta:
    """Read a stored number of seconds; clamp a number that no timedelta can hold."""
    try:
        return timedelta(seconds=seconds)
    except (OverflowError, ValueError):
        return timedelta.max if seconds > 0 else _ZERO


def as_timeout(seconds: float | None) -> Timeout | None:
    """Read a stored timeout; None means the setting, infinity no limit."""
    if seconds is None:
        return None
    return NO_TIMEOUT if seconds == math.inf else as_span(seconds)


@lru_cache(maxsize=64)
def _bounded_fields(kind: type[DataclassInstance]) -> tuple[tuple[str, Bound, bool], ...]:
    return tuple(
        (each.name, BOUNDS[each.name], each.default is None) for each in fields(kind) if each.name in BOUNDS
    )
