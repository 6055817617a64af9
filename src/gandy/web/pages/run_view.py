"""A run as a picture: its states in time, its junctions as bars."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from gandy.model.run import TrainState
from gandy.web.wording import span

if TYPE_CHECKING:
    from gandy.desk.runs import RunDetail

_THINNEST: Final = 0.6  # of a hundred: what took no time is still seen


@dataclass(frozen=True, slots=True)
class Step:
    """One point of a run's life."""

    name: str
    at: datetime | None
    note: str = ""
    kind: str = "is-done"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One junction, placed on a line of a hundred."""

    junction: str
    started: timedelta
    took: timedelta
    left: float
    width: float
    is_failed: bool


def timeline_of(run: RunDetail) -> list[Step]:
    """Put what happened to a run in order."""
    steps = [] if run.due_at is None else [Step("Due", run.due_at)]
    steps.append(Step("Queued" if run.state == TrainState.PENDING else "Dispatched", run.created_at))
    if run.state != TrainState.PENDING:
        waited = run.start_time - (run.due_at or run.created_at)
        steps.append(Step("Started", run.start_time, f"after {span(max(waited, timedelta(0)))}"))
    if run.end_time is None:
        steps.append(Step("Ends", None, "still going on", ""))
    else:
        note = f"took {span(run.took)}"
        if run.cancellation_reason:
            note += f"; cancelled by {run.cancellation_reason}"
        steps.append(Step(run.state.capitalize(), run.end_time, note, f"is-{run.state}"))
    return steps


def waterfall_of(run: RunDetail) -> list[Bar]:
    """Place the junctions one below the other, each where it began."""
    whole = max((each.started + each.took for each in run.junctions), default=timedelta(0))
    whole = max(whole, timedelta(microseconds=1))
    return [
        Bar(
            junction=each.junction,
            started=each.started,
            took=each.took,
            left=round(min(100 * (each.started / whole), 100 - _THINNEST), 2),
            width=round(max(100 * (each.took / whole), _THINNEST), 2),
            is_failed=each.junction == run.failure_junction,
        )
        for each in run.junctions
    ]


def record_of(run: RunDetail) -> list[tuple[str, object]]:
    """List the facts that the page does not show elsewhere."""
    return [
        ("Run", run.id),
        ("Owner", run.owner),
        ("Worker", run.worker_id),
        ("Kept until", run.keep_until),
        ("Cancellation", run.cancellation_reason),
    ]
