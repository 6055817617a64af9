"""Comparing what the database gives to a worker with what the worker holds, at every renewal of its lease."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gandy.services.worker.claiming import Claimer


@dataclass(frozen=True, slots=True)
class Differences:
    """Runs that a worker has and does not know of, and runs that it executes and no longer has."""

    unknown: tuple[int, ...]
    gone: tuple[int, ...]


class Comparison:
    """Tells a lost answer from one that is still on its way.

    A claim commits in the database before its answer is here, and the answer may be lost with its connection.
    A run that is in progress under this worker's name and not held here was brought by a claim that had set
    out before the run was first missed; once all of these are back, the run is known or its answer is lost.
    """

    def __init__(self, claimers: Sequence[Claimer]) -> None:
        self._claimers = claimers
        self._missed: dict[int, tuple[int, ...]] = {}
        self._absent: frozenset[int] = frozenset()

    def compare(self, owned: Sequence[int], *, held: set[int], running: Sequence[int]) -> Differences:
        """Take what the database says, what is held in any way, and which of that is being executed."""
        next_flights = tuple(claimer.next_flight for claimer in self._claimers)
        self._missed = {
            run_id: self._missed.get(run_id, next_flights) for run_id in owned if run_id not in held
        }
        oldest_flights = [claimer.oldest_flight for claimer in self._claimers]
        unknown = tuple(
            run_id
            for run_id, flights in self._missed.items()
            if all(oldest >= seen for oldest, seen in zip(oldest_flights, flights, strict=True))
        )
        # Seen twice: what was claimed after the database was read is not in its answer yet.
        absent = frozenset(running).difference(owned)
        gone, self._absent = tuple(absent & self._absent), absent
        return Differences(unknown, gone)
