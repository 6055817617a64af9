"""Cancel runs, entries, a manifest or a whole group, or fail a run, on behalf of an operator."""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from gandy.desk.choosing.texts import ENTRIES, RUNS
from gandy.desk.choosing.walks import AT_ONCE, JobWalk, batches, both, ended, found_ids, refuse_unclear
from gandy.errors import DatabaseFaultError, RunNotBegunError, RunNotFoundError, RunOverError
from gandy.model.run import TrainState
from gandy.rules.ending import spans_of
from gandy.settings.bounds import check
from gandy.store.audit import AuditRecord, record_audit
from gandy.store.cancelling import (
    CancelResult,
    begin_group_walk,
    cancel_jobs,
    find_manifest_jobs,
    next_group_jobs,
)
from gandy.store.owners import owner_of_group, owner_of_manifest
from gandy.store.reaping import FailRequest, ReapRules, fail_run

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from gandy.desk.audit import Listed
    from gandy.desk.choosing.texts import Listing
    from gandy.desk.choosing.walks import Preview
    from gandy.model.owners import Operator, Owners
    from gandy.settings import Settings
    from gandy.store.cancelling import GroupWalk
    from gandy.store.drivers.database import Database
    from gandy.store.reading.listings import EntryFilter, Filter, RunFilter
    from gandy.store.reaping import FailedRun
    from gandy.store.statements import Operation
    from gandy.train.registry import Registry

_log = logging.getLogger("gandy.desk")

_MOST_NAMED: Final = 10  #: ids in the subject of an audit record

LiveState: TypeAlias = Literal["pending", "in_progress"]
UndispatchedStatus: TypeAlias = Literal["undispatched", "queued", "waiting"]
Progress: TypeAlias = "Callable[[CancelResult], None]"


class CancelDesk:
    """Cancels entries and runs; a job that an operator cancels is not retried."""

    def __init__(
        self,
        database: Database,
        operator: Operator,
        settings: Settings,
        *,
        owners: Owners,
        registry: Registry | None = None,
    ) -> None:
        """Take the owners whose jobs are visible, and the trains that declare secrets."""
        self._database = database
        self._operator = operator
        self._owners = owners
        self._registry = registry
        self._most_letters = settings.retention.max_awaiting_letters_per_train
        self._spans = spans_of(settings.retention, settings.cleanup)

    async def jobs(self, ids: Sequence[int], progress: Progress | None = None) -> CancelResult:
        """Cancel jobs by the id that an entry and its run share, in batches."""
        return await self._cancel_all(batches(ids), "cancel run", progress=progress)

    async def runs(
        self, ids: Sequence[int], wanted: RunFilter, progress: Progress | None = None
    ) -> CancelResult:
        """Cancel these runs, or without ids all live runs of a filter; later runs are not affected."""
        refuse_unclear("runs", ids, wanted)
        walks = () if ids else self._live_walks(wanted)
        found = batches(ids) if ids else _ids_of(walks)
        return ended(await self._cancel_all(found, "cancel run", progress=progress), walks)

    async def find_runs(self, wanted: RunFilter) -> Listed[int]:
        """Return the runs that `runs` would cancel by this filter."""
        refuse_unclear("runs", (), wanted)
        walks = self._live_walks(wanted)
        return found_ids(await _gathered(_ids_of(walks)), walks)

    async def preview_runs(self, wanted: RunFilter) -> Preview:
        """Count the runs that `runs` would cancel by this filter."""
        refuse_unclear("runs", (), wanted)
        return reduce(both, [await walk.preview() for walk in self._live_walks(wanted)])

    async def entries(
        self, ids: Sequence[int], wanted: EntryFilter, progress: Progress | None = None
    ) -> CancelResult:
        """Cancel these entries, or without ids all undispatched ones of a filter; later ones stay."""
        refuse_unclear("entries", ids, wanted)
        walks = () if ids else (self._undispatched(wanted),)
        found = batches(ids) if ids else _ids_of(walks)
        return ended(await self._cancel_all(found, "cancel run", progress=progress), walks)

    async def find_entries(self, wanted: EntryFilter) -> Listed[int]:
        """Return the entries that `entries` would cancel by this filter."""
        refuse_unclear("entries", (), wanted)
        walks = (self._undispatched(wanted),)
        return found_ids(await _gathered(_ids_of(walks)), walks)

    async def preview_entries(self, wanted: EntryFilter) -> Preview:
        """Count the entries that `entries` would cancel by this filter."""
        refuse_unclear("entries", (), wanted)
        return await self._undispatched(wanted).preview()

    async def fail(self, run_id: int, reason: str | None = None) -> FailedRun:
        """Fail a run manually; this does not count as a failed attempt, and the job's retry rules apply."""
        try:
            return await self._database.run(self._fail(run_id, reason))
        except (DatabaseFaultError, RunNotFoundError, RunNotBegunError, RunOverError):
            raise
        except Exception as error:  # noqa: BLE001 the run must end in any case, or its manifest is blocked
            _log.warning("run %s is failed without computing its retry delay: %s", run_id, error)
            return await self._database.run(self._fail(run_id, reason, is_bare=True))

    def _fail(self, run_id: int, reason: str | None, *, is_bare: bool = False) -> Operation[FailedRun]:
        said = f"failed by {self._operator.name}" + (f": {reason}" if reason else "")
        wanted = FailRequest(run_id=run_id, reason=said, owners=self._owners)
        rules = ReapRules(self._spans, self._most_letters)
        failed = yield from fail_run(wanted, rules, is_bare=is_bare)
        detail = {"reason": reason, "worker": failed.worker_id, "next_attempt": failed.next_attempt}
        audited = AuditRecord(owner=failed.owner, action="fail run", subject=str(run_id), detail=detail)
        yield from record_audit(self._operator, audited)
        return failed

    async def manifest(self, external_id: str) -> CancelResult:
        """Cancel a manifest's run and its queued entry; later occurrences are not affected."""

        def operation() -> Operation[CancelResult]:
            owner = yield from owner_of_manifest(self._owners, external_id)
            ids = yield from find_manifest_jobs(external_id, owner=owner)
            return (yield from self._cancel(ids, "cancel manifest", subject=external_id))

        return await self._database.run(operation())

    async def group(self, name: str, progress: Progress | None = None) -> CancelResult:
        """Cancel all current entries and runs of a group, in batches; later ones are not affected."""
        return await self._cancel_all(self._group_jobs(name), "cancel group", subject=name, progress=progress)

    async def preview_group(self, name: str) -> tuple[int, ...]:
        """Return the jobs that `group` would cancel."""
        return await _gathered(self._group_jobs(name))

    def _live_walks(self, wanted: RunFilter) -> Sequence[JobWalk[RunFilter]]:
        """Walks over the runs that have not ended; a pending run that starts meanwhile is found again."""
        if wanted.state is not None:
            check("live_state", wanted.state, called="state")
        states = (TrainState.PENDING, TrainState.IN_PROGRESS)
        return [
            self._walk(RUNS, replace(wanted, state=state, sort="id"))
            for state in states
            if wanted.state in {None, state}
        ]

    def _undispatched(self, wanted: EntryFilter) -> JobWalk[EntryFilter]:
        status = wanted.status or "undispatched"
        check("undispatched_status", status, called="status")
        return self._walk(ENTRIES, replace(wanted, status=status, sort="id"))

    def _walk(self, listing: Listing[Filter], wanted: Filter) -> JobWalk[Filter]:
        return JobWalk(self._database, listing, wanted, owners=self._owners, registry=self._registry)

    async def _group_jobs(self, name: str) -> AsyncIterator[Sequence[int]]:
        walk = await self._database.read(self._begin_walk(name))
        while ids := await self._database.read(next_group_jobs(walk, AT_ONCE)):
            yield ids
            walk = replace(walk, after=ids[-1])

    async def _cancel_all(
        self,
        found: AsyncIterator[Sequence[int]],
        action: str,
        *,
        subject: str | None = None,
        progress: Progress | None = None,
    ) -> CancelResult:
        """Cancel batch by batch, each in a transaction of its own."""
        total = CancelResult()
        async for ids in found:
            total = total.plus(await self._database.run(self._cancel(ids, action, subject=subject)))
            if progress is not None:
                progress(total)
        return total

    def _begin_walk(self, name: str) -> Operation[GroupWalk]:
        owner = yield from owner_of_group(self._owners, name)
        return (yield from begin_group_walk(owner, name))

    def _cancel(
        self, ids: Sequence[int], action: str, *, subject: str | None = None
    ) -> Operation[CancelResult]:
        result = yield from cancel_jobs(ids, self._spans, owners=self._owners)
        touched = {*result.cancelled, *result.asked}
        for owner in sorted({result.owner_of[job_id] for job_id in touched}):
            own = {job_id for job_id in touched if result.owner_of[job_id] == owner}
            detail = {
                "cancelled": [job_id for job_id in result.cancelled if job_id in own],
                "asked": [job_id for job_id in result.asked if job_id in own],
            }
            about = subject or named(own)
            audited = AuditRecord(owner=owner, action=action, subject=about, detail=detail, about=own)
            yield from record_audit(self._operator, audited)
        return result


async def _ids_of(walks: Sequence[JobWalk[Filter]]) -> AsyncIterator[Sequence[int]]:
    for walk in walks:
        async for ids in walk.ids():
            yield ids


async def _gathered(batches: AsyncIterator[Sequence[int]]) -> tuple[int, ...]:
    return tuple(dict.fromkeys([job_id async for ids in batches for job_id in ids]))


def named(ids: set[int]) -> str:
    """Return the subject of an audit record about several jobs."""
    if len(ids) > _MOST_NAMED:
        return f"{len(ids)} jobs"
    return ", ".join(str(job_id) for job_id in sorted(ids))
