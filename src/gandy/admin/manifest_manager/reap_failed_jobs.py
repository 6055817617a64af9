"""Manifests that used up their attempts are parked for a person."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from gandy.admin.manifest_manager.cycle import (
    FreshManifests,
    LoadedManifests,
    ReapedInProgress,
    ReapedPending,
)
from gandy.rules.retry import is_exhausted
from gandy.store.drivers.database import Transaction  # noqa: TC001 the engine reads it at run time
from gandy.store.halving import write_halved
from gandy.store.manifests import load_views
from gandy.store.reaping import park_manifests

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gandy.model.manifest import DispatchView
    from gandy.store.reaping import ParkedManifest

_log = logging.getLogger("gandy.manifest_manager")


async def reap_failed_jobs(
    loaded: LoadedManifests,
    pending: ReapedPending,
    in_progress: ReapedInProgress,
    *,
    transaction: Transaction,
) -> FreshManifests:
    """Write one dead letter for each manifest at its limit; a run that was reaped now counts now."""
    fresh = await transaction.run(load_views(pending.manifest_ids | in_progress.manifest_ids))
    unreadable = {**loaded.unreadable, **fresh.unreadable}
    return await park_exhausted(transaction, (*loaded.views, *fresh.views), unreadable)


async def park_exhausted(
    transaction: Transaction, snapshots: Sequence[DispatchView], unreadable: Mapping[int, str]
) -> FreshManifests:
    """Write the letters of those at their limit, and mark them; of two snapshots of one the later counts."""
    views = {view.id: view for view in snapshots}
    exhausted = [view.id for view in views.values() if _is_to_be_parked(view)]
    parked = await _park(transaction, exhausted)
    for letter in parked:
        views[letter.manifest_id] = views[letter.manifest_id]._replace(is_dead_lettered_now=True)
    return FreshManifests(tuple(views.values()), unreadable, parked)


async def _park(transaction: Transaction, manifest_ids: Sequence[int]) -> tuple[ParkedManifest, ...]:
    """Write the letters; a manifest whose letter is refused is told, and tried again by the next cycle."""
    if not manifest_ids:
        return ()

    async def write(part: Sequence[int]) -> tuple[ParkedManifest, ...]:
        async with transaction.savepoint():
            return await transaction.run(park_manifests(part))

    result = await write_halved(manifest_ids, write, charges_all=True)
    for refused in result.refused:
        _log.error("the dead letter of manifest %s cannot be written: %s", refused.item, refused.error)
    return tuple(letter for part in result.written for letter in part)


def _is_to_be_parked(view: DispatchView) -> bool:
    is_spent = view.is_retried and is_exhausted(view.failed_count, view.max_retries)
    return is_spent and not view.has_awaiting_dead_letter
