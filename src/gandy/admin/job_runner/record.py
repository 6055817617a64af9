"""Turning what is recorded of a claimed run into its end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gandy.errors import TrainProcessError
from gandy.model.run import EndedBy, Failed, RunEnd
from gandy.settings.bounds import as_span

if TYPE_CHECKING:
    from datetime import timedelta

    from gandy.admin.job_runner.endings import Ending
    from gandy.admin.job_runner.reports import RunReport
    from gandy.model.run import ClaimedRun, Outcome


def record(
    claimed: ClaimedRun,
    ending: Ending,
    *,
    worker_id: str,
    keep_for: timedelta | None,
    report: RunReport | None,
    was_alone: bool,
) -> RunEnd:
    """Say how a claimed run ended, with everything that finishing has to know.

    `was_alone` says that it was isolated in a process of its own.
    """
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
        keep_for,
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
    if ending.gives_up:
        end = end._replace(gives_up=True)
    return end if report is None else _with_report(end, report)


def _with_report(end: RunEnd, report: RunReport) -> RunEnd:
    """Add what the run said of itself."""
    progress = report.progress
    return end._replace(
        progress_done=progress.done if progress else None,
        progress_total=progress.total if progress else None,
        activations=tuple(report.activations),
    )


def judged(ending: Ending, outcome: Outcome[Any]) -> Ending:
    """The death of the process that a set of suspects ran in is a loss of each run that was not over."""
    error = outcome.exception if isinstance(outcome, Failed) else None
    if type(error) is TrainProcessError and error.process_exit_code is not None:
        return ending._replace(ended_by=EndedBy.LOST_WORKER)
    return ending
