"""Statistics of ended runs: counts, and mergeable histograms of waits and durations."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import accumulate
from math import log2
from typing import TYPE_CHECKING, Final, TypeAlias

from gandy.model.run import TrainState

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from gandy.model.run import RunMeasure

#: The manifest of runs without one, as it is stored: part of a key, which cannot be null.
NO_MANIFEST: Final = 0
_PER_DOUBLING: Final = 8
_FIRST_SECONDS: Final = 0.001
_OFFSET: Final = 1 - math.log2(_FIRST_SECONDS) * _PER_DOUBLING


class Histogram:
    """Counts in fixed buckets on a logarithmic scale; bucket 0 holds all that is shorter than a millisecond.

    Its text lists `bucket:count`, each followed by a blank: texts are added by writing one after the other.
    """

    __slots__ = ("counts",)

    def __init__(self, text: str = "") -> None:
        self.counts: Counter[int] = Counter()
        self.merge(text)

    def add(self, values: Sequence[float]) -> None:
        """Count values, in seconds."""
        self.counts.update(
            [
                int(log2(seconds) * _PER_DOUBLING + _OFFSET) if seconds >= _FIRST_SECONDS else 0
                for seconds in values
            ]
        )

    def merge(self, text: str) -> None:
        """Add the counts of a text."""
        for each in text.split():
            bucket, _, count = each.partition(":")
            self.counts[int(bucket)] += int(count)

    def percentile(self, share: float) -> timedelta | None:
        """Return the value below or at which this share of all values is, by nearest rank."""
        rank = math.ceil(share * self.counts.total())
        buckets = sorted(self.counts)
        sums = accumulate(self.counts[bucket] for bucket in buckets)
        return next(
            (_middle(bucket) for bucket, seen in zip(buckets, sums, strict=True) if seen >= rank), None
        )

    def __str__(self) -> str:
        """Return the text."""
        return "".join(f"{bucket}:{count} " for bucket, count in sorted(self.counts.items()))


def _middle(bucket: int) -> timedelta:
    if bucket == 0:
        return timedelta(seconds=_FIRST_SECONDS / 2)
    return timedelta(seconds=_FIRST_SECONDS * 2 ** ((bucket - 0.5) / _PER_DOUBLING))


#: What a tally counts: the runs of a train and a manifest that ended in one minute (since the epoch).
TallyKey: TypeAlias = tuple[str, int, int]


@dataclass(slots=True)
class Tally:
    """The sums of some ended runs; cancelled runs have no part in waits and durations."""

    completed: int = 0
    failed: int = 0
    cancelled: int = 0
    longest_wait: float = 0.0  #: in seconds
    longest: float = 0.0
    waits: Histogram = field(default_factory=Histogram)
    durations: Histogram = field(default_factory=Histogram)

    def count(self, state: TrainState, waits: Sequence[float], durations: Sequence[float]) -> None:
        """Count runs that ended alike, with their waits and durations in seconds."""
        if state is TrainState.CANCELLED:
            self.cancelled += len(waits)
            return
        if state is TrainState.COMPLETED:
            self.completed += len(waits)
        else:
            self.failed += len(waits)
        self.waits.add(waits)
        self.durations.add(durations)
        self.longest_wait = max(self.longest_wait, *waits)
        self.longest = max(self.longest, *durations)

    def add(self, other: Tally) -> None:
        """Add the sums of other runs."""
        self.completed += other.completed
        self.failed += other.failed
        self.cancelled += other.cancelled
        self.longest_wait = max(self.longest_wait, other.longest_wait)
        self.longest = max(self.longest, other.longest)
        self.waits.counts += other.waits.counts
        self.durations.counts += other.durations.counts


Tallies: TypeAlias = dict[TallyKey, Tally]


def count_runs(tallies: Tallies, measures: Iterable[RunMeasure]) -> None:
    """Count ended runs, each in its tally; runs that ended alike are counted together, which costs half."""
    alike: dict[tuple[str, int | None, TrainState, int], tuple[list[float], list[float]]] = {}
    for train, manifest_id, state, minute, waited, took in measures:
        kind = train, manifest_id, state, minute
        found = alike.get(kind)
        if found is None:
            found = alike[kind] = [], []
        found[0].append(waited)
        found[1].append(took)
    for (train, manifest_id, state, minute), (waits, durations) in alike.items():
        tally = tallies.setdefault((train, manifest_id or NO_MANIFEST, minute), Tally())
        tally.count(state, waits, durations)
