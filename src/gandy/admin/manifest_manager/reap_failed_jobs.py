"""Manifests that used up their attempts are parked for a person."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from gandy.admin.manifest_manager.cycle import (
    CycleRequest,
    FreshManifests,
    LoadedManifests,
    ReapedInProgress,
    ReapedPending,
)
from gandy.rules.deciding import is_exhausted_view
from gandy.rules.ending import is_spent
from gandy.store.drivers.database import Transaction  # noqa: TC001 the engine reads it at run time
from gandy.store.manifests import DueManifests, load_views
from gandy.store.reaping import park_manifests
from gandy.store.runs import read_policies
from gandy.store.statements import write_halved

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gandy.settings import RetrySettings
    from gandy.store.reaping import ParkedManifest

_log = logging.getLogger("gandy.manifest_manager")


async def reap_failed_jobs(  # noqa: PLR0917 the parts of a cycle, in their order
    request: CycleRequest,
    loaded: LoadedManifests,
    pending: ReapedPending,
    in_progress: ReapedInProgress,
    *,
    transaction: Transaction,
) -> FreshManifests:
    """Write one dead letter for each manifest at its limit; a run that was reaped now counts now."""
    fresh = await transaction.run(load_views(pending.manifest_ids | in_progress.manifest_ids))
    unreadable = {**loaded.unreadable, **fresh.unreadable}
    due = DueManifests((*loaded.views, *fresh.views), unreadable)
    return await park_exhausted(transaction, due, request.retry)


async def park_exhausted(transaction: Transaction, due: DueManifests, retry: RetrySettings) -> FreshManifests:
    """Write the letters of those at their limit, and mark them; of two snapshots of one the later counts."""
    views = {view.id: view for view in due.views}
    exhausted = [view.id for view in views.values() if is_exhausted_view(view)]
    policies = await transaction.run(read_policies(exhausted))
    spent = [each for each, policy in policies.items() if is_spent(policy.failures, policy, retry)]
    parked = await _park(transaction, spent)
    for letter in parked:
        views[letter.manifest_id] = views[letter.manifest_id]._replace(is_dead_lettered_now=True)
    return FreshManifests(tuple(views.values()), due.unreadable, parked)


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
