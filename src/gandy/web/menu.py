"""The places of the dashboard."""

from __future__ import annotations

from typing import Final, NamedTuple


class Place(NamedTuple):
    """One entry of the menu; the key goes there after pressing g."""

    path: str
    name: str
    key: str


MENU: Final = (
    Place("/", "Home", "h"),
    Place("/manifests", "Manifests", "m"),
    Place("/groups", "Groups", "g"),
    Place("/runs", "Runs", "r"),
    Place("/queue", "Queue", "q"),
    Place("/dead-letters", "Dead letters", "d"),
    Place("/workers", "Workers", "w"),
    Place("/trains", "Trains", "t"),
    Place("/tables", "Tables", "b"),
    Place("/audit", "Audit", "a"),
)
