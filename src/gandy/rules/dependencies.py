"""Manifests that wait for others must not wait for themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gandy.errors import DependencyCycleError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


def find_cycle(parents: Mapping[str, str], starts: Iterable[str] | None = None) -> tuple[str, ...] | None:
    """Find manifests that wait for each other, the first one named again at the end.

    `parents` maps each dependent to what it waits for; `starts` limits the search to what was added.
    """
    cleared: set[str] = set()
    for start in parents if starts is None else starts:
        path: dict[str, None] = {}
        here: str | None = start
        while here is not None and here not in cleared:
            if here in path:
                names = list(path)
                return (*names[names.index(here) :], here)
            path[here] = None
            here = parents.get(here)
        cleared.update(path)
    return None


def refuse_cycle(parents: Mapping[str, str], starts: Iterable[str] | None = None) -> None:
    """Raise an error that lists the cycle, if there is one."""
    cycle = find_cycle(parents, starts)
    if cycle is not None:
        raise DependencyCycleError(cycle)
