"""Snapshots of the manifests that need a look, and of no others."""

from __future__ import annotations

from gandy.admin.manifest_manager.cycle import CycleRequest, LoadedManifests
from gandy.store.backlog import recall_backlog
from gandy.store.drivers.database import Transaction  # noqa: TC001 the engine reads it at run time
from gandy.store.manifests import load_due, read_now, wake_dependents


async def load_manifests(request: CycleRequest, transaction: Transaction) -> LoadedManifests:
    """Load what is due by its own instant or by a parent's success, of each group its share."""
    await transaction.run(wake_dependents())
    due = await transaction.run(load_due(request.settings.max_entries_per_cycle))
    # Read after the manifests: none of them is due only later.
    now = await transaction.run(read_now())
    backlog = await transaction.run(recall_backlog(now)) if due.views else None
    views = due.views if backlog is None else tuple(backlog.mark(view) for view in due.views)
    since = None if backlog is None else backlog.since
    return LoadedManifests(now, views, due.unreadable, due.left_over, since)
