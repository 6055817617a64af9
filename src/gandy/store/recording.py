"""Runs of Gandy's own trains, which never were in the queue."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gandy.store.statements import statement

if TYPE_CHECKING:
    from datetime import timedelta

    from gandy.store.statements import Operation


@dataclass(frozen=True, slots=True, kw_only=True)
class AdministrativeRun:
    """A run that is over when it is first written."""

    owner: str
    train: str
    is_failed: bool
    took: timedelta
    keep_for: timedelta
    output_json: str | None
    junctions_json: str
    failure_junction: str | None = None
    failure_exception: str | None = None
    failure_reason: str | None = None
    stack_trace: str | None = None


def record_run(run: AdministrativeRun) -> Operation[int]:
    """Write the run, and give its id."""
    rows = yield statement(
        "record_administrative_run",
        owner=run.owner,
        name=run.train,
        train_state="failed" if run.is_failed else "completed",
        took_seconds=run.took.total_seconds(),
        keep_seconds=run.keep_for.total_seconds(),
        output=run.output_json,
        junctions=run.junctions_json,
        failure_junction=run.failure_junction,
        failure_exception=run.failure_exception,
        failure_reason=run.failure_reason,
        stack_trace=run.stack_trace,
    )
    run_id: int = rows[0].id
    return run_id
