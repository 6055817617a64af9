"""Errors of jobs, manifests, schedules and dead letters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gandy.errors.base import GandyError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime, timedelta


class JobNotFoundError(GandyError, LookupError):
    """No queue entry and no run has this id."""

    def __init__(self, job_id: int) -> None:
        super().__init__(
            f"there is no job {job_id}: the transaction that made it is not committed, "
            "or its retention has ended"
        )
        self.job_id = job_id


class JobFailedError(GandyError):
    """The awaited job has failed."""

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
    """The awaited job was cancelled."""

    def __init__(self, job_id: int, train: str, *, by: str | None) -> None:
        super().__init__(f"job {job_id} ({train}) was cancelled by {by or 'an operator'}")
        self.job_id = job_id
        self.train = train
        self.by = by


class JobTimeoutError(GandyError, TimeoutError):
    """The wait for a result timed out; the job continues."""

    def __init__(self, job_id: int, train: str, *, waited: timedelta, state: str) -> None:
        super().__init__(f"job {job_id} ({train}) is still {state} after {waited}; it continues")
        self.job_id = job_id
        self.train = train
        self.waited = waited
        self.state = state


class RunNotFoundError(GandyError, LookupError):
    """No run has this id."""

    def __init__(self, run_id: int) -> None:
        super().__init__(f"there is no run {run_id}; `gandy runs list` shows the stored runs")
        self.run_id = run_id


class EnqueueError(GandyError, ValueError):
    """A job with invalid options."""

    exit_code = 2

    def __init__(self, train: str, problems: tuple[str, ...]) -> None:
        super().__init__(f"enqueue {train}: {'; '.join(problems)}")
        self.train = train
        self.problems = problems


class CycleStoppedError(GandyError):
    """A cycle of a service was stopped before its end and rolled back."""

    def __init__(self, train: str) -> None:
        super().__init__(f"{train} was stopped before its cycle had ended; the next cycle does its work")
        self.train = train


class RunNotOverError(GandyError):
    """A run in progress cannot be run again."""

    def __init__(self, run_id: int, state: str) -> None:
        super().__init__(
            f"run {run_id} is {state}; it can be run again after its end: "
            f"wait, or cancel it: gandy runs cancel {run_id}"
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
    """A queued job has no run that could be failed."""

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
    """No running worker has this id."""

    def __init__(self, worker_id: str) -> None:
        super().__init__(f"no running worker {worker_id!r}; `gandy workers list` shows all workers")
        self.worker_id = worker_id


class ManifestNotFoundError(GandyError, LookupError):
    """No manifest has this external id."""

    def __init__(self, external_id: str) -> None:
        super().__init__(f"no manifest {external_id!r}; `gandy manifests list` shows all manifests")
        self.external_id = external_id


class GroupNotFoundError(GandyError, LookupError):
    """No group of this application has this name."""

    def __init__(self, owner: str, name: str) -> None:
        super().__init__(f"{owner!r} has no group {name!r}; `gandy groups list` shows all groups")
        self.owner = owner
        self.name = name


class ManifestAmbiguousError(GandyError, LookupError):
    """Several applications have a manifest with this external id."""

    exit_code = 2

    def __init__(self, external_id: str, owners: tuple[str, ...]) -> None:
        super().__init__(
            f"{' and '.join(owners)} each have a manifest {external_id!r}; say which: --owner NAME"
        )
        self.external_id = external_id
        self.owners = owners


class OneOwnerNeededError(GandyError):
    """A command for one application was called for all owners."""

    exit_code = 2

    def __init__(self, what: str) -> None:
        super().__init__(f"{what} belongs to one application: pass --owner NAME instead of --all-owners")
        self.what = what


class ParentNotFoundError(GandyError):
    """A dependent whose parent is neither declared nor stored."""

    def __init__(self, external_id: str, parent: str) -> None:
        super().__init__(
            f"manifest {external_id!r} depends on {parent!r}, which does not exist; declare it first"
        )
        self.external_id = external_id
        self.parent = parent


class ManifestDeclaredError(GandyError):
    """A manifest that is declared in code cannot be added or removed at run time."""

    def __init__(self, external_id: str) -> None:
        super().__init__(
            f"manifest {external_id!r} is declared in the application's code: change it there, or disable it"
        )
        self.external_id = external_id


class ManifestInUseError(GandyError):
    """A manifest that cannot be removed at present."""

    def __init__(self, external_id: str, problem: str) -> None:
        super().__init__(f"manifest {external_id!r} cannot be removed: {problem}")
        self.external_id = external_id
        self.problem = problem


class TriggerInputConflictError(GandyError):
    """A trigger with an input while an entry with another input is queued."""

    def __init__(self, external_id: str, entry_id: int) -> None:
        super().__init__(
            f"manifest {external_id!r} is already queued as entry {entry_id} with another input; "
            f"let it run, or cancel it: gandy queue cancel {entry_id}"
        )
        self.external_id = external_id
        self.entry_id = entry_id


class OverrideError(GandyError, ValueError):
    """A value that cannot override the declared one."""

    exit_code = 2

    def __init__(self, subject: str, problem: str) -> None:
        super().__init__(f"{subject}: {problem}")
        self.subject = subject
        self.problem = problem


class ScheduleError(GandyError, ValueError):
    """An invalid schedule; the subclasses name the part."""

    exit_code = 2


class CronExpressionError(ScheduleError):
    """A cron expression that is invalid or never matches."""

    def __init__(self, expression: str, problem: str) -> None:
        super().__init__(
            f"cron expression {expression!r}: {problem}. Write five fields (minute hour day month weekday), "
            'or six with leading seconds, such as "30 3 * * mon-fri"'
        )
        self.expression = expression
        self.problem = problem


class TimezoneNotFoundError(ScheduleError):
    """A time zone that is not in the machine's zone database."""

    def __init__(self, timezone: str) -> None:
        super().__init__(
            f"time zone {timezone!r} is unknown here. Use an IANA name such as 'Europe/Berlin' or 'UTC'; "
            "if the name is right, update the tzdata package"
        )
        self.timezone = timezone


class IntervalError(ScheduleError):
    """An interval that is too short or too long."""

    def __init__(self, every: timedelta | str, problem: str) -> None:
        said = every if isinstance(every, str) else f"an interval of {every}"
        super().__init__(f"{said} {problem}. Use something like every(minutes=5)")
        self.every = every
        self.problem = problem


class OnceError(ScheduleError):
    """A one-off schedule without an instant, or with two."""

    def __init__(self, problem: str) -> None:
        super().__init__(
            f"a job that runs once {problem}. Give either at=<aware datetime> or delay=<timedelta>"
        )
        self.problem = problem


class ExclusionError(ScheduleError):
    """An exclusion that is invalid or excludes everything."""

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__(f"exclusion: {problem}. {remedy}")
        self.problem = problem
        self.remedy = remedy


class ExcludedInstantError(ScheduleError):
    """A one-off job whose only instant is excluded."""

    def __init__(self, at: datetime, timezone: str) -> None:
        super().__init__(
            f"{at.isoformat()} is excluded in {timezone}, so this job would never run. "
            "Choose another instant or drop the exclusion"
        )
        self.at = at
        self.timezone = timezone


class DependencyCycleError(ScheduleError):
    """Manifests that depend on each other."""

    def __init__(self, cycle: Sequence[str]) -> None:
        super().__init__(
            f"these manifests depend on each other: {' -> '.join(cycle)}. Remove one of these dependencies"
        )
        self.cycle = tuple(cycle)


class DeadLetterNotFoundError(GandyError, LookupError):
    """No dead letter has this id."""

    def __init__(self, letter_id: int) -> None:
        super().__init__(f"there is no dead letter {letter_id}; `gandy dead-letters list` shows all of them")
        self.letter_id = letter_id
