"""What a person may ask of groups; every change is kept in the trail, in its own transaction."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime  # noqa: TC003 the faces read it at run time
from typing import TYPE_CHECKING

from gandy.errors import GroupNotFoundError, OverrideError
from gandy.settings.bounds import problems_of
from gandy.store.audit import Deed, record_deed
from gandy.store.overriding import override_group
from gandy.store.owners import owner_of_group
from gandy.store.queueing import trigger_group
from gandy.store.reading.views import COUNTED, list_groups, list_groups_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gandy.model.owners import Operator, Owners
    from gandy.store.drivers.database import Database
    from gandy.store.queueing import Triggered
    from gandy.store.statements import Operation, Row


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSummary:
    """A group, with how much it holds; the values are those in force."""

    name: str
    owner: str
    max_active_jobs: int | None
    priority: int
    is_enabled: bool
    disabled_at: datetime | None
    disabled_reason: str | None
    manifests: int
    has_more_manifests: bool  #: than are counted for a listing
    active: int
    has_overrides: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupChanges:
    """None leaves a value as it is."""

    max_active_jobs: int | None = None
    priority: int | None = None
    is_enabled: bool | None = None
    reason: str | None = None


class GroupDesk:
    """Reads and changes groups in the name of somebody."""

    def __init__(self, database: Database, operator: Operator, *, owners: Owners) -> None:
        """Take the owners whose groups are seen."""
        self._database = database
        self._operator = operator
        self._owners = owners

    async def list(
        self, *, prefix: str = "", after: str = "", limit: int = 1_000
    ) -> tuple[GroupSummary, ...]:
        """List groups by name."""
        rows = await self._database.read(
            list_groups_of(self._owners, prefix=prefix, after=after, limit=limit)
        )
        return tuple(_summary(row) for row in rows)

    async def show(self, name: str) -> GroupSummary:
        """Show one group."""
        return await self._database.read(self._show(name))

    async def set(self, name: str, changes: GroupChanges) -> GroupSummary:
        """Set values over the declared ones; they win until they are cleared."""
        await self._override("set group", name, _values(name, changes), reason=changes.reason)
        return await self.show(name)

    async def reset(self, name: str) -> GroupSummary:
        """Clear every override."""
        await self._override("reset group", name, None)
        return await self.show(name)

    async def trigger(self, name: str) -> tuple[Triggered, ...]:
        """Queue every manifest of the group now."""

        def operation() -> Operation[tuple[Triggered, ...]]:
            owner = (yield from self._show(name)).owner
            triggered = yield from trigger_group(owner, name)
            deed = Deed(owner=owner, action="trigger group", subject=name, detail={"entries": len(triggered)})
            yield from record_deed(self._operator, deed)
            return triggered

        return await self._database.run(operation())

    def _show(self, name: str) -> Operation[GroupSummary]:
        owner = yield from owner_of_group(self._owners, name)
        rows = yield from list_groups(owner, name=name)
        if not rows:
            raise GroupNotFoundError(owner, name)
        return _summary(rows[0])

    async def _override(
        self, action: str, name: str, values: Mapping[str, object] | None, *, reason: str | None = None
    ) -> None:
        def operation() -> Operation[None]:
            owner = yield from owner_of_group(self._owners, name)
            yield from override_group(owner, name, values, reason=reason)
            deed = Deed(owner=owner, action=action, subject=name, detail=dict(values or {}))
            yield from record_deed(self._operator, deed)

        await self._database.run(operation())


def _values(name: str, changes: GroupChanges) -> dict[str, object]:
    if problems := problems_of(changes):
        raise OverrideError(name, "; ".join(problems))
    values = {
        "max_active_jobs": changes.max_active_jobs,
        "priority": changes.priority,
        "is_enabled": changes.is_enabled,
    }
    given: dict[str, object] = {key: value for key, value in values.items() if value is not None}
    if not given:
        raise OverrideError(name, "nothing to set; name at least one value")
    return given


def _summary(row: Row) -> GroupSummary:
    return GroupSummary(
        name=row.name,
        owner=row.owner,
        max_active_jobs=row.max_active_jobs,
        priority=row.priority,
        is_enabled=row.is_enabled,
        disabled_at=row.disabled_at,
        disabled_reason=row.disabled_reason,
        manifests=row.manifests,
        has_more_manifests=row.manifests >= COUNTED,
        active=row.active,
        has_overrides=row.has_overrides,
    )
