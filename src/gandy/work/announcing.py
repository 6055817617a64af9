"""Announce recorded ends: events, and hooks of the application."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import TYPE_CHECKING, Final, Literal

from gandy.events import DeadLettered, RunFinished, WriteFenced
from gandy.model.run import TrainState
from gandy.settings.files import one_line
from gandy.train.hooks import HookEvent
from gandy.work.runner import HOOKS_BY_STATE, as_recorded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gandy.events import EventBus
    from gandy.store.finishing import FinishResult
    from gandy.train.hooks import HookDelivery, HookName
    from gandy.work.runner import FinishedRun


_log = logging.getLogger("gandy.worker")

MOST_FAILURES: Final = 5  #: logged of one set of ends, which can be a thousand
MOST_CHARACTERS: Final = 500
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
    _log_failures(taken, result)
    if events.has_subscribers or any(hooks.wants(name) for name in HOOKS_BY_STATE.values()):
        for finished in taken:
            if finished.claimed.id in result.finished:
                _tell_end(as_recorded(finished, result), events=events, hooks=hooks)
    if result.parked:
        parked = set(result.parked)
        for finished in taken:
            if finished.claimed.id in parked:
                _tell_parked(as_recorded(finished, result), events=events, hooks=hooks)


def _log_failures(taken: Sequence[FinishedRun], result: FinishResult) -> None:
    """Log the failures of a set, the first ones with their reasons."""
    refused = result.refused_activations
    failed = [
        each
        for each in taken
        if (each.end.state is TrainState.FAILED or each.claimed.id in refused)
        and each.claimed.id in result.finished
    ]
    for each in failed[:MOST_FAILURES]:
        end = as_recorded(each, result).end
        if end.state is TrainState.FAILED and end.failure is not None:
            parked = "; it is a dead letter now" if each.claimed.id in result.letters else ""
            said = _said(f"{end.failure.exception}: {end.failure.reason}")
            _log.warning("run %d of %s failed: %s%s", each.claimed.id, each.claimed.train, said, parked)
    if len(failed) > MOST_FAILURES:
        _log.warning("%d more runs failed", len(failed) - MOST_FAILURES)


def _said(reason: str) -> str:
    """Return a reason on one line, cut to its most characters."""
    return one_line(reason[:MOST_CHARACTERS])[:MOST_CHARACTERS]


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
