"""The statistics of runs that this process has ended, until they are written."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from gandy.errors import GandyError
from gandy.rules.tallies import Tally, count_runs
from gandy.store.stats.rollups import write_tallies

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gandy.model.run import RunMeasure
    from gandy.rules.tallies import Tallies
    from gandy.store.drivers.database import Database
    from gandy.store.statements import Operation

_log = logging.getLogger("gandy.worker")


class RunTally:
    """Counts in the event loop; the thread of the lease writes the sums."""

    def __init__(self, owner: str) -> None:
        self._owner = owner
        self._lock = threading.Lock()
        self._tallies: Tallies = {}

    def count(self, measures: Sequence[RunMeasure]) -> None:
        """Count ended runs, after their commit."""
        with self._lock:
            count_runs(self._tallies, measures)

    def take(self) -> Tallies:
        """Return what is not written yet; the caller writes it, or gives it back."""
        with self._lock:
            taken, self._tallies = self._tallies, {}
        return taken

    def give_back(self, tallies: Tallies) -> None:
        """Add what could not be written to the next write."""
        with self._lock:
            for key, tally in tallies.items():
                self._tallies.setdefault(key, Tally()).add(tally)

    async def write_last(self, database: Database, worker_id: str) -> None:
        """Write what is left before the worker stops; a refusal must not keep it from stopping."""
        tallies = self.take()
        try:
            await database.run(self.written(worker_id, tallies))
        except GandyError as error:
            _log.warning("the last statistics of %s were not written: %s", worker_id, error)
        except RuntimeError:  # the interpreter is exiting: the caller has another way
            self.give_back(tallies)
            raise

    def written(self, worker_id: str, tallies: Tallies) -> Operation[None]:
        """Write what was taken, under the worker's id."""
        return write_tallies(self._owner, worker_id, tallies)
