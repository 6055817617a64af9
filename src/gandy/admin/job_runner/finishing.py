"""Writing the ends of runs, and telling everybody once they are on record."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final, Literal

from gandy.admin.job_runner.runner import HOOKS_BY_STATE, as_recorded
from gandy.events import DeadLettered, RunFinished, WriteFenced
from gandy.model.run import Failure, TrainState
from gandy.store.finishing import finish_runs
from gandy.store.reports import keep_logs, settle_logs
from gandy.train.hooks import HookEvent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gandy.admin.job_runner.runner import FinishedRun
    from gandy.events import EventBus
    from gandy.model.run import RunEnd
    from gandy.store.finishing import FinishResult, FinishRules
    from gandy.store.statements import Operation
    from gandy.train.hooks import HookDelivery, HookName

_STATE_WORDS: Final[dict[TrainState, Literal["completed", "failed", "cancelled"]]] = {
    TrainState.COMPLETED: "completed",
    TrainState.FAILED: "failed",
    TrainState.CANCELLED: "cancelled",
}
_LEAST: Final = Failure(None, "EndNotStored", "its end could not be stored")


def write_ends(taken: Sequence[FinishedRun], rules: FinishRules) -> Operation[FinishResult]:
    """Record ends together with the last lines of their logs."""
    result = yield from finish_runs([finished.end for finished in taken], rules)
    reports = [finished.report for finished in taken if finished.report is not None]
    lines = [line for report in reports for line in report.lines]
    if lines:
        yield from keep_logs(lines, result.finished)
    early = {
        report.run.id: result.finished[report.run.id]
        for report in reports
        if report.has_written_lines and report.run.id in result.finished
    }
    if early:
        yield from settle_logs(early)
    return result


def barer_end(finished: FinishedRun, error: Exception) -> FinishedRun:
    """Give an end that the database refused in the next simpler form; itself where it is as bare as can be.

    First its log lines go, then all that the run brought, then every text of its own.
    """
    end = finished.end
    if finished.report is not None:
        return finished._replace(report=None)
    if end.state is not TrainState.FAILED or _has_extras(end):
        failure = end.failure
        if end.state is TrainState.COMPLETED or failure is None:
            failure = Failure(None, type(error).__name__, f"its end could not be stored: {error}")
        return finished._replace(end=_bare(end, failure))
    if end.failure == _LEAST:
        return finished
    return finished._replace(end=_bare(end, _LEAST))


def _has_extras(end: RunEnd) -> bool:
    extras = (end.output_json, end.junctions_json, end.progress_done, end.progress_total)
    return any(each is not None for each in extras) or bool(end.activations)


def _bare(end: RunEnd, failure: Failure) -> RunEnd:
    return end._replace(
        state=TrainState.FAILED,
        failure=failure,
        output_json=None,
        junctions_json=None,
        progress_done=None,
        progress_total=None,
        retry_after=None,
        activations=(),
    )


def tell_ends(
    taken: Sequence[FinishedRun], result: FinishResult, *, events: EventBus, hooks: HookDelivery
) -> None:
    """Tell what is on record now; an end that was refused is told by the process that has the run."""
    if result.refused:
        events.emit(WriteFenced(statement="end_runs", count=len(result.refused)))
    if events.is_heard or any(hooks.wants(name) for name in HOOKS_BY_STATE.values()):
        for finished in taken:
            if finished.claimed.id in result.finished:
                _tell_end(as_recorded(finished, result), events=events, hooks=hooks)
    if result.parked:
        parked = set(result.parked)
        for finished in taken:
            if finished.claimed.id in parked:
                _tell_parked(as_recorded(finished, result), events=events, hooks=hooks)


def _tell_end(finished: FinishedRun, *, events: EventBus, hooks: HookDelivery) -> None:
    events.emit(_finished_event(finished))
    name = HOOKS_BY_STATE[finished.end.state]
    if hooks.wants(name):
        hooks.deliver(_hook_event(finished, name))


def _tell_parked(finished: FinishedRun, *, events: EventBus, hooks: HookDelivery) -> None:
    claimed, failure = finished.claimed, finished.end.failure
    reason = failure.reason if failure else ""
    events.emit(
        DeadLettered(run_id=claimed.id, train=claimed.train, manifest=claimed.manifest, reason=reason)
    )
    if hooks.wants("dead_lettered"):
        hooks.deliver(_hook_event(finished, "dead_lettered", reason=reason))


def _finished_event(finished: FinishedRun) -> RunFinished:
    claimed, end = finished.claimed, finished.end
    timings = finished.outcome.timings
    last = timings[-1] if timings else None
    return RunFinished(
        run_id=claimed.id,
        train=claimed.train,
        manifest=claimed.manifest,
        attempt=claimed.attempt,
        state=_STATE_WORDS[end.state],
        took=timedelta(microseconds=(last.started_ns + last.duration_ns) // 1000 if last else 0),
        failure=end.failure.exception if end.failure else None,
    )


def _hook_event(finished: FinishedRun, name: HookName, *, reason: str | None = None) -> HookEvent:
    claimed = finished.claimed
    return HookEvent(
        name=name,
        train=claimed.train,
        run_id=claimed.id,
        attempt=claimed.attempt,
        manifest=claimed.manifest,
        outcome=finished.outcome,
        reason=reason,
        masks=finished.masks,
    )
