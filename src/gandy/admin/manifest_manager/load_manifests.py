"""Snapshots of the manifests that need a look, and of no others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gandy.admin.manifest_manager.cycle import CycleRequest, LoadedManifests
from gandy.rules.dispatching import entitled, looks
from gandy.store.drivers.database import Transaction  # noqa: TC001 the engine reads it at run time
from gandy.store.manifests import count_due, load_due, read_now, recall_backlog, wake_dependents

if TYPE_CHECKING:
    from gandy.model.manifest import DispatchView
    from gandy.store.manifests import Backlog


async def load_manifests(request: CycleRequest, transaction: Transaction) -> LoadedManifests:
    """Load what is due by its own instant or by a parent's success, of each group its share."""
    begun, limit = request.monotonic(), request.settings.max_entries_per_cycle
    await transaction.run(wake_dependents())
    demands = await transaction.run(count_due())
    due = await transaction.run(load_due(demands, looks(limit, demands, entitled(limit, demands, {}))))
    # Read after the manifests: none of them is due only later.
    now = await transaction.run(read_now())
    backlog = await transaction.run(recall_backlog(now)) if due.views else None
    return LoadedManifests(now, marked(due.views, backlog), due.unreadable, due.left_over, backlog, begun)


def marked(views: tuple[DispatchView, ...], backlog: Backlog | None) -> tuple[DispatchView, ...]:
    """Note on snapshots since when their instants have been seen and had no place."""
    return views if backlog is None else tuple(backlog.mark(view) for view in views)
