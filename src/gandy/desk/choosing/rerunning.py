"""Repeat many finished runs on behalf of an operator."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal, TypeAlias

from gandy.desk.cancelling import named
from gandy.desk.choosing.texts import RUNS
from gandy.desk.choosing.walks import JobWalk, batches, ended, found_ids, refuse_unclear
from gandy.model.run import ADMINISTRATIVE_TRAINS, TrainState
from gandy.settings.bounds import check
from gandy.store.audit import AuditRecord, record_audit
from gandy.store.reading.listings import RerunResult, queue_reruns

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gandy.desk.audit import Listed
    from gandy.desk.choosing.walks import Preview
    from gandy.model.owners import Operator, Owners
    from gandy.store.drivers.database import Database
    from gandy.store.reading.listings import RunFilter
    from gandy.store.statements import Operation, Row
    from gandy.train.registry import Registry

EndedState: TypeAlias = Literal["completed", "failed", "cancelled"]
_LIVE = frozenset({TrainState.PENDING, TrainState.IN_PROGRESS})


class RerunDesk:
    """Queues finished runs again, with their own inputs; the new runs belong to no manifest."""

    def __init__(
        self, database: Database, operator: Operator, *, owners: Owners, registry: Registry | None = None
    ) -> None:
        """Take the owners whose runs are visible, and the trains that declare secrets."""
        self._database = database
        self._operator = operator
        self._owners = owners
        self._registry = registry

    async def runs(
        self, ids: Sequence[int], wanted: RunFilter, progress: Callable[[int], None] | None = None
    ) -> RerunResult:
        """Repeat these runs, or without ids all finished ones of a filter, in batches."""
        refuse_unclear("runs", ids, wanted)
        total, walk = RerunResult(), self._walk(wanted)
        async for found in batches(ids) if ids else walk.ids():
            total = total.plus(await self._database.run(self._rerun(found)))
            if progress is not None:
                progress(len(total.rerun))
        return ended(total, [walk])

    async def find(self, wanted: RunFilter) -> Listed[int]:
        """Return the runs that `runs` would repeat by this filter."""
        refuse_unclear("runs", (), wanted)
        walk = self._walk(wanted)
        return found_ids([run_id async for ids in walk.ids() for run_id in ids], [walk])

    async def preview(self, wanted: RunFilter) -> Preview:
        """Count the runs that `runs` would repeat by this filter."""
        refuse_unclear("runs", (), wanted)
        return await self._walk(wanted).preview()

    def _walk(self, wanted: RunFilter) -> JobWalk[RunFilter]:
        """JobWalk over finished runs; Gandy's own are repeated only by the name of their train."""
        if wanted.state is not None:
            check("ended_state", wanted.state, called="state")

        def keep(row: Row) -> bool:
            is_own = wanted.train is None and row.train in ADMINISTRATIVE_TRAINS
            return row.state not in _LIVE and not is_own

        chosen = replace(wanted, sort="id")
        return JobWalk(self._database, RUNS, chosen, owners=self._owners, registry=self._registry, keep=keep)

    def _rerun(self, ids: Sequence[int]) -> Operation[RerunResult]:
        result = yield from queue_reruns(ids, self._owners)
        for owner in sorted({each.owner for each in result.rerun}):
            own = [each for each in result.rerun if each.owner == owner]
            runs = {each.repeats for each in own}
            audited = AuditRecord(
                owner=owner,
                action="rerun",
                subject=named(runs),
                detail={"entries": {str(each.repeats): each.id for each in own}},
                about=sorted(runs | {each.id for each in own}),
            )
            yield from record_audit(self._operator, audited)
        return result
