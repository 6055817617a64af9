"""`app.groups`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gandy.app.verbs.face import Face, Verb, Verbs
from gandy.app.verbs.values import cancel_desk
from gandy.desk.groups import GroupChanges, GroupDesk

if TYPE_CHECKING:
    from gandy.desk.groups import GroupSummary
    from gandy.store.cancelling import CancelResult
    from gandy.store.queueing import Triggered


class GroupVerbs(Verbs[Face]):
    """The verbs of `gandy groups`."""

    noun = "groups"

    @Verb
    async def list(
        self, *, prefix: str = "", after: str = "", limit: int = 1_000
    ) -> tuple[GroupSummary, ...]:
        """List groups by name; `after` is the last name of the page before."""
        return await self._desk(None).list(prefix=prefix, after=after, limit=limit)

    @Verb
    async def show(self, name: str) -> GroupSummary:
        """Show one group with the values in force."""
        return await self._desk(None).show(name)

    @Verb
    async def set(
        self,
        name: str,
        *,
        max_active_jobs: int | None = None,
        priority: int | None = None,
        enabled: bool | None = None,
        reason: str | None = None,
        as_operator: str | None = None,
    ) -> GroupSummary:
        """Override declared values, or enable or disable all its manifests; this survives a deploy."""
        changes = GroupChanges(
            max_active_jobs=max_active_jobs, priority=priority, is_enabled=enabled, reason=reason
        )
        return await self._desk(as_operator).set(name, changes)

    @Verb
    async def reset(self, name: str, *, as_operator: str | None = None) -> GroupSummary:
        """Clear all overrides."""
        return await self._desk(as_operator).reset(name)

    @Verb
    async def trigger(self, name: str, *, as_operator: str | None = None) -> tuple[Triggered, ...]:
        """Queue every manifest of the group now."""
        return await self._desk(as_operator).trigger(name)

    @Verb
    async def preview_trigger(self, name: str) -> tuple[str, ...]:
        """Return the external ids of the manifests that `trigger` would queue."""
        return await self._desk(None).preview_trigger(name)

    @Verb
    async def cancel(self, name: str, *, as_operator: str | None = None) -> CancelResult:
        """Cancel all queued and running jobs of the group; later jobs are not affected."""
        return await cancel_desk(self._context, self._operator(as_operator)).group(name)

    @Verb
    async def preview_cancel(self, name: str) -> tuple[int, ...]:
        """Return the jobs that `cancel` would touch."""
        return await cancel_desk(self._context, self._operator(None)).preview_group(name)

    def _desk(self, as_operator: str | None) -> GroupDesk:
        context = self._context
        return GroupDesk(context.database, self._operator(as_operator), owners=context.owners)
