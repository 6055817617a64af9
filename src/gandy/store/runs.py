"""Runs outside the queue: started here and now, followed, read."""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from gandy.model.run import CancelledBy, TrainState
from gandy.store.statements import batch, statement

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from gandy.model.owners import Owners
    from gandy.settings.bounds import Timeout
    from gandy.store.statements import Operation, Row, Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStart:
    """A run that somebody starts without a queue entry."""

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
    """How far a run has come."""

    run_id: int
    fence: int
    done: int | None
    total: int | None
    junction: str | None
    ignores_cancellation: bool = False  #: it was asked to stop and goes on all the same


@dataclass(frozen=True, slots=True)
class JobView:
    """Where a job stands; the rest is known once it has ended."""

    id: int
    train: str
    state: str
    output: str | None = None
    failure_exception: str | None = None
    failure_reason: str | None = None
    cancellation_reason: str | None = None


def start_run(start: RunStart) -> Operation[StartedRun]:
    """Write a run that is in progress at once."""
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
    """Write how far runs have come, and which junction they are in."""
    yield batch("report_progress", [row._asdict() for row in sorted(rows, key=attrgetter("run_id"))])


def read_cancellations(ids: Sequence[int]) -> Operation[Mapping[int, CancelledBy]]:
    """Find which of these runs shall end, and why; one that others ended meanwhile shall end too."""
    rows = (yield statement("read_cancellations", ids=list(ids))) if ids else []
    return {row.id: CancelledBy(row.cancellation_reason or CancelledBy.OPERATOR) for row in rows}


def find_job(job_id: int, owners: Owners) -> Operation[JobView | None]:
    """Find a job where it stands: in the queue, running, or kept as a run; a failed attempt is followed."""
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


def summarise_runs(owner: str, since: datetime) -> Operation[Rows]:
    """Count an application's runs since an instant, by train and state."""
    return (yield statement("summarise_runs", owner=owner, since=since))
