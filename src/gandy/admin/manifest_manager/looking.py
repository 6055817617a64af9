"""Further looks of one cycle: what was only settled makes room for more, for as long as looks may take."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from gandy.admin.manifest_manager.decision_writing import Written, write_decisions
from gandy.admin.manifest_manager.determine_jobs_to_queue import decide_all
from gandy.admin.manifest_manager.load_manifests import marked
from gandy.admin.manifest_manager.reap_failed_jobs import park_exhausted
from gandy.rules.dispatching import Wanted, entitled, looks, pick
from gandy.store.manifests import count_due, load_due, read_now

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gandy.admin.manifest_manager.cycle import CycleRequest, FreshManifests, LoadedManifests
    from gandy.admin.manifest_manager.decision_writing import Decided
    from gandy.store.drivers.database import Transaction
    from gandy.store.reaping import ParkedManifest


class Looked(NamedTuple):
    """One set of looks: what was seen, decided and chosen, and what was due beside it."""

    fresh: FreshManifests
    decided: Sequence[Decided]
    chosen: Sequence[Decided]
    others: int  #: due, and not looked at


@dataclass(slots=True)
class Done:
    """What a cycle has done so far."""

    written: Written = field(default_factory=Written)
    parked: list[ParkedManifest] = field(default_factory=list)
    queued_of: Counter[int] = field(default_factory=Counter)  #: entries, by group
    looked_at: int = 0
    contended: int = 0
    left_over: int = 0
    is_stuck: bool = False  #: the last looks changed nothing

    def add(self, looked: Looked, written: Written) -> None:
        """Take in one set of looks."""
        settled = written.settled
        self.written.add(written)
        self.parked += looked.fresh.parked
        self.queued_of.update(view.group_id for view, _ in written.moved if view.id in written.queued)
        self.looked_at += len(looked.fresh.views)
        self.contended += len({view.id for view, _ in looked.chosen} - settled)
        self.left_over = looked.others + len(looked.decided) - len(looked.chosen)
        self.is_stuck = not settled


class Looking(NamedTuple):
    """A cycle that may go on looking."""

    request: CycleRequest
    loaded: LoadedManifests

    @property
    def limit(self) -> int | None:
        """The most entries of the cycle."""
        return self.request.settings.max_entries_per_cycle

    def goes_on(self, done: Done) -> bool:
        """Whether something is due, may be queued, and can be moved on within the time."""
        is_full = self.limit is not None and done.queued_of.total() >= self.limit
        took = self.request.monotonic() - self.loaded.begun
        has_time = took < self.request.look_for.total_seconds()
        return bool(done.left_over) and has_time and not is_full and not done.is_stuck


async def look_further(transaction: Transaction, looking: Looking, done: Done) -> None:
    """Look at twice as many each time for the entries that are still wanted: most of them had none."""
    times = 2
    while looking.goes_on(done):
        demands = await transaction.run(count_due())
        entries = entitled(looking.limit, demands, done.queued_of)
        wanted = looks(looking.limit, demands, entries, times=times)
        due = await transaction.run(load_due(demands, wanted, free_first=True))
        now = await transaction.run(read_now())
        seen = replace(due, views=marked(due.views, looking.loaded.backlog))
        fresh = await park_exhausted(transaction, seen, looking.request.retry)
        decided = (await asyncio.to_thread(decide_all, fresh, now)).decided
        chosen = _within_shares(decided, entries)
        written = await write_decisions(transaction, chosen, charges_all=looking.request.charges_all)
        done.add(Looked(fresh, decided, chosen, due.left_over), written)
        times *= 2


def within_limit(decided: Sequence[Decided], limit: int | None) -> Sequence[Decided]:
    """Keep every decision without an entry, and of the others as many as a cycle may queue."""
    if limit is None or len(decided) <= limit:
        return decided
    wanted = _wanted(decided)
    return decided if len(wanted) <= limit else _only(decided, pick(limit, wanted))


def _within_shares(decided: Sequence[Decided], entries: Mapping[int, int]) -> Sequence[Decided]:
    """The same, as many of each group as it may still have."""
    wanted, groups = _wanted(decided), defaultdict[int, list[Wanted]](list)
    for entry in wanted:
        groups[entry.group_id].append(entry)
    picked = [entry for group_id, group in groups.items() for entry in pick(entries.get(group_id, 0), group)]
    return decided if len(picked) == len(wanted) else _only(decided, picked)


def _wanted(decided: Sequence[Decided]) -> list[Wanted]:
    return [
        Wanted(view.id, view.group_id, view.group_priority, entry.priority, entry.due_at)
        for view, decision in decided
        if (entry := decision.occurrence) is not None
    ]


def _only(decided: Sequence[Decided], picked: Sequence[Wanted]) -> Sequence[Decided]:
    ids = {entry.manifest_id for entry in picked}
    return [pair for pair in decided if pair[1].occurrence is None or pair[0].id in ids]
