"""Why entries wait: the facts about a page of entries, in a handful of statements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gandy.rules.waiting import (
    Condition,
    GroupState,
    LiveWorker,
    ManifestState,
    Surroundings,
    WaitingEntry,
    conditions_of,
    first_cause,
    ready_words,
)
from gandy.store.audit import find_switchers
from gandy.store.manifests import read_now
from gandy.store.statements import statement
from gandy.store.workers import live_workers

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime, timedelta

    from gandy.model.owners import Owners
    from gandy.rules.waiting import Cause
    from gandy.store.statements import Operation, Row, Rows

#: The limit of counts; a count at the limit is reported as "or more".
COUNTED: Final = 10_000
COUNTED_IN_GROUPS: Final = 1_000  #: in each group
_NAMED: Final = 20
_GROUPS: Final = 1_000
_MOST_ATTEMPTS: Final = 50


@dataclass(frozen=True, slots=True)
class Wait:
    """What an entry waits for, and all conditions of its claim."""

    waits_for: Cause
    why: str
    what_to_do: str | None
    conditions: tuple[Condition, ...]
    train: str
    since: datetime  #: its time, which may be to come
    place: tuple[int, int] | None  #: its rank and its group, if it stands in the order of claims


@dataclass(frozen=True, slots=True)
class _Facts:
    """What was read about entries of several owners."""

    rows: Rows
    active: Mapping[int, int]  #: live runs by group, of the groups with a cap
    around: Mapping[str, Surroundings]  #: by owner
    switchers: Mapping[tuple[str, str, str], str]  #: who switched off, by owner, kind and name


def load_waits(
    ids: Sequence[int], owners: Owners, *, max_active_jobs: int | None
) -> Operation[dict[int, Wait]]:
    """Judge entries by what a claim would find now; entries that wait for nothing more are left out."""
    if not ids:
        return {}
    rows = yield statement("load_waiting", ids=list(ids), owner=owners.bound)
    if not rows:
        return {}
    facts = _Facts(
        rows,
        (yield from _count_active(rows, owners)),
        (yield from _look_around(rows, max_active_jobs)),
        (yield from _find_switchers(rows)),
    )
    return {row.id: _judged(row, facts) for row in rows}


def count_ahead(row: Row, rank: int, group_id: int) -> Operation[int]:
    """Count the entries of its group that are claimed before an entry."""
    given = {"id": row.id, "rank": rank, "group_id": group_id, "limit": COUNTED}
    return int((yield statement("count_ahead", owner=row.owner, **given))[0].entries)


def load_entry(entry_id: int, owners: Owners) -> Operation[Row | None]:
    """Read one entry of the queue with its input."""
    rows = yield statement("load_entry", id=entry_id, owner=owners.bound)
    return rows[0] if rows else None


def count_held_in_groups(owner: str) -> Operation[Rows]:
    """Count the entries that wait for their group, which is switched off or full."""
    return (yield statement("count_held_in_groups", owner=owner, limit=COUNTED_IN_GROUPS, groups=_GROUPS))


def load_old_waits(
    owners: Owners, *, max_active_jobs: int | None, patience: timedelta
) -> Operation[dict[int, Wait]]:
    """Judge the entries that have waited for long: the next of each group, and those of manifests."""
    seconds = patience.total_seconds()
    given = {"owner": owners.bound, "searched": COUNTED, "limit": _NAMED, "patience_seconds": seconds}
    found = yield statement("find_old_entries", **given)
    return (yield from load_waits([row.id for row in found], owners, max_active_jobs=max_active_jobs))


def list_attempts(job_id: int, owners: Owners) -> Operation[Rows]:
    """List the attempts of a job in their order, by the id of one of them."""
    return (yield statement("list_attempts", id=job_id, owner=owners.bound, most=_MOST_ATTEMPTS))


def _count_active(rows: Rows, owners: Owners) -> Operation[dict[int, int]]:
    capped = sorted({row.group_id for row in rows if row.max_active_jobs is not None})
    if not capped:
        return {}
    counted = yield statement("count_active_of_groups", ids=capped, owner=owners.bound)
    return {row.id: row.active for row in counted}


def _look_around(rows: Rows, cap: int | None) -> Operation[dict[str, Surroundings]]:
    now = yield from read_now()
    found: dict[str, Surroundings] = {}
    for owner in sorted({row.owner for row in rows}):
        alive = yield from live_workers(owner)
        active = 0 if cap is None else (yield statement("count_active", owner=owner))[0].active
        workers = [
            LiveWorker(
                trains=frozenset(each.trains),
                slots=each.slots,
                busy=each.busy,
                is_draining=each.state == "draining",
            )
            for each in alive
        ]
        found[owner] = Surroundings(now=now, workers=workers, max_active_jobs=cap, active=active)
    return found


def _find_switchers(rows: Rows) -> Operation[dict[tuple[str, str, str], str]]:
    """Find who switched off the manifests and groups of these entries, as the audit trail says."""
    wanted = {(row.owner, "manifest", row.manifest) for row in rows if row.is_enabled is False}
    wanted |= {(row.owner, "group", row.group_name) for row in rows if row.is_group_enabled is False}
    found: dict[tuple[str, str, str], str] = {}
    for owner in sorted({owner for owner, _, _ in wanted}):
        pairs = sorted((kind, name) for each, kind, name in wanted if each == owner)
        actors = yield from find_switchers(owner, pairs)
        found |= {(owner, kind, name): actor for (kind, name), actor in actors.items()}
    return found


def _judged(row: Row, facts: _Facts) -> Wait:
    entry, around = _entry(row, facts), facts.around[row.owner]
    conditions = conditions_of(entry, around)
    cause = first_cause(conditions)
    place = (row.rank, row.group_id) if row.status == "queued" and row.gate == "open" else None
    of = (conditions, row.train, row.scheduled_at, place)
    if cause is None:
        return Wait("nothing", ready_words(entry, around), None, *of)
    return Wait(cause.cause, cause.why, cause.what_to_do, *of)


def _entry(row: Row, facts: _Facts) -> WaitingEntry:
    return WaitingEntry(
        id=row.id,
        train=row.train,
        origin=row.origin,
        scheduled_at=row.scheduled_at,
        is_turn=row.status != "waiting",
        is_pending=row.train_state == "pending",
        queued_id=row.queued_id,
        manifest=None if row.manifest is None else _manifest(row),
        is_stray=row.manifest_id is not None and row.manifest is None,
        group=_group(row, facts.active),
        disabled_by=facts.switchers.get((row.owner, "manifest", row.manifest or "")),
        group_disabled_by=facts.switchers.get((row.owner, "group", row.group_name or "")),
    )


def _manifest(row: Row) -> ManifestState:
    return ManifestState(
        external_id=row.manifest,
        is_enabled=row.is_enabled,
        is_orphaned=row.orphaned_at is not None,
        disabled_reason=row.disabled_reason,
        active_run_id=row.active_run_id,
        dead_letter_id=row.dead_letter_id,
        is_parking=row.is_parking,
    )


def _group(row: Row, active: Mapping[int, int]) -> GroupState:
    """Return the state of its group; one that was pruned meanwhile had no settings."""
    return GroupState(
        name=row.group_name or "default",
        is_enabled=row.is_group_enabled is not False,
        disabled_reason=row.group_disabled_reason,
        max_active_jobs=row.max_active_jobs,
        active=active.get(row.group_id, 0),
    )
