"""Values as a person reads them on a page."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Final

from markupsafe import Markup, escape

from gandy.settings.bounds import NoTimeout, Timeout, as_span

_MINUTE: Final = timedelta(minutes=1)
_HOUR: Final = timedelta(hours=1)
_DAY: Final = timedelta(days=1)
_TEN_SECONDS: Final = timedelta(seconds=10)
_SECOND: Final = timedelta(seconds=1)
_MILLISECOND: Final = timedelta(milliseconds=1)
NOTHING: Final = "\u2013"  # an en dash
_NOTHING_MARKED: Final = Markup('<span class="none">\u2013</span>')
_KILO: Final = 1024
_DURATIONS: Final = frozenset(
    {"delay", "retry_delay", "timeout", "variance", "misfire_threshold", "keep_for"}
)


def span(value: Timeout | float | None) -> str:
    """Write a duration in its two largest units."""
    if value is None:
        return NOTHING
    if isinstance(value, NoTimeout):
        return str(value.value)
    length = value if isinstance(value, timedelta) else as_span(value)
    if length < timedelta(0):
        return f"-{span(-length)}"
    if length < _SECOND:
        return (
            f"{length / _MILLISECOND:.0f} ms" if length >= _MILLISECOND else f"{length / _MILLISECOND:.2f} ms"
        )
    if length < _TEN_SECONDS:
        return f"{length / _SECOND:.1f} s"
    return _in_two_units(length)


def _in_two_units(length: timedelta) -> str:
    units = (("d", _DAY), ("h", _HOUR), ("min", _MINUTE), ("s", _SECOND))
    first = next(index for index, (_, unit) in enumerate(units) if length >= unit)
    said = []
    for name, unit in units[first : first + 2]:
        count, length = divmod(length, unit)
        if count:
            said.append(f"{count} {name}")
    return " ".join(said)


def instant(value: datetime | None) -> Markup:
    """Write an instant in UTC; the page's script says beside it how long ago that is."""
    if value is None:
        return _NOTHING_MARKED
    at = value.astimezone(UTC)
    exact = at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return Markup('<time datetime="{}" title="{}">{}</time>').format(exact, exact, f"{at:%Y-%m-%d %H:%M:%S}")


def pretty(value: object) -> str:
    """Write JSON on several lines."""
    return json.dumps(value, indent=2, ensure_ascii=False, default=_plain)


def _plain(value: object) -> object:
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, datetime | date):
        return value.isoformat()
    return str(value)


def size(value: float | None) -> str:
    """Write a number of bytes."""
    if value is None:
        return NOTHING
    amount = float(value)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < _KILO:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= _KILO
    return f"{amount:.1f} TiB"


def number(value: float | None) -> str:
    """Write a number with its thousands apart."""
    if value is None:
        return NOTHING
    return (
        f"{value:,.0f}".replace(",", "\u202f")
        if value == int(value)
        else f"{value:,.1f}".replace(",", "\u202f")
    )


def words(value: object) -> str:
    """Write an identifier of ours as words."""
    return str(value).replace("_", " ")


def state(value: object) -> Markup:
    """Write a state as a badge; its word says it, the colour only helps."""
    text = str(value)
    return Markup('<span class="state state-{}">{}</span>').format(text.replace("_", "-"), words(text))


def shown(value: object) -> Markup:
    """Write whatever a field holds."""
    match value:
        case None | "":
            return _NOTHING_MARKED
        case bool():
            return Markup("yes") if value else Markup("no")
        case datetime():
            return instant(value)
        case timedelta() | NoTimeout():
            return escape(span(value))
        case Mapping() | list() | tuple():
            return Markup("<code>{}</code>").format(json.dumps(value, default=_plain, ensure_ascii=False))
        case _:
            return escape(str(value))


def set_over(overrides: Mapping[str, object]) -> list[tuple[str, object]]:
    """Name what an operator set, durations as such: they are kept in seconds."""
    return [
        (
            words(name),
            as_span(value) if name in _DURATIONS and isinstance(value, int | float) else value,
        )
        for name, value in overrides.items()
    ]


FILTERS: Final[Mapping[str, Callable[..., object]]] = {
    "span": span,
    "instant": instant,
    "pretty": pretty,
    "size": size,
    "number": number,
    "words": words,
    "state": state,
    "shown": shown,
    "set_over": set_over,
}
