"""Announce recorded ends: events, and hooks of the application."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final, Literal

from gandy.events import DeadLettered, RunFinished, WriteFenced
from gandy.model.run import TrainState
from gandy.train.hooks import HookEvent
from gandy.work.runner import HOOKS_BY_STATE, as_recorded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gandy.events import EventBus
    from gandy.store.finishing import FinishResult
    from gandy.train.hooks import HookDelivery, HookName
    from gandy.work.runner import FinishedRun


_STATE_WORDS: Final[dict[TrainState, Literal["completed", "failed", "cancelled"]]] = {
    TrainState.COMPLETED: "completed",
    TrainState.FAILED: "failed",
    TrainState.CANCELLED: "cancelled",
}


def announce_ends(
    taken: Sequence[FinishedRun], result: FinishResult, *, events: EventBus, hooks: HookDelivery
) -> None:
    """Announce recorded ends; a refused end is announced by the process that owns the run now."""
    if result.refused:
        events.emit(WriteFenced(statement="end_runs", count=len(result.refused)))
    if events.has_subscribers or any(hooks.wants(name) for name in HOOKS_BY_STATE.values()):
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
