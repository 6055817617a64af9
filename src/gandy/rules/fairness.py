"""Whose entries are made in this cycle, when there are more than it may make."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime
    from typing import Final

#: A cycle looks at the time between sets of at most this many looks; of the second size where nothing limits
#: its entries.
MOST_LOOKS: Final = 2_000
MOST_UNLIMITED_LOOKS: Final = 10_000


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


def entitled(limit: int | None, demands: Sequence[Demand], queued: Mapping[int, int]) -> dict[int, int]:
    """Give how many entries each group may still have in this cycle, beside what was `queued` of it."""
    here = {demand.group_id: queued.get(demand.group_id, 0) for demand in demands}
    elsewhere = sum(queued.values()) - sum(here.values())
    whole = [replace(demand, due=demand.due + here[demand.group_id]) for demand in demands]
    shares = share(None if limit is None else limit - elsewhere, whole)
    wanted = [
        replace(demand, due=max(shares[demand.group_id] - here[demand.group_id], 0)) for demand in demands
    ]
    # a group that had more than its share by now leaves less to the others
    return share(None if limit is None else limit - sum(queued.values()), wanted)


def looks(
    limit: int | None, demands: Sequence[Demand], entries: Mapping[int, int], *, times: int = 1
) -> dict[int, int]:
    """Give how many of each group are looked at for its `entries`; `times` as many where most want none."""
    most = MOST_UNLIMITED_LOOKS if limit is None else max(limit, MOST_LOOKS)
    wanted = [replace(demand, due=min(demand.due, entries[demand.group_id] * times)) for demand in demands]
    return {group_id: count for group_id, count in share(most, wanted).items() if count > 0}


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
