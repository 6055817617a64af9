"""An operator's values over the declared ones."""

from __future__ import annotations

import json
from datetime import UTC
from typing import TYPE_CHECKING

from gandy.errors import ManifestNotFoundError, OverrideError, ParentNotFoundError
from gandy.model.schedule import Cron, Interval, Manual
from gandy.store.declared import from_stored, parent_of
from gandy.store.groups import ensure_groups
from gandy.store.manifest_rows import Change, RowMaker
from gandy.store.manifests import read_now
from gandy.store.next_instant import set_next, unset_next
from gandy.store.statements import batch, statement
from gandy.store.waiting import promote_and_announce

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from gandy.model.manifest import ManifestDeclaration
    from gandy.store.statements import Operation, Row


def override_manifest(
    external_id: str,
    changes: Mapping[str, object] | None,
    *,
    owner: str,
    reason: str | None = None,
    next_at: datetime | None = None,
) -> Operation[None]:
    """Set values over the declared ones, and the next instant, or clear them all with None."""
    stored = yield from _lock(external_id, owner)
    overrides = _merged(stored, changes)
    effective = from_stored(external_id, stored.declared, overrides)
    _refuse_other_kind(stored, overrides)
    yield from _refuse_lost_parent(owner, effective)
    groups = yield from ensure_groups(owner, [effective.group])
    maker = RowMaker((yield from read_now()), groups)
    change = Change(stored.declared, overrides, stored.origin, stored.is_orphaned, reason)
    row = maker.changed_row(stored, change)
    if next_at is not None:
        row |= yield from set_next(effective, stored, next_at.astimezone(UTC))
    elif changes is None:
        row |= yield from unset_next(stored)
    yield batch("update_manifests", [row], owner=owner)
    yield statement("regate_entries", ids=[stored.id], owner=owner)
    yield from promote_and_announce([stored.id])
    yield statement("notify", payload=f"manager:{owner}")
    yield statement("notify", payload=f"work:{owner}")


def _lock(external_id: str, owner: str) -> Operation[Row]:
    rows = yield statement("lock_declared", external_ids=[external_id], owner=owner)
    if not rows:
        raise ManifestNotFoundError(external_id)
    return rows[0]


def _refuse_lost_parent(owner: str, effective: ManifestDeclaration) -> Operation[None]:
    """A manifest may be left whose parent belonged to another application; it cannot be switched on again."""
    parent = parent_of(effective.schedule)
    if parent is not None and not (yield statement("find_declared", external_ids=[parent], owner=owner)):
        raise ParentNotFoundError(effective.external_id, parent)


def _merged(stored: Row, changes: Mapping[str, object] | None) -> str:
    if changes is None:
        return "{}"
    declared = json.loads(stored.declared)
    merged = {**json.loads(stored.overrides), **changes}
    # Switching on what the code has on is taking a pause back, not an opinion of its own.
    if merged.get("is_enabled") == declared["is_enabled"]:
        del merged["is_enabled"]
    return json.dumps(merged)


def _refuse_other_kind(stored: Row, overrides: str) -> None:
    before = from_stored(stored.external_id, stored.declared).schedule
    after = from_stored(stored.external_id, stored.declared, overrides).schedule
    if before != after and not isinstance(before, Cron | Interval | Manual):
        raise OverrideError(
            stored.external_id, "only a cron, an interval or a manual schedule can be replaced"
        )
