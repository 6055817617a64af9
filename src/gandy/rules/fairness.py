"""Whose entries are made in this cycle, when there are more than it may make."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime


@dataclass(frozen=True, slots=True)
class Demand:
    """What a group has due."""

    group_id: int
    priority: int
    due: int
    oldest_due_at: datetime  #: of two groups with one priority, the one that has waited longer goes first


@dataclass(frozen=True, slots=True)
class Wanted:
    """One entry that a manifest wants."""

    manifest_id: int
    group_id: int
    group_priority: int
    priority: int
    due_at: datetime


def share(limit: int | None, demands: Sequence[Demand]) -> dict[int, int]:
    """Give every group its even share, then what is left to the groups of higher priority first."""
    if limit is None:
        return {demand.group_id: demand.due for demand in demands}
    wanting = sorted(
        (demand for demand in demands if demand.due > 0),
        key=lambda demand: (-demand.priority, demand.oldest_due_at, demand.group_id),
    )
    shares = {demand.group_id: 0 for demand in demands}
    even = max(limit // len(wanting), 1) if wanting else 0
    left = max(limit, 0)
    for most in (even, left):
        for demand in wanting:
            given = min(most, demand.due - shares[demand.group_id], left)
            shares[demand.group_id] += given
            left -= given
    return shares


def pick(limit: int | None, wanted: Iterable[Wanted]) -> list[Wanted]:
    """Pick the entries of this cycle: fairly between groups, by priority and age within one."""
    groups: defaultdict[int, list[Wanted]] = defaultdict(list)
    for entry in wanted:
        groups[entry.group_id].append(entry)
    shares = share(limit, [_demand(entries) for entries in groups.values()])
    return [
        entry
        for group_id, entries in groups.items()
        for entry in sorted(entries, key=_precedence)[: shares[group_id]]
    ]


def _demand(entries: list[Wanted]) -> Demand:
    oldest = min(entry.due_at for entry in entries)
    return Demand(entries[0].group_id, entries[0].group_priority, len(entries), oldest)


def _precedence(entry: Wanted) -> tuple[int, datetime, int]:
    return -entry.priority, entry.due_at, entry.manifest_id
