"""Turning the outcome of a claimed run into its end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gandy.admin.job_runner.endings import Ending, describe
from gandy.errors import TrainProcessError
from gandy.model.outcome import Failed
from gandy.model.run import EndedBy, RunEnd
from gandy.rules.aftermath import is_suspect
from gandy.settings.bounds import as_span

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
    report: RunReport | None,
    max_output_bytes: int,
) -> RunEnd:
    """Say how a claimed run ended, with everything that finishing has to know."""
    was_alone = is_suspect(claimed.losses)
    ending = describe(outcome, train, max_output_bytes=max_output_bytes)
    if was_alone:
        ending = _judged(ending, outcome)
    delay = claimed.retry_delay_seconds
    end = RunEnd(  # by position: thousands of them are made each second
        claimed.id,
        claimed.train,
        worker_id,
        claimed.fence,
        ending.state,
        ending.ended_by,
        claimed.manifest_id,
        ending.output_json,
        ending.junctions_json,
        ending.failure,
        train.options.keep_for if train else None,
        ending.retry_after,
        claimed.failures,
        claimed.losses,
        claimed.lone_losses,
        was_alone,
        claimed.max_retries,
        claimed.is_retried,
        None if delay is None else as_span(delay),
        claimed.unique_key,
    )
    return end if report is None else _with_report(end, report)


def _with_report(end: RunEnd, report: RunReport) -> RunEnd:
    """Add what the run said of itself."""
    progress = report.progress
    return end._replace(
        progress_done=progress.done if progress else None,
        progress_total=progress.total if progress else None,
        activations=tuple((each.external_id, each.input_json) for each in report.activations),
    )


def _judged(ending: Ending, outcome: Outcome[Any]) -> Ending:
    """The death of a process that it had to itself tells on the job; any other is an ordinary failure."""
    if isinstance(outcome, Failed) and isinstance(outcome.exception, TrainProcessError):
        return ending._replace(ended_by=EndedBy.LOST_WORKER)
    return ending
