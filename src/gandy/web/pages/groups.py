"""Groups: caps, use and kill switch, with the picture of who waits for whom."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote

from fastapi import Form
from pydantic import BaseModel, ConfigDict, field_validator
from starlette.responses import Response

from gandy.desk.cancelling import CancelDesk
from gandy.desk.groups import GroupChanges, GroupDesk
from gandy.desk.schedules import draw_dependencies
from gandy.web.access.routes import Routes
from gandy.web.pages.surroundings import PAGE_SIZE, Here, Surroundings
from gandy.web.parts import CurrentOperator, Parts
from gandy.web.routers.bodies import Taken
from gandy.web.routers.groups import Name
from gandy.web.routers.manifests import desk_of

if TYPE_CHECKING:
    from gandy.desk.schedules import DependencyGraph, GraphNode

router = Routes("/groups")

_SHOWN = 500


class GroupForm(BaseModel):
    """The fields, as they are typed; empty: as it is."""

    model_config = ConfigDict(extra="ignore")

    max_active_jobs: Annotated[int, Taken("max_active_jobs", is_typed=True)] | None = None
    priority: Annotated[int, Taken("priority", is_typed=True)] | None = None

    @field_validator("*", mode="before")
    @classmethod
    def _empty_is_none(cls, value: object) -> object:
        return None if isinstance(value, str) and not value.strip() else value


@router.reads("")
async def list_groups(parts: Parts, operator: CurrentOperator, here: Here) -> Response:
    """List groups by name."""
    groups = await GroupDesk(parts.database, operator, owners=parts.owners).list(limit=_SHOWN)
    graph = await draw_dependencies(parts.database, parts.owner)
    return here.page("groups.html", groups=groups, graph=graph, drawing=_drawing(graph, here))


@router.reads("/{name:path}")
async def show_group(parts: Parts, operator: CurrentOperator, here: Here, name: Name) -> Response:
    """Show one group."""
    group = await GroupDesk(parts.database, operator, owners=parts.owners).show(name)
    graph = await draw_dependencies(parts.database, parts.owner, group=name)
    return here.page(
        "group.html",
        group=group,
        graph=graph,
        drawing=_drawing(graph, here),
        manifests=await desk_of(parts, operator).members(name, limit=PAGE_SIZE),
        base=here.link(f"/groups/{quote(name)}"),
    )


@router.changes("/{name:path}/set")
async def set_group(
    parts: Parts,
    operator: CurrentOperator,
    here: Here,
    name: Name,
    form: Annotated[GroupForm, Form()],
) -> Response:
    """Set cap and priority over the declared ones."""
    changes = GroupChanges(max_active_jobs=form.max_active_jobs, priority=form.priority)
    await GroupDesk(parts.database, operator, owners=parts.owners).set(name, changes)
    return here.done(_page(name), f"{name} is changed; a deploy does not undo it.")


@router.changes("/{name:path}/disable")
async def disable_group(
    parts: Parts,
    operator: CurrentOperator,
    here: Here,
    name: Name,
    reason: Annotated[str, Taken("reason", is_typed=True), Form()] = "",
) -> Response:
    """Pull the kill switch."""
    changes = GroupChanges(is_enabled=False, reason=reason.strip() or None)
    await GroupDesk(parts.database, operator, owners=parts.owners).set(name, changes)
    return here.done(_page(name), f"{name} is off: nothing of it starts any more. What runs goes on.")


@router.changes("/{name:path}/enable")
async def enable_group(parts: Parts, operator: CurrentOperator, here: Here, name: Name) -> Response:
    """Let the group run again."""
    await GroupDesk(parts.database, operator, owners=parts.owners).set(name, GroupChanges(is_enabled=True))
    return here.done(_page(name), f"{name} is on.")


@router.changes("/{name:path}/reset")
async def reset_group(parts: Parts, operator: CurrentOperator, here: Here, name: Name) -> Response:
    """Clear every override."""
    await GroupDesk(parts.database, operator, owners=parts.owners).reset(name)
    return here.done(_page(name), f"{name} is as declared again.")


@router.changes("/{name:path}/trigger")
async def trigger_group(parts: Parts, operator: CurrentOperator, here: Here, name: Name) -> Response:
    """Queue every manifest of the group now."""
    triggered = await GroupDesk(parts.database, operator, owners=parts.owners).trigger(name)
    return here.done(_page(name), f"{len(triggered)} of {name} queued.")


@router.changes("/{name:path}/cancel")
async def cancel_group(parts: Parts, operator: CurrentOperator, here: Here, name: Name) -> Response:
    """Cancel all that waits and runs in the group now."""
    desk = CancelDesk(parts.database, operator, parts.settings, owners=parts.owners)
    result = await desk.group(name)
    return here.done(_page(name), f"{len(result.cancelled)} cancelled, {len(result.asked)} asked to stop.")


def _page(name: str) -> str:
    return f"/groups/{quote(name)}"


def _drawing(graph: DependencyGraph, here: Surroundings) -> str:
    """Write the graph as the page's script reads it."""
    nodes = [
        {
            "name": node.external_id,
            "train": node.train,
            "href": here.link(f"/manifests/{quote(node.external_id)}"),
            **_look(node),
        }
        for node in graph.nodes
    ]
    edges = [{"from": edge.parent, "to": edge.child, "is_dormant": edge.is_dormant} for edge in graph.edges]
    return json.dumps({"nodes": nodes, "edges": edges})


def _look(node: GraphNode) -> dict[str, str]:
    if not node.is_enabled:
        return {"kind": "is-off", "said": "disabled"}
    if node.is_active:
        return {"kind": "is-running", "said": "running"}
    if node.failure_count:
        return {"kind": "is-failed", "said": f"failed {node.failure_count} times"}
    return {"kind": "", "said": ""}
