"""Pruning what the declaration asks of a train, one bound after the other, and what came of it."""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gandy.admin.upkeep.declaration import ByRow, upkeep_of
from gandy.admin.upkeep.pruning import LARGEST, Pruned, prune
from gandy.errors import DatabaseBusyError, DatabaseFaultError, GandyError
from gandy.store.manifests import read_now

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import timedelta

    from gandy.admin.upkeep.declaration import PrunedBy, UpkeepRequest
    from gandy.admin.upkeep.pruning import Shift

_log = logging.getLogger("gandy.cleanup")


@dataclass(frozen=True, slots=True)
class FailedBound:
    """A bound that could not be kept this time; the others were seen to."""

    table: str
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UpkeepResult:
    """What a cycle removed, and what it could not."""

    rows: Mapping[str, int] = field(default_factory=dict)  #: by table
    days_made: int = 0
    days_dropped: int = 0
    set_aside: int = 0  #: rows that the database refuses to delete
    passed_over: int = 0  #: rows that somebody held
    failed: tuple[FailedBound, ...] = ()
    is_stopped: bool = False
    longest_batch: timedelta | None = None

    @property
    def deleted(self) -> int:
        """How many rows are gone, of all tables together."""
        return sum(self.rows.values())

    @property
    def counts(self) -> dict[str, int]:
        """What was done, in words and numbers."""
        done = {
            "deleted": self.deleted,
            **{f"deleted_{table}": rows for table, rows in sorted(self.rows.items())},
            "days_made": self.days_made,
            "days_dropped": self.days_dropped,
            "set_aside": self.set_aside,
            "passed_over": self.passed_over,
            "failed": len(self.failed),
        }
        return {word: count for word, count in done.items() if count or word == "deleted"}

    @property
    def is_idle(self) -> bool:
        """Whether nothing was there to do."""
        return not any(self.counts.values())


def result_of(pruned: Pruned, *, failed: tuple[FailedBound, ...] = ()) -> UpkeepResult:
    """Say what walks over rows came to."""
    return UpkeepResult(
        rows=dict(pruned.counts),
        set_aside=pruned.set_aside,
        passed_over=pruned.passed_over,
        failed=failed,
        is_stopped=pruned.is_stopped,
        longest_batch=pruned.longest_batch,
    )


async def prune_rows_of(
    pruned_by: PrunedBy, request: UpkeepRequest, shift: Shift, *, batch_size: int | None = LARGEST
) -> UpkeepResult:
    """Walk the dead rows of every bound that is the train's; one that fails does not stop the others."""
    now = await shift.database.read(read_now())  # once: what dies while it walks is the next cycle's
    total, failed = Pruned(counts=Counter()), list[FailedBound]()
    for upkeep in upkeep_of(pruned_by):
        if not isinstance(upkeep.means, ByRow) or total.is_stopped:
            continue
        try:
            total.add(await prune(shift, upkeep.means.dead(request, now), batch_size=batch_size))
        except GandyError as error:
            if isinstance(error, DatabaseFaultError) and not isinstance(error, DatabaseBusyError):
                raise  # it would stop the others, too
            _log.error("%s could not be pruned (%s): %s", upkeep.table, upkeep.bound, error)
            failed.append(FailedBound(upkeep.table, str(error)))
    return result_of(total, failed=tuple(failed))
