"""Manifests that used up their attempts are parked for a person."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gandy.admin.manifest_manager.cycle import (
    FreshManifests,
    LoadedManifests,
    ReapedInProgress,
    ReapedPending,
)
from gandy.rules.retry import is_exhausted
from gandy.store.drivers.database import Transaction  # noqa: TC001 the engine reads it at run time
from gandy.store.manifests import load_views
from gandy.store.reaping import park_manifests

if TYPE_CHECKING:
    from gandy.model.manifest import DispatchView


async def reap_failed_jobs(
    loaded: LoadedManifests,
    pending: ReapedPending,
    in_progress: ReapedInProgress,
    *,
    transaction: Transaction,
) -> FreshManifests:
    """Write one dead letter for each manifest at its limit; a run that was reaped now counts now."""
    fresh = await transaction.run(load_views(pending.manifest_ids | in_progress.manifest_ids))
    views = {view.id: view for view in (*loaded.views, *fresh.views)}
    exhausted = [view.id for view in views.values() if _is_to_be_parked(view)]
    parked = await transaction.run(park_manifests(exhausted))
    for letter in parked:
        views[letter.manifest_id] = views[letter.manifest_id]._replace(is_dead_lettered_now=True)
    return FreshManifests(tuple(views.values()), {**loaded.unreadable, **fresh.unreadable}, parked)


def _is_to_be_parked(view: DispatchView) -> bool:
    is_spent = view.is_retried and is_exhausted(view.failed_count, view.max_retries)
    return is_spent and not view.has_awaiting_dead_letter
