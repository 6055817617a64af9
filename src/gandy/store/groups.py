"""Groups: what the code declares, what an operator set over it, and what follows for their manifests."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from gandy.errors import GroupNotFoundError
from gandy.model.manifest import DEFAULT_GROUP, GroupDeclaration
from gandy.store.declared import group_from_stored, group_text
from gandy.store.manifest_rows import GroupKey
from gandy.store.statements import batch, statement
from gandy.store.waiting import promote_of_groups

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from gandy.model.manifest import Declarations
    from gandy.store.statements import Operation, Row

GroupRow = dict[str, object]


def ensure_groups(owner: str, names: Iterable[str]) -> Operation[dict[str, GroupKey]]:
    """Find or make groups by name."""
    wanted = sorted({*names, DEFAULT_GROUP})
    rows = yield batch("ensure_groups", [{"name": name} for name in wanted], owner=owner)
    return {row.name: GroupKey(row.id, row.priority) for row in rows}


def seed_groups(declarations: Declarations) -> Operation[Mapping[str, GroupKey]]:
    """Write what is declared of groups; one that is no longer declared, but only named, has the defaults."""
    declared = {group.name: group for group in declarations.groups}
    named = {declaration.group for declaration in declarations.manifests}
    yield from ensure_groups(declarations.owner, [*declared, *named])
    stored = yield statement("list_groups_declared", owner=declarations.owner)
    texts = {row.name: _text_for(row, declared, is_whole=bool(declarations.manifests)) for row in stored}
    changed = [row for row in stored if row.declared != texts[row.name]]
    yield from write_groups(
        declarations.owner, [(row, texts[row.name], row.overrides, row.disabled_reason) for row in changed]
    )
    effective = {row.name: group_from_stored(row.name, texts[row.name], row.overrides) for row in stored}
    return {row.name: GroupKey(row.id, effective[row.name].priority) for row in stored}


def override_group(
    owner: str, name: str, changes: Mapping[str, object] | None, *, reason: str | None = None
) -> Operation[GroupDeclaration]:
    """Set values over the declared ones; None clears every override."""
    rows = yield statement("lock_group", owner=owner, name=name)
    if not rows:
        raise GroupNotFoundError(owner, name)
    overrides = "{}" if changes is None else json.dumps({**json.loads(rows[0].overrides), **changes})
    changed = (rows[0], rows[0].declared, overrides, reason or rows[0].disabled_reason)
    yield from write_groups(owner, [changed])
    yield statement("notify", payload=f"manager:{owner}")
    yield statement("notify", payload=f"work:{owner}")
    return group_from_stored(name, rows[0].declared, overrides)


def write_groups(owner: str, changes: Sequence[tuple[Row, str, str, str | None]]) -> Operation[None]:
    """Write groups with what follows: manifests take over a priority, and are looked at when switched on."""
    if not changes:
        return
    after = {
        row.id: group_from_stored(row.name, declared, overrides) for row, declared, overrides, _ in changes
    }
    rows = [_group_row(after[row.id], row, texts) for row, *texts in changes]
    yield batch("update_groups", rows, owner=owner)
    moved = [row.id for row, *_ in changes if row.priority != after[row.id].priority]
    if moved:
        yield statement("spread_group_priority", ids=moved, owner=owner)
    woken = [row.id for row, *_ in changes if after[row.id].is_enabled and not row.is_enabled]
    if woken:
        yield statement("wake_groups", ids=woken, owner=owner)
        yield from promote_of_groups(owner, woken)


def _group_row(group: GroupDeclaration, stored: Row, texts: Sequence[str | None]) -> GroupRow:
    declared, overrides, reason = texts
    return {
        "id": stored.id,
        "declared": declared,
        "overrides": overrides,
        "max_active_jobs": group.max_active_jobs,
        "priority": group.priority,
        "is_enabled": group.is_enabled,
        "reason": reason,
    }


def _text_for(stored: Row, declared: Mapping[str, GroupDeclaration], *, is_whole: bool) -> str:
    group = declared.get(stored.name)
    if group is not None:
        return group_text(group)
    return "{}" if is_whole else str(stored.declared)
