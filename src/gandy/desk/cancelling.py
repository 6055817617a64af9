"""Cancel a run, a manifest or a whole group, or fail a run, on behalf of an operator."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from gandy.errors import (
    DatabaseFaultError,
    RunNotBegunError,
    RunNotFoundError,
    RunOverError,
)
from gandy.rules.ending import spans_of
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
    from collections.abc import Callable, Sequence

    from gandy.model.owners import Operator, Owners
    from gandy.settings import Settings
    from gandy.store.cancelling import GroupWalk
    from gandy.store.drivers.database import Database
    from gandy.store.reaping import FailedRun
    from gandy.store.statements import Operation

_log = logging.getLogger("gandy.desk")

_AT_ONCE: Final = 500


class CancelDesk:
    """Cancels entries and runs; a job that an operator cancels is not retried."""

    def __init__(
        self,
        database: Database,
        operator: Operator,
        settings: Settings,
        *,
        owners: Owners,
    ) -> None:
        """Take the owners whose jobs, manifests and groups are visible; all others are not found."""
        self._database = database
        self._operator = operator
        self._owners = owners
        self._most_letters = settings.retention.max_awaiting_letters_per_train
        self._spans = spans_of(settings.retention, settings.cleanup)

    async def jobs(self, ids: Sequence[int]) -> CancelResult:
        """Cancel jobs by the id that an entry and its run share."""
        return await self._database.run(self._cancel(ids, "cancel run"))

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

    async def group(self, name: str, progress: Callable[[CancelResult], None] | None = None) -> CancelResult:
        """Cancel all current entries and runs of a group, in batches; later ones are not affected."""
        walk = await self._database.read(self._begin_walk(name))
        total = CancelResult()
        while ids := await self._database.read(next_group_jobs(walk, _AT_ONCE)):
            total = total.plus(await self._database.run(self._cancel(ids, "cancel group", subject=name)))
            walk = replace(walk, after=ids[-1])
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
            named = subject or ", ".join(str(job_id) for job_id in sorted(own))
            yield from record_audit(
                self._operator, AuditRecord(owner=owner, action=action, subject=named, detail=detail)
            )
        return result
