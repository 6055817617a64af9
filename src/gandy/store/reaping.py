"""Runs that take too long, runs that nobody works on any more, and jobs that used up their attempts."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from gandy.model.run import EndedBy, Failure, RunEnd, TrainState
from gandy.settings.bounds import as_span
from gandy.store.finishing import FinishRules, finish_runs
from gandy.store.logs import settle_logs
from gandy.store.statements import statement

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import timedelta

    from gandy.model.run import RetentionSpans
    from gandy.store.statements import Operation, Row, Rows

_AT_ONCE: Final = 1_000


@dataclass(frozen=True, slots=True)
class ReapRules:
    """What ending somebody else's runs needs to know."""

    retention: RetentionSpans
    max_awaiting_letters_per_train: int


@dataclass(frozen=True, slots=True)
class Reaped:
    """How many runs were failed, and whose they were."""

    runs: int = 0
    manifest_ids: frozenset[int] = frozenset()


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


def cancel_timed_out() -> Operation[tuple[int, ...]]:
    """Ask runs past their deadline to stop, and tell their workers."""
    rows = yield statement("cancel_timed_out", limit=_AT_ONCE)
    for row in rows:
        yield statement("notify", payload=f"cancel:{row.id}")
    return tuple(row.id for row in rows)


def reap_stale_pending(stale_after: timedelta, rules: ReapRules) -> Operation[Reaped]:
    """Fail pending runs that nobody will start."""
    found = yield statement("find_stale_pending", stale_seconds=stale_after.total_seconds(), limit=_AT_ONCE)
    reason = f"pending for more than {stale_after} and no live worker can take it"
    return (yield from _fail(found, rules, by=EndedBy.AGE, failure=Failure(None, "NeverStarted", reason)))


def find_silent_workers() -> Operation[tuple[str, ...]]:
    """Name the workers whose leases have run out."""
    return tuple(row.id for row in (yield statement("find_silent_workers")))


def reap_lost(worker_ids: Sequence[str], rules: ReapRules) -> Operation[Reaped]:
    """Fail the runs of workers that are gone; a worker that has just come back is left alone."""
    lost = [row.id for row in (yield statement("mark_workers_lost", ids=list(worker_ids)))]
    found = (yield statement("find_runs_of_workers", ids=lost)) if lost else []
    failure = Failure(None, "WorkerLost", "worker lost: it gave no sign of life until its lease ran out")
    return (yield from _fail(found, rules, by=EndedBy.LOST_WORKER, failure=failure))


def reap_overaged(*, stale_after: timedelta, grace: timedelta, rules: ReapRules) -> Operation[Reaped]:
    """Fail runs that are far too old, whatever their workers' leases say."""
    found = yield statement(
        "find_overaged",
        stale_seconds=stale_after.total_seconds(),
        grace_seconds=grace.total_seconds(),
        limit=_AT_ONCE,
    )
    failure = Failure(None, "Stale", f"in progress for more than {stale_after} and long past its timeout")
    return (yield from _fail(found, rules, by=EndedBy.AGE, failure=failure))


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


def _fail(found: Rows, rules: ReapRules, *, by: EndedBy, failure: Failure) -> Operation[Reaped]:
    """End runs as their owners would have, each owner's apart."""
    ended: set[int] = set()
    manifest_ids: set[int] = set()
    for owner, rows in groupby(sorted(found, key=attrgetter("owner")), key=attrgetter("owner")):
        ends = [_end(row, by, failure) for row in rows]
        finish = FinishRules(owner, rules.retention, rules.max_awaiting_letters_per_train)
        result = yield from finish_runs(ends, finish)
        yield from settle_logs(result.finished)
        ended.update(result.finished)
        manifest_ids.update(
            end.manifest_id for end in ends if end.manifest_id is not None and end.id in result.finished
        )
    return Reaped(len(ended), frozenset(manifest_ids))


def _end(row: Row, by: EndedBy, failure: Failure) -> RunEnd:
    delay = row.retry_delay_seconds
    return RunEnd(
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
