"""Ending runs from outside their worker: reaping, failing by hand, putting back."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Final, NamedTuple

from gandy.errors import RunNotBegunError, RunNotFoundError, RunOverError
from gandy.model.owners import ALL_OWNERS
from gandy.model.run import EndedBy, Failure, RunEnd, TrainState
from gandy.rules.ending import USUAL
from gandy.settings.bounds import as_span
from gandy.store.finishing import FinishRules, finish_runs
from gandy.store.manifests import announce_ends, count_cancelled
from gandy.store.reports import settle_logs
from gandy.store.statements import batch, statement
from gandy.store.stats.rollups import tally_at_once
from gandy.store.waiting import make_way, promote_and_announce

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from gandy.errors import GandyError
    from gandy.events import RecoveryCause
    from gandy.model.owners import Owners
    from gandy.model.run import RetentionSpans
    from gandy.settings import RetrySettings
    from gandy.store.statements import Operation, Row, Rows


AT_ONCE: Final = 1_000
_FAIL_ATTEMPTS: Final = 5
#: By the state of a worker's row, or unknown without a row: the cause to count and the reason to record.
_GONE: Final[Mapping[str, tuple[RecoveryCause, str]]] = {
    "lost": ("worker_lost", "worker lost: its lease expired without renewal"),
    "stopped": ("worker_stopped", "worker lost: it stopped while this run was in progress"),
    "unknown": ("worker_unknown", "worker lost: the worker that held this run is not registered"),
}


@dataclass(frozen=True, slots=True)
class ReapRules:
    """Settings for ending runs of other processes."""

    retention: RetentionSpans
    max_awaiting_letters_per_train: int
    retry: RetrySettings = USUAL


class AbandonedRun(NamedTuple):
    """A run to end on behalf of its owner, and the cause."""

    owner: str
    end: RunEnd
    cause: RecoveryCause


@dataclass(frozen=True, slots=True)
class Reaped:
    """The number of failed runs, their manifests, and the causes."""

    runs: int = 0
    manifest_ids: frozenset[int] = frozenset()
    causes: Mapping[RecoveryCause, int] = field(default_factory=dict)
    parked: tuple[ParkedJob, ...] = ()


@dataclass(frozen=True, slots=True)
class ParkedJob:
    """A job whose dead letter waits for an operator; ad-hoc work has no manifest."""

    letter_id: int
    manifest_id: int | None
    manifest: str | None
    run_id: int
    train: str
    attempt: int
    reason: str


def try_lock_recovery() -> Operation[bool]:
    """Try the advisory lock that keeps two servers from doing the same recovery; never wait for it."""
    return bool((yield statement("try_lock", name="gandy_recovery"))[0].is_held)


def cancel_timed_out() -> Operation[tuple[int, ...]]:
    """Request cancellation of runs past their deadline, and notify their workers."""
    rows = yield statement("cancel_timed_out", limit=AT_ONCE)
    for row in rows:
        yield statement("notify", payload=f"cancel:{row.id}")
    return tuple(row.id for row in rows)


def find_stale_pending(stale_after: timedelta, *, after: int = 0) -> Operation[list[AbandonedRun]]:
    """Find the next pending runs that no worker will start."""
    rows = yield statement(
        "find_stale_pending", stale_seconds=stale_after.total_seconds(), after=after, limit=AT_ONCE
    )
    reason = f"pending for more than {stale_after} and no live worker can take it"
    failure = Failure(None, "NeverStarted", reason)
    return [_abandoned(row, EndedBy.AGE, failure, cause="never_started") for row in rows]


def find_silent_workers() -> Operation[tuple[str, ...]]:
    """Return the workers whose leases have expired."""
    return tuple(row.id for row in (yield statement("find_silent_workers")))


def mark_lost(worker_ids: Sequence[str]) -> Operation[int]:
    """Mark workers with expired leases as lost, except those that have renewed or are renewing now."""
    return len((yield statement("mark_workers_lost", ids=list(worker_ids))))


def find_abandoned(*, after: int = 0) -> Operation[list[AbandonedRun]]:
    """Find the next runs in progress whose worker is lost, stopped or unknown, however long ago that was."""
    rows = yield statement("find_abandoned", after=after, limit=AT_ONCE)
    return [
        _abandoned(row, EndedBy.LOST_WORKER, Failure(None, "WorkerLost", reason), cause=cause)
        for row in rows
        for cause, reason in (_GONE[row.worker_state],)
    ]


def find_overaged(
    *, stale_after: timedelta, grace: timedelta, after: int = 0
) -> Operation[list[AbandonedRun]]:
    """Find the next runs past the maximum age, regardless of their workers' leases."""
    rows = yield statement(
        "find_overaged",
        stale_seconds=stale_after.total_seconds(),
        grace_seconds=grace.total_seconds(),
        after=after,
        limit=AT_ONCE,
    )
    failure = Failure(None, "Stale", f"in progress for more than {stale_after} and long past its timeout")
    return [_abandoned(row, EndedBy.AGE, failure, cause="age") for row in rows]


@dataclass(frozen=True, slots=True, kw_only=True)
class FailRequest:
    """A run that an operator ends by hand."""

    run_id: int
    reason: str
    owners: Owners


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedRun:
    """A run that was ended by hand, and what follows it."""

    id: int
    train: str
    owner: str
    state: str  #: cancelled where an operator had cancelled it before
    worker_id: str | None  #: its fence is no longer valid, and it is told to stop
    next_attempt: int | None


def fail_run(wanted: FailRequest, rules: ReapRules, *, is_bare: bool = False) -> Operation[FailedRun]:
    """Fail a live run, whichever worker holds it; try again if a concurrent claim changed its fence."""
    run_id = wanted.run_id
    for _ in range(_FAIL_ATTEMPTS):
        rows = yield statement("find_live_run", id=run_id, owner=wanted.owners.bound)
        if not rows:
            break
        failure = Failure(None, "FailedByOperator", wanted.reason)
        run = _abandoned(rows[0], EndedBy.HAND, failure, cause="age")
        ended = yield from (end_bare if is_bare else end_abandoned)([run], rules)
        if ended.runs:
            yield statement("notify", payload=f"cancel:{run_id}")
            return (yield from _failed(run))
    raise (yield from _why_not(wanted))


def _failed(run: AbandonedRun) -> Operation[FailedRun]:
    end = run.end
    kept = yield statement("find_ended_job", id=end.id, owner=run.owner)
    following = yield statement("find_next_attempt", id=end.id, owner=run.owner)
    return FailedRun(
        id=end.id,
        train=end.train,
        owner=run.owner,
        state=kept[0].state if kept else end.state,
        worker_id=end.worker_id,
        next_attempt=following[0].id if following else None,
    )


def _why_not(wanted: FailRequest) -> Operation[GandyError]:
    found = yield statement("find_ended_job", id=wanted.run_id, owner=wanted.owners.bound)
    if not found:
        return RunNotFoundError(wanted.run_id)
    state = found[0].state
    return RunNotBegunError(wanted.run_id) if state == "queued" else RunOverError(wanted.run_id, state)


def ask_database() -> Operation[None]:
    """Check that the database answers."""
    yield statement("ping")


def next_lease_end() -> Operation[float | None]:
    """Return the seconds until the first lease expires if it is not renewed."""
    rows = yield statement("next_lease_end")
    return rows[0].seconds if rows else None


def park_manifests(manifest_ids: Iterable[int]) -> Operation[tuple[ParkedJob, ...]]:
    """Write the missing dead letters of manifests at their limit, for example after the limit was lowered."""
    ids = sorted(manifest_ids)
    rows = (yield statement("park_manifests", ids=ids)) if ids else []
    if rows:
        counted = yield statement("count_final_failures", ids=[row.manifest_id for row in rows])
        yield from announce_ends(counted)
    return _parked_in(rows)


def _parked_in(rows: Rows) -> tuple[ParkedJob, ...]:
    return tuple(
        ParkedJob(row.id, row.manifest_id, row.manifest, row.run_id, row.train, row.attempt, row.reason)
        for row in rows
    )


def end_abandoned(runs: Sequence[AbandonedRun], rules: ReapRules) -> Operation[Reaped]:
    """End runs as their own workers would, owner by owner."""
    return (yield from _end_all(runs, rules, keeps_lines=True))


def end_bare(runs: Sequence[AbandonedRun], rules: ReapRules) -> Operation[Reaped]:
    """End runs whose usual end was refused: without a computed delay, and without moving their log lines."""
    bare = [
        run._replace(end=run.end._replace(retry_after=timedelta(0), retry_delay=None, is_bare=True))
        for run in runs
    ]
    return (yield from _end_all(bare, rules, keeps_lines=False))


def _end_all(runs: Sequence[AbandonedRun], rules: ReapRules, *, keeps_lines: bool) -> Operation[Reaped]:
    ended: set[int] = set()
    letters: list[int] = []
    for owner, part in groupby(sorted(runs, key=attrgetter("owner")), key=attrgetter("owner")):
        finish = FinishRules(owner, rules.retention, rules.max_awaiting_letters_per_train, retry=rules.retry)
        result = yield from finish_runs([run.end for run in part], finish)
        yield from tally_at_once(owner, result.measures)
        if keeps_lines:
            yield from settle_logs(result.finished)
        ended.update(result.finished)
        letters += result.letters.values()
    parked = _parked_in((yield statement("read_parked", ids=sorted(letters)))) if letters else ()
    done = [run for run in runs if run.end.id in ended]
    manifest_ids = frozenset(run.end.manifest_id for run in done if run.end.manifest_id is not None)
    return Reaped(len(done), manifest_ids, Counter(run.cause for run in done), parked)


def _abandoned(row: Row, by: EndedBy, failure: Failure, *, cause: RecoveryCause) -> AbandonedRun:
    delay = row.retry_delay_seconds
    end = RunEnd(
        id=row.id,
        train=row.train,
        worker_id=row.worker_id,
        fence=row.fence,
        state=TrainState.FAILED,
        ended_by=by,
        manifest_id=row.manifest_id,
        failure=failure,
        failures=row.failures or 0,
        losses=row.losses or 0,
        lone_losses=row.lone_losses or 0,
        max_retries=row.max_retries,
        is_retried=row.is_retried,
        retry_delay=None if delay is None else as_span(delay),
        unique_key=row.unique_key,
    )
    return AbandonedRun(row.owner, end, cause)


class Refusal(NamedTuple):
    """An entry that cannot become a run, and the database's error."""

    id: int
    error: str


def refuse_entries(refusals: Sequence[Refusal]) -> Operation[None]:
    """Skip entries that cannot become runs: ad-hoc work gets a dead letter, a manifest goes on."""
    if not refusals:
        return
    settled = yield batch("refuse_entries", [refusal._asdict() for refusal in refusals])
    ad_hoc = {row.id for row in settled if row.manifest_id is None}
    yield batch(
        "park_entries",
        [
            {"id": refusal.id, "reason": f"it cannot become a run: {refusal.error}", "evidence": "{}"}
            for refusal in refusals
            if refusal.id in ad_hoc
        ],
    )
    yield statement("release_keys", holder_ids=[row.id for row in settled])
    yield from _promote_behind([row.manifest_id for row in settled if row.manifest_id is not None])


def _promote_behind(manifest_ids: Sequence[int]) -> Operation[None]:
    """Queue the next entries of the refused entries' manifests, without waiting for a manifest's lock.

    Manifests come before entries in the lock order, and entries are locked already: waiting could deadlock. A
    manifest that another transaction holds is left to the repair pass.
    """
    if manifest_ids:
        locked = yield statement("lock_idle_manifests", ids=sorted(manifest_ids))
        yield from promote_and_announce([row.id for row in locked])


def put_back(ids: Sequence[int], worker_id: str) -> Operation[int]:
    """Return claimed runs that have not begun to the queue unchanged, and notify the workers.

    A queued entry of the same manifest with another input steps back for them.
    """
    found = yield statement("find_manifests_of_entries", ids=list(ids))
    manifest_ids = [row.id for row in found]
    if manifest_ids:
        yield statement("lock_manifests", ids=manifest_ids)
    # of all owners: the worker's id guards the rows below
    yield statement("lock_entries", ids=list(ids), owner=ALL_OWNERS.bound)
    if manifest_ids:
        yield from make_way(ids)
    rows = yield statement("put_back_entries", ids=list(ids), worker_id=worker_id)
    cancelled = [row for row in rows if row.is_cancelled]
    if cancelled:
        yield statement("release_keys", holder_ids=[row.id for row in cancelled])
        yield from count_cancelled(cancelled)
    if manifest_ids:
        yield statement("release_entries", manifest_ids=manifest_ids)
        yield from promote_and_announce(manifest_ids)  # for runs that were cancelled or are another worker's
    for owner in {row.owner for row in rows}:
        yield statement("notify", payload=f"work:{owner}")
    return len(rows) - len(cancelled)
