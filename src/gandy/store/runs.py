"""Runs: starting, delivering and finding them, and the rules of their failures."""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Final, NamedTuple

from gandy.model.run import CancelledBy, TrainState
from gandy.model.schedule import Manual
from gandy.rules.ending import JobPolicy
from gandy.rules.recurring import Rhythm
from gandy.settings.bounds import as_span
from gandy.store.dispatching import FEW, NOTHING, ClaimTerms, Dispatched, claimed_run, dispatch, started_run
from gandy.store.manifests import exclusions_of, schedule_of
from gandy.store.statements import batch, statement

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from gandy.model.owners import Owners
    from gandy.model.run import ClaimedRun
    from gandy.settings.bounds import Timeout
    from gandy.store.dispatching import DispatchRequest
    from gandy.store.statements import Operation, Row, Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStart:
    """A run that is started directly, without a queue entry."""

    owner: str
    train: str
    input_json: str
    worker_id: str
    timeout: Timeout
    parent_id: int | None = None


class StartedRun(NamedTuple):
    """The claim of a run that has just begun."""

    id: int
    fence: int
    started_at: datetime


class ProgressRow(NamedTuple):
    """The progress of a run."""

    run_id: int
    fence: int
    done: int | None
    total: int | None
    junction: str | None
    ignores_cancellation: bool = False  #: it continues although its cancellation was requested


class EndedRun(NamedTuple):
    """Where history has a run; without partitions, there are no buckets."""

    id: int | None
    bucket: str | None


_NO_RUN: Final = EndedRun(None, None)
_NO_RUNS: Final[Mapping[int, EndedRun]] = {}


@dataclass(frozen=True, slots=True)
class JobView:
    """The state of a job; the other fields are set once it has ended."""

    id: int
    train: str
    state: str
    output: str | None = None
    failure_exception: str | None = None
    failure_reason: str | None = None
    cancellation_reason: str | None = None


def start_run(start: RunStart) -> Operation[StartedRun]:
    """Insert a run that is in progress at once."""
    rows = yield statement(
        "start_run",
        owner=start.owner,
        name=start.train,
        input=start.input_json,
        worker_id=start.worker_id,
        timeout_seconds=start.timeout.total_seconds(),
        parent_id=start.parent_id,
    )
    return StartedRun(rows[0].id, rows[0].fence, rows[0].started_at)


def report_progress(rows: Sequence[ProgressRow]) -> Operation[None]:
    """Write the progress and the current junction of runs."""
    yield batch("report_progress", [row._asdict() for row in sorted(rows, key=attrgetter("run_id"))])


def read_cancellations(ids: Sequence[int]) -> Operation[Mapping[int, CancelledBy]]:
    """Return which of these runs must stop, and why; includes runs that another process has ended."""
    rows = (yield statement("read_cancellations", ids=list(ids))) if ids else []
    return {row.id: CancelledBy(row.cancellation_reason or CancelledBy.OPERATOR) for row in rows}


def find_job(job_id: int, owners: Owners) -> Operation[JobView | None]:
    """Find a job in the queue, running, or in history; follow a failed attempt to the next one."""
    live = yield statement("find_live_job", id=job_id, owner=owners.bound)
    if live and live[0].state != TrainState.CANCELLED:
        return JobView(live[0].id, live[0].train, live[0].state)
    kept = yield statement("load_run", id=job_id, owner=owners.bound)
    if not kept:
        return JobView(live[0].id, live[0].train, live[0].state) if live else None
    run = kept[0]
    if run.state == TrainState.FAILED:
        following = yield statement("find_next_attempt", id=job_id, owner=owners.bound)
        if following:
            return (yield from find_job(following[0].id, owners))
    return JobView(
        run.id,
        run.train,
        run.state,
        output=run.output,
        failure_exception=run.failure_exception,
        failure_reason=run.failure_reason,
        cancellation_reason=run.cancellation_reason,
    )


def load_run(run_id: int, owners: Owners) -> Operation[Row | None]:
    """Read one run."""
    rows = yield statement("load_run", id=run_id, owner=owners.bound)
    return rows[0] if rows else None


#: A summary looks at this many runs that have ended, of all applications, the newest.
SUMMARISED: Final = 100_000


def summarise_runs(owner: str, since: datetime) -> Operation[Rows]:
    """Count an application's newest runs since an instant, by train and state."""
    yield statement("keep_order")
    return (yield statement("summarise_runs", owner=owner, since=since, searched=SUMMARISED))


@dataclass(frozen=True, slots=True)
class Delivery:
    """A run to start in another engine; `run_id` is all that the engine needs."""

    run_id: int
    external_id: str
    train: str
    input_json: str | None
    attempt: int
    failed_deliveries: int


@dataclass(frozen=True, slots=True)
class DeliveryNote:
    """The outcome of a delivery; after an error it is retried once the delay is over."""

    run_id: int
    error: str | None = None
    delay_seconds: float = 0.0


def exchange_deliveries(
    notes: Sequence[DeliveryNote], *, owner: str, limit: int, reserve_seconds: float
) -> Operation[tuple[Delivery, ...]]:
    """Record the outcomes of deliveries, and take the next runs to deliver.

    Taken runs are reserved: no other process delivers them before the reservation expires.
    """
    yield batch(
        "note_deliveries",
        [
            {"id": note.run_id, "error": note.error, "delay_seconds": note.delay_seconds}
            for note in sorted(notes, key=attrgetter("run_id"))
        ],
    )
    if not limit:
        return ()
    taken = yield statement("take_undelivered", owner=owner, limit=limit, reserve_seconds=reserve_seconds)
    return tuple(
        Delivery(row.id, row.external_id, row.train, row.input, row.attempt, row.delivery_attempts)
        for row in sorted(taken, key=lambda row: (-row.rank, row.id))
    )


def count_pending(owner: str, limit: int) -> Operation[int]:
    """Count the runs that have not begun, up to a limit."""
    rows = yield statement("count_pending", owner=owner, limit=limit)
    return int(rows[0].pending)


def claim_delivered(
    run_id: int, *, worker_id: str, default_timeout_seconds: float
) -> Operation[ClaimedRun | None]:
    """Start a delivered run; None if it was already started."""
    rows = yield statement(
        "claim_delivered", id=run_id, worker_id=worker_id, default_timeout_seconds=default_timeout_seconds
    )
    return started_run(rows[0]) if rows else None


def read_policies(
    manifest_ids: Iterable[int], failed: Mapping[int, EndedRun] = _NO_RUNS
) -> Operation[Mapping[int, JobPolicy]]:
    """Read the retry policies of manifests; `failed` has the runs that have just failed, by manifest."""
    ids = sorted(set(manifest_ids))
    runs = [failed.get(manifest_id, _NO_RUN) for manifest_id in ids]
    rows = yield batch(
        "read_failing",
        [
            {"manifest_id": manifest_id, "run_id": run.id, "bucket": run.bucket}
            for manifest_id, run in zip(ids, runs, strict=True)
        ],
    )
    return {row.id: _policy(row) for row in rows}


def _policy(row: Row) -> JobPolicy:
    delay = row.retry_delay_seconds
    return JobPolicy(
        failures=row.failure_count,
        max_retries=row.max_retries,
        is_retried=row.is_retried,
        retry_delay=None if delay is None else as_span(delay),
        rhythm=_rhythm(row),
    )


def _rhythm(row: Row) -> Rhythm:
    is_first = row.failure_count == 0 or row.first_failed_at is None
    try:
        schedule = schedule_of(
            row.schedule_type, row.cron_expression, row.interval_seconds, row.timezone, None
        )
        exclusions = exclusions_of(row.exclusions)
    except Exception:  # noqa: BLE001 an unreadable schedule must not block the retry
        schedule, exclusions = Manual(), ()
    return Rhythm(
        schedule=schedule,
        exclusions=exclusions,
        cursor=row.next_scheduled_run,
        now=row.now,
        failing_since=row.now if is_first else row.first_failed_at,
        is_own_input=bool(row.is_own_input),
        is_on=bool(row.is_on),
    )


_MOST_SEEN: Final = 32  # pairs of group and train with ready work that the statement looks at
_MOST_LOCKED: Final = 256  # entries that it locks to choose from them


def fits_plainly(request: DispatchRequest, caps: Sequence[int], *, is_woken: bool) -> bool:
    """Return whether to try one statement: for a worker that is woken, and for a few more runs."""
    if caps:  # a claim beyond the free slots weighs what to hold under a cap
        return request.limit <= min(FEW, request.free_slots or 0)
    return is_woken or request.limit <= FEW


def claim_plain(request: DispatchRequest, caps: Sequence[int] = ()) -> Operation[Dispatched]:
    """Claim by one statement, if no chosen entry needs more; `caps` are groups to lock before."""
    locked = {row.id for row in (yield statement("lock_capped_groups", ids=list(caps)))} if caps else set()
    if len(locked) < len(caps):
        return NOTHING
    rows = yield statement(
        "claim_plain",
        owner=request.owner,
        trains=list(request.trains),
        limit=request.limit,
        turn=request.turn,
        worker_id=request.worker_id,
        default_timeout_seconds=request.default_timeout_seconds,
        locked=list(caps),
        most_seen=_MOST_SEEN,
        most_locked=_MOST_LOCKED,
    )
    if not rows:
        return NOTHING
    start = ClaimTerms(rows[0].fence, rows[0].started_at, request.default_timeout_seconds)
    in_order = sorted(rows, key=lambda row: (-row.rank, row.id))
    runs = [claimed_run(row, start, None) for row in in_order]
    if locked:
        runs = [run._replace(is_capped=True) if run.group_id in locked else run for run in runs]
    is_contended = rows[0].is_contended and len(rows) < request.limit
    return Dispatched(tuple(runs), is_contended=is_contended, caps=tuple(caps))


def claim_shortly(request: DispatchRequest, caps: Sequence[int] | None) -> Operation[Dispatched]:
    """Claim by one statement if the caps are known, else, or if that takes nothing, in the usual way."""
    if caps is not None:
        found = yield from claim_plain(request, caps)
        if found.runs:
            return found
    return (yield from dispatch(request))
