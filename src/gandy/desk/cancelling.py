"""Cancelling a run, a manifest or a whole group, in the name of somebody."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from gandy.errors import GroupAmbiguousError, GroupNotFoundError
from gandy.model.run import RetentionSpans
from gandy.store.audit import Deed, record_deed
from gandy.store.cancelling import (
    CancelResult,
    begin_group_walk,
    cancel_jobs,
    find_groups_named,
    find_manifest_jobs,
    next_group_jobs,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gandy.model.operator import Operator
    from gandy.settings import RetentionSettings
    from gandy.store.drivers.database import Database
    from gandy.store.statements import Operation, Row

_AT_ONCE: Final = 500


class CancelDesk:
    """Cancels what waits and what runs; an operator's cancellation is never tried again."""

    def __init__(
        self,
        database: Database,
        operator: Operator,
        retention: RetentionSettings,
        *,
        owner: str | None = None,
    ) -> None:
        """Take an owner to refuse other applications' manifests and groups."""
        self._database = database
        self._operator = operator
        self._owner = owner
        self._spans = RetentionSpans(retention.completed, retention.failed, retention.cancelled)

    async def jobs(self, ids: Sequence[int]) -> CancelResult:
        """Cancel jobs by the id that an entry and its run share."""
        return await self._database.run(self._cancel(ids, "cancel run"))

    async def manifest(self, external_id: str) -> CancelResult:
        """Cancel a manifest's run and the entry that waits; its next occurrence runs as usual."""

        def operation() -> Operation[CancelResult]:
            _, ids = yield from find_manifest_jobs(external_id, owner=self._owner)
            return (yield from self._cancel(ids, "cancel manifest", subject=external_id))

        return await self._database.run(operation())

    async def group(self, name: str, progress: Callable[[CancelResult], None] | None = None) -> CancelResult:
        """Cancel all that waits and runs in a group now, in parts; what comes later is left alone."""
        walk = await self._database.run(begin_group_walk((await self._find_group(name)).id))
        total = CancelResult()
        while ids := await self._database.read(next_group_jobs(walk, _AT_ONCE)):
            total = total.plus(await self._database.run(self._cancel(ids, "cancel group", subject=name)))
            walk = replace(walk, after=ids[-1])
            if progress is not None:
                progress(total)
        return total

    async def _find_group(self, name: str) -> Row:
        found = await self._database.read(find_groups_named(name, self._owner))
        if not found:
            raise GroupNotFoundError(self._owner or "no application", name)
        if len(found) > 1:
            raise GroupAmbiguousError(name, tuple(row.owner for row in found))
        return found[0]

    def _cancel(
        self, ids: Sequence[int], action: str, *, subject: str | None = None
    ) -> Operation[CancelResult]:
        result = yield from cancel_jobs(ids, self._spans)
        touched = {*result.cancelled, *result.asked}
        for owner in sorted({result.owner_of[job_id] for job_id in touched}):
            own = {job_id for job_id in touched if result.owner_of[job_id] == owner}
            detail = {
                "cancelled": [job_id for job_id in result.cancelled if job_id in own],
                "asked": [job_id for job_id in result.asked if job_id in own],
            }
            named = subject or ", ".join(str(job_id) for job_id in sorted(own))
            yield from record_deed(
                self._operator, Deed(owner=owner, action=action, subject=named, detail=detail)
            )
        return result
