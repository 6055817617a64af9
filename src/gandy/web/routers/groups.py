"""/groups: manifests that share a cap, a priority and a kill switch."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Query
from pydantic import BaseModel, Field

from gandy.desk.cancelling import CancelDesk
from gandy.desk.groups import GroupChanges, GroupDesk, GroupSummary
from gandy.web.access.routes import Routes
from gandy.web.parts import CurrentOperator, Parts
from gandy.web.routers.bodies import CancelAnswer, Taken
from gandy.web.routers.shapes import LARGEST_PAGE, Body, page, page_of, shape_of

router = Routes("/api/v1/groups", tag="groups")

Name = Annotated[str, Path(min_length=1, max_length=200, pattern=r"^[^\x00]*$")]


class GroupQuery(Body):
    """Which groups."""

    prefix: Annotated[str, Field(max_length=200, pattern=r"^[^\x00]*$")] = ""
    after: Annotated[str, Field(max_length=200, pattern=r"^[^\x00]*$")] = ""
    limit: int = Field(50, ge=1, le=LARGEST_PAGE)


class GroupBody(Body):
    """What is left out stays as it is."""

    max_active_jobs: Annotated[int, Taken("max_active_jobs")] | None = None
    priority: Annotated[int, Taken("priority")] | None = None
    is_enabled: Annotated[bool, Taken("is_enabled")] | None = None
    reason: Annotated[str, Taken("reason")] | None = None

    def changes(self) -> GroupChanges:
        """Give it to the desk."""
        return GroupChanges(
            max_active_jobs=self.max_active_jobs,
            priority=self.priority,
            is_enabled=self.is_enabled,
            reason=self.reason,
        )


class TriggeredAnswer(BaseModel):
    """The entries that will run."""

    jobs: list[int]


@router.reads("", response_model=page_of(GroupSummary))
async def list_groups(
    parts: Parts, operator: CurrentOperator, query: Annotated[GroupQuery, Query()]
) -> object:
    """List groups by name."""
    desk = GroupDesk(parts.database, operator, owners=parts.owners)
    found = await desk.list(prefix=query.prefix, after=query.after, limit=query.limit)
    return page(found, query.limit, key="name")


@router.reads("/{name:path}", response_model=shape_of(GroupSummary))
async def show_group(parts: Parts, operator: CurrentOperator, name: Name) -> object:
    """Show one group."""
    return await GroupDesk(parts.database, operator, owners=parts.owners).show(name)


@router.changes("/{name:path}/set", response_model=shape_of(GroupSummary))
async def set_group(parts: Parts, operator: CurrentOperator, name: Name, body: GroupBody) -> object:
    """Set values over the declared ones; they win until they are cleared."""
    return await GroupDesk(parts.database, operator, owners=parts.owners).set(name, body.changes())


@router.changes("/{name:path}/reset", response_model=shape_of(GroupSummary))
async def reset_group(parts: Parts, operator: CurrentOperator, name: Name) -> object:
    """Clear every override."""
    return await GroupDesk(parts.database, operator, owners=parts.owners).reset(name)


@router.changes("/{name:path}/trigger")
async def trigger_group(parts: Parts, operator: CurrentOperator, name: Name) -> TriggeredAnswer:
    """Queue every manifest of the group now; where an entry waits, that entry serves."""
    triggered = await GroupDesk(parts.database, operator, owners=parts.owners).trigger(name)
    return TriggeredAnswer(jobs=[each.id for each in triggered])


@router.changes("/{name:path}/cancel")
async def cancel_group(parts: Parts, operator: CurrentOperator, name: Name) -> CancelAnswer:
    """Cancel all that waits and runs in the group now."""
    desk = CancelDesk(parts.database, operator, parts.settings, owners=parts.owners)
    return CancelAnswer.of(await desk.group(name))
