"""Ending runs from outside: reaped, or put back."""

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
from gandy.store.reports import settle_logs
from gandy.store.statements import batch, statement
from gandy.store.waiting import make_way, promote_and_announce

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from gandy.errors import GandyError
    from gandy.events import RecoveryCause
    from gandy.model.owners import Owners
    from gandy.model.run import RetentionSpans
    from gandy.settings import RetrySettings
    from gandy.store.statements import Operation, Row


AT_ONCE: Final = 1_000
_FAIL_ATTEMPTS: Final = 5
#: What a worker's row says of it, or that there is none: the cause to count, and the reason to record.
_GONE: Final[Mapping[str, tuple[RecoveryCause, str]]] = {
    "lost": ("worker_lost", "worker lost: it gave no sign of life until its lease ran out"),
    "stopped": ("worker_stopped", "worker lost: it stopped and left this run in progress"),
    "unknown": ("worker_unknown", "worker lost: the database does not know the worker that held this run"),
}


@dataclass(frozen=True, slots=True)
class ReapRules:
    """What ending the runs of others needs to know."""

    retention: RetentionSpans
    max_awaiting_letters_per_train: int
    retry: RetrySettings = USUAL


class AbandonedRun(NamedTuple):
    """A run that is to be ended for its owner, and the cause."""

    owner: str
    end: RunEnd
    cause: RecoveryCause


@dataclass(frozen=True, slots=True)
class Reaped:
    """How many runs were failed, of which manifests, and why they had to be."""

    runs: int = 0
    manifest_ids: frozenset[int] = frozenset()
    causes: Mapping[RecoveryCause, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ParkedManifest:
    """A manifest that waits for a person."""

    letter_id: int
    manifest_id: int
    manifest: str
    run_id: int
    train: str
    attempt: int
    reason: str


def try_lock_recovery() -> Operation[bool]:
    """Take the lock that saves the other servers the work; no server ever waits for it."""
    return bool((yield statement("try_lock", name="gandy_recovery"))[0].is_held)


def cancel_timed_out() -> Operation[tuple[int, ...]]:
    """Ask runs past their deadline to stop, and tell their workers."""
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
    """Name the workers whose leases have run out."""
    return tuple(row.id for row in (yield statement("find_silent_workers")))


def mark_lost(worker_ids: Sequence[str]) -> Operation[int]:
    """Mark silent workers as lost; one that has just come back, or comes back now, is left alone."""
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
    """Find the next runs that are far too old, whatever their workers' leases say."""
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
    worker_id: str | None  #: it can write nothing more, and is told to stop
    next_attempt: int | None


def fail_run(wanted: FailRequest, rules: ReapRules, *, is_bare: bool = False) -> Operation[FailedRun]:
    """End a run that is not over, whatever process holds it; a claim at this very moment is read again."""
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
    """Find out whether the database answers."""
    yield statement("ping")


def next_lease_end() -> Operation[float | None]:
    """Say in how many seconds the first lease runs out if it is not renewed."""
    rows = yield statement("next_lease_end")
    return rows[0].seconds if rows else None


def park_manifests(manifest_ids: Iterable[int]) -> Operation[tuple[ParkedManifest, ...]]:
    """Write the letters of manifests that used up their attempts."""
    ids = sorted(manifest_ids)
    rows = (yield statement("park_manifests", ids=ids)) if ids else []
    return tuple(
        ParkedManifest(row.id, row.manifest_id, row.manifest, row.run_id, row.train, row.attempt, row.reason)
        for row in rows
    )


def end_abandoned(runs: Sequence[AbandonedRun], rules: ReapRules) -> Operation[Reaped]:
    """End runs as their owners would have, each owner's apart."""
    return (yield from _end_all(runs, rules, keeps_lines=True))


def end_bare(runs: Sequence[AbandonedRun], rules: ReapRules) -> Operation[Reaped]:
    """End runs whose usual end was refused: no computed delay, and their lines stay where they are."""
    bare = [run._replace(end=run.end._replace(retry_after=timedelta(0), retry_delay=None)) for run in runs]
    return (yield from _end_all(bare, rules, keeps_lines=False))


def _end_all(runs: Sequence[AbandonedRun], rules: ReapRules, *, keeps_lines: bool) -> Operation[Reaped]:
    ended: set[int] = set()
    for owner, part in groupby(sorted(runs, key=attrgetter("owner")), key=attrgetter("owner")):
        finish = FinishRules(owner, rules.retention, rules.max_awaiting_letters_per_train, retry=rules.retry)
        result = yield from finish_runs([run.end for run in part], finish)
        if keeps_lines:
            yield from settle_logs(result.finished)
        ended.update(result.finished)
    done = [run for run in runs if run.end.id in ended]
    manifest_ids = frozenset(run.end.manifest_id for run in done if run.end.manifest_id is not None)
    return Reaped(len(done), manifest_ids, Counter(run.cause for run in done))


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
