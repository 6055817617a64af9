"""Kinds of settings: reading, writing, bounds and description."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Final, Generic, Literal, TypeVar

from gandy.errors import DatabaseUrlError
from gandy.settings import bounds
from gandy.settings.bounds import NO_TIMEOUT, RefusedValueError, Timeout
from gandy.settings.urls import anchor_sqlite_url, mask_url, read_url
from gandy.settings.values import format_duration, is_storable, shortened

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


T = TypeVar("T")
W = TypeVar("W", bound=str)

_SWITCH_WORDS = {"on": True, "true": True, "1": True, "off": False, "false": False, "0": False}
_URL_SCHEMES = ("postgresql://", "postgres://", "sqlite:///")
_MASK = "***"
_SHORTEST = timedelta(milliseconds=10)
SHORTEST_TOKEN: Final = 16
LONGEST_TOKEN: Final = 1_000


@dataclass(frozen=True, slots=True)
class Kind(Generic[T]):
    """One kind of value: `from_text` reads text of the environment, then `accept` checks every value."""

    expected: str
    accept: Callable[[object], T]
    from_text: Callable[[str], object] = str.strip
    write: Callable[[T], str] = str
    mask: Callable[[str], str] | None = None  #: masks secrets, in valid and invalid values
    anchor: Callable[[T, Path], T] | None = None  #: resolves a relative path against the folder of its file

    def refused(self, value: object) -> str:
        """Format a refused value of any type, with secrets masked."""
        if self.mask is None:
            return bounds.shown(value)
        return shortened(self.mask(value)) if isinstance(value, str) else _MASK

    def shown(self, text: str) -> str:
        """Return the text of a value, with secrets masked."""
        return self.mask(text) if self.mask else text


def whole_number(minimum: int = 1, maximum: int = 1_000_000) -> Kind[int]:
    """Accept an integer between two bounds, both included."""
    return _whole_number(bounds.count(minimum, maximum))


def piece_size() -> Kind[int]:
    """Accept the bytes of a piece of history, from a mebibyte to a tebibyte."""
    return whole_number(minimum=2**20, maximum=2**40)


def count_of(option: str) -> Kind[int]:
    """Accept the integers of the option of this name."""
    return _whole_number(bounds.BOUNDS[option])


def _whole_number(bound: bounds.Bound) -> Kind[int]:
    def accept(value: object) -> int:
        if not isinstance(value, int) or not bound.holds(value):
            raise RefusedValueError
        return value

    return Kind(bound.expected, accept, from_text=_number_or_text)


def span(minimum: timedelta = _SHORTEST, maximum: timedelta = bounds.LONGEST_SPAN) -> Kind[timedelta]:
    """Accept a duration between two bounds, both included; a number without a unit is refused."""
    return _span(bounds.span(minimum, maximum))


def span_of(option: str) -> Kind[timedelta]:
    """Accept the durations of the option of this name."""
    return _span(bounds.BOUNDS[option])


def _span(bound: bounds.Bound) -> Kind[timedelta]:
    def accept(value: object) -> timedelta:
        duration = bound.read(value) if isinstance(value, str) else value
        if not isinstance(duration, timedelta) or not bound.holds(duration):
            raise RefusedValueError
        return duration

    return Kind(bound.expected, accept, write=format_duration)


def share() -> Kind[float]:
    """Accept a part of a whole, from 0 to 1."""
    bound = bounds.BOUNDS["jitter"]

    def accept(value: object) -> float:
        if not isinstance(value, int | float) or not bound.holds(value):
            raise RefusedValueError
        return abs(float(value))  # no negative zero

    return Kind(bound.expected, accept, from_text=bound.read, write=lambda value: f"{value:g}")


def kept_for() -> Kind[timedelta]:
    """Accept a retention time."""
    return span(maximum=bounds.LONGEST_RETENTION)


def or_no_timeout(kind: Kind[timedelta]) -> Kind[Timeout]:
    """Accept the values of the kind, or `none` for no limit."""

    def accept(value: object) -> Timeout:
        return NO_TIMEOUT if value is NO_TIMEOUT or value == NO_TIMEOUT.value else kind.accept(value)

    def write(value: Timeout) -> str:
        return kind.write(value) if isinstance(value, timedelta) else value.value

    return Kind(f"{kind.expected}, or {NO_TIMEOUT.value}", accept, write=write)


def switch() -> Kind[bool]:
    """Accept on or off."""

    def accept(value: object) -> bool:
        if not isinstance(value, bool):
            raise RefusedValueError
        return value

    expected = "on or off (in TOML true or false)"
    return Kind(expected, accept, from_text=_switch_or_text, write=lambda is_on: "on" if is_on else "off")


def secret_token() -> Kind[str]:
    """Accept a token: long enough, and without characters that transports strip or change."""

    def accept(value: object) -> str:
        if not isinstance(value, str) or not is_token(value):
            raise RefusedValueError
        return value

    expected = f"at least {SHORTEST_TOKEN} visible ASCII characters without white space, never shown"
    return Kind(expected, accept, from_text=str, mask=lambda _: _MASK)


def is_token(text: str) -> bool:
    """Return whether a text can be a token."""
    is_long = SHORTEST_TOKEN <= len(text) <= LONGEST_TOKEN
    return is_long and all("!" <= character <= "~" for character in text)


def host() -> Kind[str]:
    """Accept the name or the address of a host."""
    return Kind("a host name or address", _filled_text)


def file_path() -> Kind[str]:
    """Accept a path; a relative path in gandy.toml is relative to the folder of that file."""
    return Kind("a path", _filled_text, anchor=lambda path, directory: str(directory / path))


def database_url(*schemes: str) -> Kind[str]:
    """Accept the URL of a database, shown without its password."""
    allowed = schemes or _URL_SCHEMES

    def accept(value: object) -> str:
        url = _filled_text(value)
        if not url.startswith(allowed) or url in allowed:
            raise RefusedValueError
        try:
            read_url(url)
        except DatabaseUrlError as error:
            raise RefusedValueError(error.problem) from None
        return url

    expected = f"a URL that begins with {' or '.join(allowed)}"
    return Kind(expected, accept, mask=mask_url, anchor=anchor_sqlite_url)


def choice(*words: W) -> Kind[W]:
    """Accept one of a few words."""

    def accept(value: object) -> W:
        for word in words:
            if word == value:
                return word
        raise RefusedValueError

    return Kind(f"one of {', '.join(words)}", accept, from_text=lambda text: text.strip().lower())


def names() -> Kind[tuple[str, ...]]:
    """Accept several names."""

    def accept(value: object) -> tuple[str, ...]:
        if not isinstance(value, (list, tuple)):
            raise RefusedValueError
        if not all(bounds.BOUNDS["name"].holds(name) for name in value):
            raise RefusedValueError
        return tuple(value)

    expected = "a list of names (in the environment with commas between)"
    return Kind(expected, accept, from_text=_split_at_commas, write=",".join)


def spans_by_name() -> Kind[Mapping[str, timedelta]]:
    """Accept a retention time for each of several names."""
    span = kept_for()

    def accept(value: object) -> Mapping[str, timedelta]:
        if not isinstance(value, Mapping) or not all(map(bounds.BOUNDS["name"].holds, value)):
            raise RefusedValueError
        return {name: span.accept(each) for name, each in value.items()}

    def write(value: Mapping[str, timedelta]) -> str:
        return ",".join(f"{name}={span.write(each)}" for name, each in value.items())

    expected = "durations by name, such as Poll=5m,Sync=2h (in gandy.toml a table)"
    return Kind(expected, accept, from_text=_split_pairs, write=write)


def or_auto(kind: Kind[T]) -> Kind[T | Literal["auto"]]:
    """Accept the values of the kind, or `auto`."""

    def accept(value: object) -> T | Literal["auto"]:
        return "auto" if value == "auto" else kind.accept(value)

    def write(value: T | Literal["auto"]) -> str:
        return "auto" if value == "auto" else kind.write(value)

    return Kind(f"{kind.expected}, or auto", accept, from_text=kind.from_text, write=write)


def or_none(kind: Kind[T]) -> Kind[T | None]:
    """Accept the values of the kind, or `none` (TOML has no null: there it is text)."""

    def accept(value: object) -> T | None:
        return None if value is None or value == "none" else kind.accept(value)

    def write(value: T | None) -> str:
        return "none" if value is None else kind.write(value)

    def mask(text: str) -> str:
        return text if text == "none" else kind.shown(text)

    def anchor(value: T | None, directory: Path) -> T | None:
        return value if value is None or kind.anchor is None else kind.anchor(value, directory)

    hides = mask if kind.mask else None
    return Kind(f"{kind.expected}, or none", accept, kind.from_text, write, hides, anchor)


def _filled_text(value: object) -> str:
    if not isinstance(value, str) or not value.strip() or not is_storable(value):
        raise RefusedValueError
    return value.strip()


def _number_or_text(text: str) -> object:
    try:
        return int(text)
    except ValueError:
        return text.strip()


def _switch_or_text(text: str) -> object:
    word = text.strip().lower()
    return _SWITCH_WORDS.get(word, word)


def _split_pairs(text: str) -> object:
    pairs = [pair.partition("=") for pair in text.split(",")] if text.strip() else []
    if not all(equals for _, equals, _ in pairs):
        return text
    return {name.strip(): value.strip() for name, _, value in pairs}


def _split_at_commas(text: str) -> object:
    return [name.strip() for name in text.split(",")]


#: Monitoring would consider a loop with a longer pause dead.
LONGEST_PAUSE: Final = timedelta(days=1)


def pause() -> Kind[timedelta]:
    """Accept the pause of a loop."""
    return span(maximum=LONGEST_PAUSE)


def setting(kind: Kind[T], default: T, about: str) -> T:
    """Declare a setting."""
    return field(default=default, repr=kind.mask is None, metadata={"kind": kind, "about": about})


def measured(kind: Kind[T], measure: Callable[[], T], about: str, *, default_is: str) -> T:
    """Declare a setting whose default depends on the machine; `default_is` describes the default."""
    return field(default_factory=measure, metadata={"kind": kind, "about": about, "default_is": default_is})
