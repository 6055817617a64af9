"""Cancelling queued and running jobs; every write is conditional, and the result shows each job's state."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING

from gandy.errors import GroupNotFoundError
from gandy.model.run import EndedBy, Failure, RunEnd, TrainState
from gandy.store.finishing import FinishRules, finish_runs
from gandy.store.manifests import count_cancelled
from gandy.store.queueing import lock_manifest
from gandy.store.statements import statement
from gandy.store.stats.rollups import tally_at_once
from gandy.store.waiting import promote_and_announce

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gandy.model.owners import Owners
    from gandy.model.run import RetentionSpans
    from gandy.store.reading.listings import SearchedRows
    from gandy.store.statements import Operation, Row, Rows


@dataclass(frozen=True, slots=True)
class CancelResult:
    """The result of a cancellation, by the state that the jobs were in."""

    cancelled: tuple[int, ...] = ()  #: not begun: they will not run
    asked: tuple[int, ...] = ()  #: running: their workers are told to stop them
    over: tuple[int, ...] = ()  #: already ended
    unknown: tuple[int, ...] = ()
    looked: SearchedRows | None = None  #: how far a search in texts looked; None: it was none
    next: int | None = None  #: rows below it were not looked at: `before` continues there
    owner_of: Mapping[int, str] = field(default_factory=dict, compare=False, repr=False)

    def plus(self, other: CancelResult) -> CancelResult:
        """Combine the results of two batches."""
        return CancelResult(
            self.cancelled + other.cancelled,
            self.asked + other.asked,
            self.over + other.over,
            self.unknown + other.unknown,
            owner_of={**self.owner_of, **other.owner_of},
        )


@dataclass(frozen=True, slots=True)
class GroupWalk:
    """The position of a walk over the jobs of a group."""

    owner: str
    group_id: int
    after: int
    until: int


def cancel_jobs(ids: Sequence[int], retention: RetentionSpans, *, owners: Owners) -> Operation[CancelResult]:
    """Cancel jobs in any state: in the queue, pending, or in progress."""
    wanted, owner = list(ids), owners.bound
    manifests = [row.id for row in (yield statement("find_manifests_of_jobs", ids=wanted, owner=owner))]
    if manifests:
        yield statement("lock_manifests", ids=manifests)
    entries = {row.id: row for row in (yield statement("lock_entries", ids=wanted, owner=owner))}
    to_come = [row.id for row in entries.values() if row.status in {"queued", "waiting"}]
    dropped = yield from _drop(to_come, owners)
    rest = [job_id for job_id in wanted if job_id not in dropped]
    live = (yield statement("lock_live_runs", ids=rest, owner=owner)) if rest else []
    stopped, asked = yield from _stop(live, retention, owners)
    yield from promote_and_announce(manifests)
    yield from _wake_managers(manifests, owners)
    gone = [job_id for job_id in rest if job_id not in {*stopped, *asked}]
    over = {*entries, *(yield from _kept([job_id for job_id in gone if job_id not in entries], owners))}
    return CancelResult(
        cancelled=tuple(job_id for job_id in wanted if job_id in dropped or job_id in stopped),
        asked=tuple(job_id for job_id in wanted if job_id in asked),
        over=tuple(job_id for job_id in gone if job_id in over),
        unknown=tuple(job_id for job_id in gone if job_id not in over),
        owner_of={row.id: row.owner for row in (*entries.values(), *live)},
    )


def find_manifest_jobs(external_id: str, *, owner: str) -> Operation[list[int]]:
    """Lock a manifest and return its run and its queued entry, without its waiting entries."""
    manifest = yield from lock_manifest(external_id, owner=owner)
    queued = yield statement("find_waiting", manifest_id=manifest.id, owner=owner)
    running = [] if manifest.active_run_id is None else [manifest.active_run_id]
    return [*running, *(row.id for row in queued)]


def begin_group_walk(owner: str, name: str) -> Operation[GroupWalk]:
    """Start a walk over the current jobs of a group; later jobs are not part of it."""
    found = yield statement("find_group", owner=owner, name=name)
    if not found:
        raise GroupNotFoundError(owner, name)
    until: int = (yield statement("newest_job"))[0].id
    return GroupWalk(owner, found[0].id, 0, until)


def next_group_jobs(walk: GroupWalk, limit: int) -> Operation[list[int]]:
    """Find the next jobs of a walk."""
    rows = yield statement(
        "find_group_jobs",
        owner=walk.owner,
        group_id=walk.group_id,
        after=walk.after,
        until=walk.until,
        limit=limit,
    )
    return [row.id for row in rows]


def _drop(ids: list[int], owners: Owners) -> Operation[set[int]]:
    """Cancel queued and waiting entries, and release their unique keys."""
    rows = (yield statement("cancel_entries", ids=ids, owner=owners.bound)) if ids else []
    keyed = [row.id for row in rows if row.unique_key is not None]
    if keyed:
        yield statement("release_keys", holder_ids=keyed)
    yield from count_cancelled(rows)
    return {row.id for row in rows}


def _stop(live: Rows, retention: RetentionSpans, owners: Owners) -> Operation[tuple[set[int], set[int]]]:
    """End pending runs; request cancellation of the others from their workers."""
    if not live:
        return set(), set()
    yield statement("request_cancellations", ids=[row.id for row in live], owner=owners.bound)
    stopped: set[int] = set()
    pending = sorted((row for row in live if row.state == TrainState.PENDING), key=attrgetter("owner"))
    for owner, rows in groupby(pending, key=attrgetter("owner")):
        # a cancelled run writes no dead letter, so the limit does not matter here
        rules = FinishRules(owner, retention, max_awaiting_letters_per_train=0)
        result = yield from finish_runs([_end(row) for row in rows], rules)
        yield from tally_at_once(owner, result.measures)
        stopped.update(result.finished)
    asked = {row.id for row in live if row.state == TrainState.IN_PROGRESS}
    for run_id in sorted(asked):
        yield statement("notify", payload=f"cancel:{run_id}")
    return stopped, asked


def _end(row: Row) -> RunEnd:
    return RunEnd(
        id=row.id,
        train=row.train,
        worker_id=row.worker_id,
        fence=row.fence,
        state=TrainState.CANCELLED,
        ended_by=EndedBy.OPERATOR,
        manifest_id=row.manifest_id,
        failure=Failure(None, "Cancelled", "cancelled by an operator before it began"),
        unique_key=row.unique_key,
    )


def _wake_managers(manifest_ids: list[int], owners: Owners) -> Operation[None]:
    looking = statement("look_at_manifests", ids=manifest_ids, owner=owners.bound)
    rows = (yield looking) if manifest_ids else []
    for owner in sorted({row.owner for row in rows}):
        yield statement("notify", payload=f"manager:{owner}")


def _kept(ids: list[int], owners: Owners) -> Operation[set[int]]:
    rows = (yield statement("find_kept_runs", ids=ids, owner=owners.bound)) if ids else []
    return {row.id for row in rows}
