"""Manifests in a cycle: load those that are due for a look, and write the decisions."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from gandy.errors import ScheduleError
from gandy.model import exclusion as exclusion_json
from gandy.model.manifest import DispatchView
from gandy.model.schedule import (
    Manual,
    MisfirePolicy,
    Recurring,
    ScheduleColumns,
    SkipReason,
    Span,
    schedule_from_columns,
)
from gandy.rules.dispatching import Demand
from gandy.settings.bounds import as_span
from gandy.store.owners import recall, remember
from gandy.store.statements import batch, statement

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from gandy.errors import RowConflictError
    from gandy.model.exclusion import Exclusion
    from gandy.model.manifest import Decision, Skipped
    from gandy.model.schedule import Schedule
    from gandy.store.statements import Operation, Row, Rows


#: A manifest, its skipped instants, and the message if an error was the reason.
SkipRow: TypeAlias = "tuple[int, Skipped, str | None]"

_PARENTS_AT_ONCE: Final = 1_000
_MEMORY: Final = 65_536
_ONE_ENTRY: Final = frozenset({"ix_work_queue_unique_queued_manifest", "ix_work_queue_unique_occurrence"})


@dataclass(frozen=True, slots=True)
class DueManifests:
    """The manifests of one cycle; the remaining due manifests follow in the next."""

    views: tuple[DispatchView, ...]
    unreadable: Mapping[int, str]  #: manifests whose schedule cannot be read, and why
    left_over: int = 0


@dataclass(frozen=True, slots=True)
class MovedManifests:
    """The manifests whose cursor was advanced, and those of them that got an entry."""

    moved: frozenset[int]
    queued: frozenset[int]


def try_lock_cycle() -> Operation[bool]:
    """Try the advisory lock that keeps two servers from running the same cycle; never wait for it."""
    return bool((yield statement("try_lock", name="gandy_manifest_manager"))[0].is_held)


def wake_dependents() -> Operation[int]:
    """Schedule a look at every dependent of a parent that ended."""
    return len((yield statement("wake_dependents", limit=_PARENTS_AT_ONCE)))


def load_few_due(most: int) -> Operation[DueManifests | None]:
    """Load the manifests that are due for a look, without a count; None if there are more than `most`."""
    rows = yield statement("load_few_due", limit=most + 1)
    return None if len(rows) > most else views_of(sorted(rows))


def count_due() -> Operation[list[Demand]]:
    """Count the manifests that are due for a look, by group."""
    rows = yield statement("count_due_by_group")
    return [Demand(row.id, row.priority, row.due, row.oldest_due_at) for row in rows]


def load_due(
    demands: Sequence[Demand], looks: Mapping[int, int], *, free_first: bool = False
) -> Operation[DueManifests]:
    """Load the number of manifests that `looks` gives each group, by priority, then the longest due first.

    `free_first` puts manifests that no guard blocks first, at the cost of reading all due manifests.
    """
    due = sum(demand.due for demand in demands)
    if not any(looks.values()):
        return DueManifests((), {}, due)
    if sum(looks.values()) >= due:
        return views_of((yield statement("load_all_due")))
    rows = yield statement("load_shares", shares=json.dumps(dict(looks)), free_first=free_first)
    return views_of(rows, left_over=due - len(rows))


def load_views(ids: Iterable[int]) -> Operation[DueManifests]:
    """Read manifests again, due for a look or not."""
    wanted = sorted(set(ids))
    return views_of((yield statement("load_views", ids=wanted)) if wanted else [])


def load_view_of(manifest_id: int, owner: str) -> Operation[DueManifests]:
    """Read one manifest of an owner, due for a look or not."""
    return views_of((yield statement("load_view_of", id=manifest_id, owner=owner)))


def load_page(after_id: int, limit: int) -> Operation[DueManifests]:
    """Load the next manifests of the repair pass over all of them."""
    return views_of((yield statement("load_page", after_id=after_id, limit=limit)))


def load_far(limit: int, **place: object) -> Operation[tuple[DispatchView, ...]]:
    """Load the next manifests that need no look for a while, the furthest first."""
    return views_of((yield statement("load_far_cursors", limit=limit, **place))).views


def next_look() -> Operation[float | None]:
    """Return the seconds until the next manifest is due for a look."""
    rows = yield statement("next_look")
    return rows[0].seconds if rows else None


def read_now() -> Operation[datetime]:
    """Read the clock that all decisions use."""
    now: datetime = (yield statement("read_clock"))[0].now
    return now


def announce_work(owners: Iterable[str]) -> Operation[None]:
    """Notify the workers of owners that have work."""
    for owner in sorted(owners):
        yield statement("notify", payload=f"work:{owner}")


def count_cancelled(entries: Iterable[Row]) -> Operation[None]:
    """Count entries that were cancelled before they began as ends; the manifests are locked."""
    counts = Counter(row.manifest_id for row in entries if row.manifest_id is not None)
    rows = [{"manifest_id": each, "count": count} for each, count in sorted(counts.items())]
    yield from announce_ends((yield batch("count_cancelled", rows)))


def announce_ends(rows: Rows) -> Operation[None]:
    """Notify the managers of owners whose manifests ended in a way that a dependent follows."""
    for owner in sorted({row.owner for row in rows if row.has_dependents_due}):
        yield statement("notify", payload=f"manager:{owner}")


def advance(decided: Sequence[tuple[DispatchView, Decision]]) -> Operation[MovedManifests]:
    """Advance cursors and write entries; skip a manifest that changed meanwhile (optimistic locking)."""
    written: dict[tuple[int, SkipReason | None], tuple[Any, ...]] = {}
    rows = []
    for view, decision in decided:
        key = id(decision), view.last_skip  # many manifests share one decision
        shared = written.get(key)
        if shared is None:
            shared = written[key] = _written(view, decision)
        rows.append(_Advance._make((view.id, view.version, view.next_scheduled_run, *shared)))
    return (yield from _advance(rows))


def advance_without_entry(view: DispatchView, decision: Decision) -> Operation[MovedManifests]:
    """Advance the cursor of a manifest whose entry would conflict with an existing one."""
    row = _Advance(view.id, view.version, view.next_scheduled_run, *_written(view, decision))
    return (yield from _advance([row._replace(due_at=None)]))


def is_met_entry(error: RowConflictError) -> bool:
    """Return whether an entry was refused because one exists already: of this instant, or queued."""
    return error.constraint in _ONE_ENTRY


def _advance(advances: Sequence[_Advance]) -> Operation[MovedManifests]:
    rows = yield batch("advance_manifests", advances)
    return MovedManifests(
        moved=frozenset(row.id for row in rows),
        queued=frozenset(row.id for row in rows if row.is_queued),
    )


def step_back(views: Sequence[DispatchView]) -> Operation[int]:
    """Restore the cursors of manifests whose entry was refused because another was queued in between."""
    rows = [{"id": view.id, "cursor": view.next_scheduled_run} for view in views]
    stepped = len((yield batch("step_back", rows)))
    if views:
        yield statement("look_again", ids=[view.id for view in views])
    return stepped


def record_skips(skips: Sequence[SkipRow]) -> Operation[int]:
    """Write skip verdicts; extend the row of the last skip if its reason is the same."""
    extending = [(manifest_id, skip) for manifest_id, skip, _ in skips if skip.extends_last]
    rows = [
        {
            "manifest_id": manifest_id,
            "due_until": skip.due_until,
            "occurrences": skip.occurrences,
            "reason": skip.reason.value,
        }
        for manifest_id, skip in extending
    ]
    extended = {row.manifest_id for row in (yield batch("extend_skips", rows))}
    made = [
        {
            "manifest_id": manifest_id,
            "due_at": skip.due_at,
            "due_until": skip.due_until,
            "occurrences": skip.occurrences,
            "reason": skip.reason.value,
            "error": error,
        }
        for manifest_id, skip, error in skips
        if not (skip.extends_last and manifest_id in extended)
    ]
    yield batch("record_skips", made)
    return len(skips)


def set_looks(looks: Sequence[tuple[DispatchView, datetime]]) -> Operation[int]:
    """Correct `next_look_at`; a manifest that changed meanwhile has a new value already."""
    rows = [{"id": view.id, "version": view.version, "next_look": look} for view, look in looks]
    return len((yield batch("set_looks", rows)))


class _Advance(NamedTuple):
    """One row of the conditional advance."""

    id: int
    version: str
    cursor: datetime | None
    next_cursor: datetime | None
    next_look: datetime | None
    due_at: datetime | None
    scheduled_at: datetime | None
    origin: str | None
    skip_reason: str | None


def _written(view: DispatchView, decision: Decision) -> tuple[Any, ...]:
    """Return what a decision writes, in the order of the fields."""
    occurrence = decision.occurrence
    return (
        decision.next_scheduled_run,
        decision.next_look_at,
        None if occurrence is None else occurrence.due_at,
        None if occurrence is None else occurrence.scheduled_at,
        None if occurrence is None else occurrence.origin.value,
        _skip_reason(view, decision),
    )


def _skip_reason(view: DispatchView, decision: Decision) -> str | None:
    """Return the reason that the next skip may extend: the latest verdict's, if that was a skip."""
    occurrence, skipped = decision.occurrence, decision.skipped
    if skipped and (occurrence is None or skipped[-1].due_at > occurrence.due_at):
        return skipped[-1].reason.value
    return None if occurrence is not None or view.last_skip is None else view.last_skip.value


def views_of(rows: Rows, *, left_over: int = 0) -> DueManifests:
    """Read rows of the view of manifests; one that cannot be read hides no other."""
    views: list[DispatchView] = []
    unreadable: dict[int, str] = {}
    for row in rows:
        try:
            views.append(_view(row, schedule_of(*row[5:10]), exclusions_of(row.exclusions)))
        except Exception as error:  # noqa: BLE001 an unreadable row must not hide the others
            known = isinstance(error, ScheduleError)
            unreadable[row.id] = str(error) if known else f"unreadable: {type(error).__name__}: {error}"
            views.append(_view(_readable(row), Manual(), ()))
    return DueManifests(tuple(views), unreadable, left_over)


def _readable(row: Row) -> Row:
    """Replace the fields that may be unreadable by defaults; no decision is made from the result."""
    return row._replace(
        misfire_policy=MisfirePolicy.FIRE_ONCE_NOW.value, variance_seconds=0, misfire_threshold_seconds=0
    )


_WHICH: Final = attrgetter("id", "external_id", "owner", "train", "group_id")
_WHEN: Final = attrgetter("next_scheduled_run", "priority", "group_priority")
_WHETHER: Final = attrgetter("is_enabled", "is_group_enabled", "is_orphaned", "enabled_at")
_BEFORE: Final = attrgetter("failure_count", "success_count", "has_awaiting_dead_letter")
_NOW: Final = attrgetter(
    "has_active_execution", "has_successful_metadata", "completed_at", "has_enabled_parents",
    "has_ended_parents", "next_look_at", "max_retries", "is_retried", "version",
)  # fmt: skip


def _view(row: Row, schedule: Schedule, exclusions: tuple[Exclusion, ...]) -> DispatchView:
    """Build the snapshot from runs of columns in its order: one by one, they would take twice as long."""
    queued_origin = row.queued_origin
    return DispatchView._make(
        (
            *_WHICH(row),
            schedule,
            *_WHEN(row),
            exclusions,
            _span(row.variance_seconds),
            _POLICIES[row.misfire_policy],
            _span(row.misfire_threshold_seconds),
            *_WHETHER(row),
            None,  # deferred_since: set by Backlog.mark
            _REASONS.get(row.last_skip_reason),
            *_BEFORE(row),
            False,  # is_dead_lettered_now
            queued_origin is not None,
            *_NOW(row),
            row.scheduled_at if isinstance(schedule, Recurring) else None,  # a once keeps its instant here
            queued_origin == "retry",
            row.created_at,
            *served_of(row.served_spans),
        )
    )


def served_text(view: DispatchView, cursor: datetime | None) -> str:
    """Write the instants to come that ran under a clock ahead, as of the moment the cursor is set back."""
    spans = [[each.since.isoformat(), each.until.isoformat()] for each in view.served]
    since = cursor and cursor.isoformat()
    return json.dumps({"spans": spans, "through": view.served_through, "from": since})


@lru_cache(maxsize=_MEMORY)
def served_of(text: str | None) -> tuple[tuple[Span, ...], int, datetime | None]:
    """Read what `served_text` wrote."""
    if text is None:
        return (), 0, None
    stored = json.loads(text)
    spans = tuple(Span(*map(datetime.fromisoformat, pair)) for pair in stored["spans"])
    return spans, stored["through"], stored["from"] and datetime.fromisoformat(stored["from"])


_POLICIES: Final = {policy.value: policy for policy in MisfirePolicy}
_REASONS: Final = {reason.value: reason for reason in SkipReason}


@lru_cache(maxsize=_MEMORY)
def schedule_of(*columns: Any) -> Schedule:  # noqa: ANN401 - values of a row
    """Read a schedule from its columns, in the order of ScheduleColumns."""
    return schedule_from_columns(ScheduleColumns(*columns))


@lru_cache(maxsize=_MEMORY)
def exclusions_of(text: str) -> tuple[Exclusion, ...]:
    """Read the exclusions of a manifest."""
    return exclusion_json.from_json(text)


@lru_cache(maxsize=_MEMORY)
def _span(seconds: float) -> timedelta:
    return as_span(seconds)


_KEY: Final = "manifest_manager.backlog"
#: A longer gap between cycles ends the backlog: no instant was evaluated in between.
_LONGEST_GAP: Final = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Backlog:
    """A period of cycles that each found more due manifests than they could take."""

    since: datetime
    until: datetime

    def mark(self, view: DispatchView) -> DispatchView:
        """Set `deferred_since` on a snapshot: since when its instant was due but found no place."""
        due_at = view.next_scheduled_run
        if due_at is None or due_at > self.until:
            return view
        return view._replace(deferred_since=max(due_at, self.since))


def recall_backlog(now: datetime) -> Operation[Backlog | None]:
    """Read the backlog of the last cycle, if that cycle was recent enough."""
    found = yield from recall(_KEY)
    if found is None:
        return None
    backlog = Backlog(datetime.fromisoformat(found["since"]), datetime.fromisoformat(found["until"]))
    return backlog if now - backlog.until <= _LONGEST_GAP else None


def keep_backlog(now: datetime, before: Backlog | None, *, is_behind: bool) -> Operation[None]:
    """Start, extend or end the backlog; most cycles have none and write nothing."""
    if is_behind:
        since = now if before is None else before.since
        yield from remember(_KEY, {"since": since.isoformat(), "until": now.isoformat()})
    elif before is not None:
        yield from remember(_KEY, None)
