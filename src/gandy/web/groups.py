"""Groups: REST interface and pages."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote

from fastapi import Form, Path, Query
from pydantic import BaseModel, ConfigDict, Field, field_validator
from starlette.responses import Response

from gandy.desk.cancelling import CancelDesk
from gandy.desk.groups import GroupChanges, GroupDesk, GroupSummary
from gandy.desk.schedules import draw_dependencies
from gandy.web.access.routes import Routes
from gandy.web.bodies import LARGEST_PAGE, Body, CancelAnswer, Taken, page, page_of, shape_of
from gandy.web.dependencies import CurrentContext, CurrentOperator
from gandy.web.manifests import desk_of
from gandy.web.surroundings import PAGE_SIZE, Here, PageContext

if TYPE_CHECKING:
    from gandy.desk.schedules import DependencyGraph, GraphEdge, GraphNode


router = Routes("/api/v1/groups", tag="groups")

Name = Annotated[str, Path(min_length=1, max_length=200, pattern=r"^[^\x00]*$")]


class GroupQuery(Body):
    """Filter of groups."""

    prefix: Annotated[str, Field(max_length=200, pattern=r"^[^\x00]*$")] = ""
    after: Annotated[str, Field(max_length=200, pattern=r"^[^\x00]*$")] = ""
    limit: int = Field(50, ge=1, le=LARGEST_PAGE)


class GroupBody(Body):
    """New values of a group; omitted values stay unchanged."""

    max_active_jobs: Annotated[int, Taken("max_active_jobs")] | None = None
    priority: Annotated[int, Taken("priority")] | None = None
    is_enabled: Annotated[bool, Taken("is_enabled")] | None = None
    reason: Annotated[str, Taken("reason")] | None = None

    def changes(self) -> GroupChanges:
        """Convert it for the desk."""
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
    context: CurrentContext, operator: CurrentOperator, query: Annotated[GroupQuery, Query()]
) -> object:
    """List groups by name."""
    desk = GroupDesk(context.database, operator, owners=context.owners)
    found = await desk.list(prefix=query.prefix, after=query.after, limit=query.limit)
    return page(found, query.limit, key="name")


@router.reads("/{name:path}", response_model=shape_of(GroupSummary))
async def show_group(context: CurrentContext, operator: CurrentOperator, name: Name) -> object:
    """Show one group."""
    return await GroupDesk(context.database, operator, owners=context.owners).show(name)


@router.changes("/{name:path}/set", response_model=shape_of(GroupSummary))
async def set_group(
    context: CurrentContext, operator: CurrentOperator, name: Name, body: GroupBody
) -> object:
    """Override declared values until the overrides are cleared."""
    return await GroupDesk(context.database, operator, owners=context.owners).set(name, body.changes())


@router.changes("/{name:path}/reset", response_model=shape_of(GroupSummary))
async def reset_group(context: CurrentContext, operator: CurrentOperator, name: Name) -> object:
    """Clear every override."""
    return await GroupDesk(context.database, operator, owners=context.owners).reset(name)


@router.changes("/{name:path}/trigger")
async def trigger_group(context: CurrentContext, operator: CurrentOperator, name: Name) -> TriggeredAnswer:
    """Queue every manifest of the group now; an entry that is already queued is reused."""
    triggered = await GroupDesk(context.database, operator, owners=context.owners).trigger(name)
    return TriggeredAnswer(jobs=[each.id for each in triggered])


@router.changes("/{name:path}/cancel")
async def cancel_group(context: CurrentContext, operator: CurrentOperator, name: Name) -> CancelAnswer:
    """Cancel all queued and running jobs of the group."""
    desk = CancelDesk(context.database, operator, context.settings, owners=context.owners)
    return CancelAnswer.of(await desk.group(name))


pages = Routes("/groups")

_SHOWN = 500


class GroupForm(BaseModel):
    """The typed fields; an empty field leaves the value unchanged."""

    model_config = ConfigDict(extra="ignore")

    max_active_jobs: Annotated[int, Taken("max_active_jobs", is_typed=True)] | None = None
    priority: Annotated[int, Taken("priority", is_typed=True)] | None = None

    @field_validator("*", mode="before")
    @classmethod
    def _empty_is_none(cls, value: object) -> object:
        return None if isinstance(value, str) and not value.strip() else value


@pages.reads("")
async def list_groups_page(context: CurrentContext, operator: CurrentOperator, here: Here) -> Response:
    """List groups by name."""
    groups = await GroupDesk(context.database, operator, owners=context.owners).list(limit=_SHOWN)
    graph = await draw_dependencies(context.database, context.owner)
    return here.page("groups.html", groups=groups, graph=graph, drawing=_drawing(graph, here))


@pages.reads("/{name:path}")
async def show_group_page(
    context: CurrentContext, operator: CurrentOperator, here: Here, name: Name
) -> Response:
    """Show one group."""
    group = await GroupDesk(context.database, operator, owners=context.owners).show(name)
    graph = await draw_dependencies(context.database, context.owner, group=name)
    return here.page(
        "group.html",
        group=group,
        graph=graph,
        drawing=_drawing(graph, here),
        manifests=await desk_of(context, operator).members(name, limit=PAGE_SIZE),
        base=here.link(f"/groups/{quote(name)}"),
    )


@pages.changes("/{name:path}/set")
async def set_group_page(
    context: CurrentContext,
    operator: CurrentOperator,
    here: Here,
    name: Name,
    form: Annotated[GroupForm, Form()],
) -> Response:
    """Override the declared cap and priority."""
    changes = GroupChanges(max_active_jobs=form.max_active_jobs, priority=form.priority)
    await GroupDesk(context.database, operator, owners=context.owners).set(name, changes)
    return here.done(_page(name), f"{name} is changed; the change survives a deploy.")


@pages.changes("/{name:path}/disable")
async def disable_group(
    context: CurrentContext,
    operator: CurrentOperator,
    here: Here,
    name: Name,
    reason: Annotated[str, Taken("reason", is_typed=True), Form()] = "",
) -> Response:
    """Disable the group."""
    changes = GroupChanges(is_enabled=False, reason=reason.strip() or None)
    await GroupDesk(context.database, operator, owners=context.owners).set(name, changes)
    return here.done(_page(name), f"{name} is off: it starts no new runs. Current runs continue.")


@pages.changes("/{name:path}/enable")
async def enable_group(
    context: CurrentContext, operator: CurrentOperator, here: Here, name: Name
) -> Response:
    """Enable the group."""
    await GroupDesk(context.database, operator, owners=context.owners).set(
        name, GroupChanges(is_enabled=True)
    )
    return here.done(_page(name), f"{name} is on.")


@pages.changes("/{name:path}/reset")
async def reset_group_page(
    context: CurrentContext, operator: CurrentOperator, here: Here, name: Name
) -> Response:
    """Clear every override."""
    await GroupDesk(context.database, operator, owners=context.owners).reset(name)
    return here.done(_page(name), f"{name} has its declared values again.")


@pages.changes("/{name:path}/trigger")
async def trigger_group_page(
    context: CurrentContext, operator: CurrentOperator, here: Here, name: Name
) -> Response:
    """Queue every manifest of the group now."""
    triggered = await GroupDesk(context.database, operator, owners=context.owners).trigger(name)
    return here.done(_page(name), f"{len(triggered)} manifests of {name} queued.")


@pages.changes("/{name:path}/cancel")
async def cancel_group_page(
    context: CurrentContext, operator: CurrentOperator, here: Here, name: Name
) -> Response:
    """Cancel all queued and running jobs of the group."""
    desk = CancelDesk(context.database, operator, context.settings, owners=context.owners)
    result = await desk.group(name)
    return here.done(_page(name), f"{len(result.cancelled)} cancelled, {len(result.asked)} asked to stop.")


def _page(name: str) -> str:
    return f"/groups/{quote(name)}"


def _drawing(graph: DependencyGraph, here: PageContext) -> str:
    """Return the graph as JSON for the page's script."""
    nodes = [
        {
            "name": node.external_id,
            "train": node.train,
            "href": here.link(f"/manifests/{quote(node.external_id)}"),
            **_look(node),
        }
        for node in graph.nodes
    ]
    edges = [
        {"from": edge.parent, "to": edge.child, "kind": edge.kind, "label": _label(edge)}
        for edge in graph.edges
    ]
    return json.dumps({"nodes": nodes, "edges": edges})


def _label(edge: GraphEdge) -> str:
    """Name the end that counts, unless it is a success, and say whether the output is passed."""
    end = {"failure": "on failure", "end": "on any end"}.get(edge.kind, "")
    return "with output" if edge.is_output_passed else end


def _look(node: GraphNode) -> dict[str, str]:
    if not node.is_enabled:
        return {"kind": "is-off", "said": "disabled"}
    if node.is_active:
        return {"kind": "is-running", "said": "running"}
    if node.failure_count:
        return {"kind": "is-failed", "said": f"failed {node.failure_count} times"}
    return {"kind": "", "said": ""}
