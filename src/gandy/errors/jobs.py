"""What can be wrong with a job or a run that was asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gandy.errors.base import GandyError

if TYPE_CHECKING:
    from datetime import timedelta


class JobNotFoundError(GandyError, LookupError):
    """No queue entry and no run has this id."""

    def __init__(self, job_id: int) -> None:
        super().__init__(
            f"job {job_id} is not there: the transaction that made it is not committed, "
            "or it is past its retention"
        )
        self.job_id = job_id


class JobFailedError(GandyError):
    """The job whose result was asked for has failed."""

    def __init__(self, job_id: int, train: str, *, exception: str | None, reason: str | None) -> None:
        super().__init__(
            f"job {job_id} ({train}) failed: {exception or 'unknown'}: {reason or 'no reason'}; "
            f"see: gandy runs show {job_id}"
        )
        self.job_id = job_id
        self.train = train
        self.exception = exception
        self.reason = reason


class JobCancelledError(GandyError):
    """The job whose result was asked for was cancelled."""

    def __init__(self, job_id: int, train: str, *, by: str | None) -> None:
        super().__init__(f"job {job_id} ({train}) was cancelled by {by or 'an operator'}")
        self.job_id = job_id
        self.train = train
        self.by = by


class JobTimeoutError(GandyError, TimeoutError):
    """The job did not end while its result was waited for; it goes on."""

    def __init__(self, job_id: int, train: str, *, waited: timedelta, state: str) -> None:
        super().__init__(f"job {job_id} ({train}) is still {state} after {waited}; it goes on")
        self.job_id = job_id
        self.train = train
        self.waited = waited
        self.state = state


class RunNotFoundError(GandyError, LookupError):
    """No run has this id."""

    def __init__(self, run_id: int) -> None:
        super().__init__(f"there is no run {run_id}; `gandy runs list` shows those that are kept")
        self.run_id = run_id


class EnqueueError(GandyError, ValueError):
    """A job whose options cannot be kept."""

    exit_code = 2

    def __init__(self, train: str, problems: tuple[str, ...]) -> None:
        super().__init__(f"enqueue {train}: {'; '.join(problems)}")
        self.train = train
        self.problems = problems


class CycleStoppedError(GandyError):
    """A cycle of a service was stopped before it had ended; nothing of it is kept."""

    def __init__(self, train: str) -> None:
        super().__init__(f"{train} was stopped before its cycle had ended; the next cycle does its work")
        self.train = train


class RunNotOverError(GandyError):
    """A run that goes on cannot be run again."""

    def __init__(self, run_id: int, state: str) -> None:
        super().__init__(
            f"run {run_id} is {state}; it can be run again once it is over: "
            f"wait, or stop it: gandy runs cancel {run_id}"
        )
        self.run_id = run_id
        self.state = state


class RunOverError(GandyError):
    """A run that has ended cannot be failed."""

    def __init__(self, run_id: int, state: str) -> None:
        super().__init__(f"run {run_id} is over: it is {state}; run it again with: gandy runs rerun {run_id}")
        self.run_id = run_id
        self.state = state


class RunNotBegunError(GandyError):
    """A job that waits in the queue has no run that could be failed."""

    def __init__(self, job_id: int) -> None:
        super().__init__(
            f"job {job_id} waits in the queue and has no run yet; cancel it with: gandy queue cancel {job_id}"
        )
        self.job_id = job_id


class GroupAmbiguousError(GandyError, LookupError):
    """Several applications have a group of this name."""

    exit_code = 2

    def __init__(self, name: str, owners: tuple[str, ...]) -> None:
        super().__init__(f"{' and '.join(owners)} each have a group {name!r}; say which: --owner NAME")
        self.name = name
        self.owners = owners


class WorkerNotFoundError(GandyError, LookupError):
    """No worker has this id, or it runs no more."""

    def __init__(self, worker_id: str) -> None:
        super().__init__(f"no running worker {worker_id!r}; `gandy workers list` shows those that are there")
        self.worker_id = worker_id
