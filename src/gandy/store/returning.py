"""Entries that do not become runs after all: put back untouched, or settled where they are refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from gandy.model.owners import ALL_OWNERS
from gandy.store.statements import batch, statement
from gandy.store.waiting import make_way, promote_and_announce

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gandy.store.statements import Operation


class Refusal(NamedTuple):
    """An entry that cannot become a run, and what the database said."""

    id: int
    error: str


def refuse_entries(refusals: Sequence[Refusal]) -> Operation[None]:
    """Settle entries that cannot become runs: ad-hoc work waits for a person, a manifest goes on."""
    if not refusals:
        return
    settled = yield batch("refuse_entries", [refusal._asdict() for refusal in refusals])
    ad_hoc = {row.id for row in settled if row.manifest_id is None}
    yield batch(
        "park_jobs",
        [
            {"id": refusal.id, "reason": f"it cannot become a run: {refusal.error}", "evidence": "{}"}
            for refusal in refusals
            if refusal.id in ad_hoc
        ],
    )
    yield statement("release_keys", holder_ids=[row.id for row in settled])
    yield from _promote_behind([row.manifest_id for row in settled if row.manifest_id is not None])


def _promote_behind(manifest_ids: Sequence[int]) -> Operation[None]:
    """Let the next entries take the place of refused ones; entries are locked, so no manifest is waited for.

    A manifest that another transaction holds is left to the repair pass.
    """
    if manifest_ids:
        locked = yield statement("lock_idle_manifests", ids=sorted(manifest_ids))
        yield from promote_and_announce([row.id for row in locked])


def put_back(ids: Sequence[int], worker_id: str) -> Operation[int]:
    """Return what was claimed and not begun, untouched, and say that it is there again.

    It takes the place in the queue: a queued entry of its manifest with another input steps back.
    """
    found = yield statement("find_manifests_of_entries", ids=list(ids))
    manifest_ids = [row.id for row in found]
    if manifest_ids:
        yield statement("lock_manifests", ids=manifest_ids)
    # whose they are is not asked: the worker's id guards them below
    yield statement("lock_entries", ids=list(ids), owner=ALL_OWNERS.bound)
    if manifest_ids:
        yield from make_way(ids)
    rows = yield statement("put_back_entries", ids=list(ids), worker_id=worker_id)
    cancelled = [row.id for row in rows if row.is_cancelled]
    if cancelled:
        yield statement("release_keys", holder_ids=cancelled)
    if manifest_ids:
        yield statement("release_entries", manifest_ids=manifest_ids)
        yield from promote_and_announce(manifest_ids)  # where the run was cancelled, or was not the worker's
    for owner in {row.owner for row in rows}:
        yield statement("notify", payload=f"work:{owner}")
    return len(rows) - len(cancelled)
