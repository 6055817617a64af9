"""Turning the outcome of a claimed run into its end."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from gandy.admin.job_runner.endings import Ending, describe
from gandy.errors import TrainProcessError
from gandy.model.outcome import Failed
from gandy.model.run import EndedBy, RunEnd
from gandy.rules.aftermath import is_suspect

if TYPE_CHECKING:
    from gandy.admin.job_runner.reports import RunReport
    from gandy.model.outcome import Outcome
    from gandy.model.run import ClaimedRun
    from gandy.train.registry import AnyTrain


def record(
    claimed: ClaimedRun,
    outcome: Outcome[Any],
    *,
    worker_id: str,
    train: AnyTrain | None,
    report: RunReport,
    max_output_bytes: int,
) -> RunEnd:
    """Say how a claimed run ended, with everything that finishing has to know."""
    was_alone = is_suspect(claimed.losses)
    ending = _judged(
        describe(outcome, train, max_output_bytes=max_output_bytes), outcome, was_alone=was_alone
    )
    delay, progress = claimed.retry_delay_seconds, report.progress
    return RunEnd(
        id=claimed.id,
        train=claimed.train,
        worker_id=worker_id,
        fence=claimed.fence,
        state=ending.state,
        ended_by=ending.ended_by,
        manifest_id=claimed.manifest_id,
        output_json=ending.output_json,
        junctions_json=ending.junctions_json,
        failure=ending.failure,
        progress_done=progress.done if progress else None,
        progress_total=progress.total if progress else None,
        keep_for=train.options.keep_for if train else None,
        retry_after=ending.retry_after,
        failures=claimed.failures,
        losses=claimed.losses,
        lone_losses=claimed.lone_losses,
        was_alone=was_alone,
        max_retries=claimed.max_retries,
        is_retried=claimed.is_retried,
        retry_delay=None if delay is None else timedelta(seconds=delay),
        unique_key=claimed.unique_key,
        activations=tuple((each.external_id, each.input_json) for each in report.activations),
    )


def _judged(ending: Ending, outcome: Outcome[Any], *, was_alone: bool) -> Ending:
    """The death of a process that it had to itself tells on the job; any other is an ordinary failure."""
    if was_alone and isinstance(outcome, Failed) and isinstance(outcome.exception, TrainProcessError):
        return ending._replace(ended_by=EndedBy.LOST_WORKER)
    return ending
