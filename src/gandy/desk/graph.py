"""The picture of who waits for whom."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gandy.store.reading.overview import DRAWN, list_dependencies

if TYPE_CHECKING:
    from gandy.store.drivers.database import ReadingRunner
    from gandy.store.statements import Row


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphNode:
    """A manifest in the picture."""

    external_id: str
    train: str
    is_enabled: bool
    is_active: bool
    failure_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphEdge:
    """One manifest that follows another."""

    parent: str
    child: str
    is_dormant: bool  #: only when a run of the parent activates it


@dataclass(frozen=True, slots=True, kw_only=True)
class DependencyGraph:
    """Manifests and who follows whom; `is_cut` where there is more than can be drawn."""

    nodes: tuple[GraphNode, ...]
    edges: tuple[GraphEdge, ...]
    is_cut: bool


async def draw_dependencies(
    database: ReadingRunner, owner: str, *, group: str | None = None
) -> DependencyGraph:
    """Put together the dependencies of an application, or those that touch one of its groups."""
    rows = await database.read(list_dependencies(owner, group))
    nodes = {node.external_id: node for row in rows for node in (_parent(row), _child(row))}
    edges = tuple(
        GraphEdge(parent=row.parent, child=row.child, is_dormant=row.schedule_type == "dormant_dependent")
        for row in rows
    )
    return DependencyGraph(nodes=tuple(nodes.values()), edges=edges, is_cut=len(rows) == DRAWN)


def _parent(row: Row) -> GraphNode:
    return GraphNode(
        external_id=row.parent,
        train=row.parent_train,
        is_enabled=row.is_parent_enabled,
        is_active=row.parent_run_id is not None,
        failure_count=row.parent_failures,
    )


def _child(row: Row) -> GraphNode:
    return GraphNode(
        external_id=row.child,
        train=row.child_train,
        is_enabled=row.is_child_enabled,
        is_active=row.child_run_id is not None,
        failure_count=row.child_failures,
    )
