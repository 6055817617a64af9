"""Which parts of a payload are secret: a layout that is read without the payload's type.

A layout is a list of places, the first of them the payload itself. A place describes its value: `secret`,
`open` (anything, none of it secret), `plain` (a single value), or the numbers of the places inside it:
`keys`, `values` (of other keys), `items`; `also` lists alternative places. A value that no layout describes
is treated as secret.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

Json: TypeAlias = Any  # any JSON form of an application's types
Place: TypeAlias = "Mapping[str, Any]"
Layout: TypeAlias = "Sequence[Place]"
_Spot: TypeAlias = "tuple[int, int]"  # which layout, which of its places

MASK: Final = "**********"
SHORTEST_SECRET: Final = 4  # masking shorter texts would make ordinary text unreadable
#: The layout of a type without secrets.
OPEN_LAYOUT: Final[Layout] = [{"open": True}]
#: The layout of a type that cannot be analysed.
SECRET_LAYOUT: Final[Layout] = [{"secret": True}]


class Layouts:
    """All known layouts of one payload; a value is secret if any of them marks it as secret."""

    def __init__(self, layouts: Iterable[Layout]) -> None:
        """Take the layouts of all versions; without any, everything is secret."""
        self._layouts = tuple(layouts)

    @property
    def is_open(self) -> bool:
        """Whether there are layouts, and none of them has a secret anywhere."""
        return bool(self._layouts) and all(list(layout) == OPEN_LAYOUT for layout in self._layouts)

    def shown(self, text: str | None) -> Json:
        """Return a stored text with masks; for a text that cannot be parsed return only its size."""
        if text is None:
            return None
        try:
            value = json.loads(text)
            if value is not None and not self._layouts:
                return whole_mask(text)
            return self.masked(value)
        except (ValueError, RecursionError):
            return whole_mask(text)

    def masked(self, value: Json) -> Json:
        """Return a value with masks in place of its secrets."""
        return self.replaced(value, lambda _: MASK)

    def secrets(self, text: str | None) -> tuple[str, ...]:
        """Return the secret texts of a stored payload."""
        found: list[Json] = []
        try:
            value = json.loads(text or "null")
            self.replaced(value, found.append)
            return tuple({text for each in found for text in texts_of(each)})
        except (ValueError, RecursionError):
            return ()

    def replaced(self, value: Json, replace: Callable[[Json], Json]) -> Json:
        """Return a value with a replacement for each secret."""
        return self._walk(value, {(number, 0) for number in range(len(self._layouts))}, replace)

    def _walk(self, value: Json, spots: set[_Spot], replace: Callable[[Json], Json]) -> Json:
        if value is None:
            return None
        places = self._places(spots)
        if not places or _has(places, "secret"):
            return replace(value)
        if isinstance(value, dict):
            return {key: self._walk(each, _of_key(places, key), replace) for key, each in value.items()}
        if isinstance(value, list):
            inside = _inside(places, "items")
            return [self._walk(each, inside, replace) for each in value]
        return value if _has(places, "open", "plain") else replace(value)

    def _places(self, spots: set[_Spot]) -> dict[_Spot, Place]:
        """Look up the places, including the alternatives."""
        found: dict[_Spot, Place] = {}
        left = [*spots]
        while left:
            spot = left.pop()
            if spot not in found:
                place = found[spot] = self._layouts[spot[0]][spot[1]]
                left += [(spot[0], number) for number in place.get("also", ())]
        return found


def _has(places: Mapping[_Spot, Place], *marks: str) -> bool:
    return any(place.get(mark) for place in places.values() for mark in marks)


def _of_key(places: Mapping[_Spot, Place], key: str) -> set[_Spot]:
    named = {spot: place for spot, place in places.items() if key in place.get("keys", ())}
    others = {spot: place for spot, place in places.items() if spot not in named}
    return _inside(others, "values") | {(spot[0], place["keys"][key]) for spot, place in named.items()}


def _inside(places: Mapping[_Spot, Place], what: str) -> set[_Spot]:
    inside = {(spot[0], place[what]) for spot, place in places.items() if what in place}
    return inside | {spot for spot, place in places.items() if place.get("open")}


def whole_mask(text: str) -> str:
    """Return the mask of a whole payload."""
    return f"*** ({len(text.encode(errors='replace'))} bytes)"


def texts_of(secret: Json) -> Iterator[str]:
    """Yield the texts that would reveal a secret, in each usual notation."""
    if isinstance(secret, dict):
        for each in secret.values():
            yield from texts_of(each)
    elif isinstance(secret, list):
        for each in secret:
            yield from texts_of(each)
    elif secret is not None and not isinstance(secret, bool):
        text = secret if isinstance(secret, str) else json.dumps(secret)
        forms = {text, json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1], repr(text)[1:-1]}
        yield from (form for form in forms if len(text) >= SHORTEST_SECRET)
        if text[:1] in {"{", "["}:  # a string that contains JSON: its parts would reveal it, too
            with suppress(ValueError, RecursionError):
                yield from texts_of(json.loads(text))
