"""Errors of jobs, manifests, schedules and dead letters."""

from __future__ import annotations

from dataclasses import KW_ONLY  # noqa: TC003 - the decorator needs it at run time
from typing import TYPE_CHECKING

from gandy.errors.base import GandyError, message

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime, timedelta


@message(
    "there is no job {job_id}: the transaction that made it is not committed, or its retention has ended"
)
class JobNotFoundError(GandyError, LookupError):
    """No queue entry and no run has this id."""

    job_id: int


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


@message("job {job_id} ({train}) is still {state} after {waited}; it continues")
class JobTimeoutError(GandyError, TimeoutError):
    """The wait for a result timed out; the job continues."""

    job_id: int
    train: str
    _: KW_ONLY
    waited: timedelta
    state: str


@message("job {job_id} has left the queue, it is {state}; see `gandy runs show {job_id}`")
class EntryOverError(GandyError, LookupError):
    """The entry is gone: its run has ended."""

    job_id: int
    state: str


@message("there is no run {run_id}; `gandy runs list` shows the stored runs")
class RunNotFoundError(GandyError, LookupError):
    """No run has this id."""

    run_id: int


@message("run {run_id} has not started, its entry is {status}; see `gandy queue explain {run_id}`")
class RunNotStartedError(RunNotFoundError):
    """The id is that of an entry that is no run yet."""

    status: str


class EnqueueError(GandyError, ValueError):
    """A job with invalid options."""

    exit_code = 2

    def __init__(self, train: str, problems: tuple[str, ...]) -> None:
        super().__init__(f"enqueue {train}: {'; '.join(problems)}")
        self.train = train
        self.problems = problems


@message("{train} was stopped before its cycle had ended; the next cycle does its work")
class CycleStoppedError(GandyError):
    """A cycle of a service was stopped before its end and rolled back."""

    train: str


@message(
    "run {run_id} is {state}; it can be run again after its end: "
    "wait, or cancel it: gandy runs cancel {run_id}"
)
class RunNotOverError(GandyError):
    """A run in progress cannot be run again."""

    run_id: int
    state: str


@message("run {run_id} is over: it is {state}; run it again with: gandy runs rerun {run_id}")
class RunOverError(GandyError):
    """A run that has ended cannot be failed."""

    run_id: int
    state: str


@message("job {job_id} waits in the queue and has no run yet; cancel it with: gandy queue cancel {job_id}")
class RunNotBegunError(GandyError):
    """A queued job has no run that could be failed."""

    job_id: int


class GroupAmbiguousError(GandyError, LookupError):
    """Several applications have a group of this name."""

    exit_code = 2

    def __init__(self, name: str, owners: tuple[str, ...]) -> None:
        super().__init__(f"{' and '.join(owners)} each have a group {name!r}; say which: --owner NAME")
        self.name = name
        self.owners = owners


@message("no running worker {worker_id!r}; `gandy workers list` shows all workers")
class WorkerNotFoundError(GandyError, LookupError):
    """No running worker has this id."""

    worker_id: str


@message("no manifest {external_id!r}; `gandy manifests list` shows all manifests")
class ManifestNotFoundError(GandyError, LookupError):
    """No manifest has this external id."""

    external_id: str


@message("{owner!r} has no group {name!r}; `gandy groups list` shows all groups")
class GroupNotFoundError(GandyError, LookupError):
    """No group of this application has this name."""

    owner: str
    name: str


class ManifestAmbiguousError(GandyError, LookupError):
    """Several applications have a manifest with this external id."""

    exit_code = 2

    def __init__(self, external_id: str, owners: tuple[str, ...]) -> None:
        super().__init__(
            f"{' and '.join(owners)} each have a manifest {external_id!r}; say which: --owner NAME"
        )
        self.external_id = external_id
        self.owners = owners


@message("{what} belongs to one application: pass --owner NAME instead of --all-owners")
class OneOwnerNeededError(GandyError):
    """A command for one application was called for all owners."""

    exit_code = 2

    what: str


@message("manifest {external_id!r} depends on {parent!r}, which does not exist; declare it first")
class ParentNotFoundError(GandyError):
    """A dependent whose parent is neither declared nor stored."""

    external_id: str
    parent: str


@message("manifest {external_id!r} is declared in the application's code: change it there, or disable it")
class ManifestDeclaredError(GandyError):
    """A manifest that is declared in code cannot be added or removed at run time."""

    external_id: str


@message("manifest {external_id!r} cannot be removed: {problem}")
class ManifestInUseError(GandyError):
    """A manifest that cannot be removed at present."""

    external_id: str
    problem: str


@message(
    "manifest {external_id!r} is already queued as entry {entry_id} with another input; "
    "let it run, or cancel it: gandy queue cancel {entry_id}"
)
class TriggerInputConflictError(GandyError):
    """A trigger with an input while an entry with another input is queued."""

    external_id: str
    entry_id: int


@message(
    "{external_id!r} takes the output of {parent!r} as its input, and there is none yet; "
    "pass an input, or trigger {parent!r}"
)
class TriggerInputMissingError(GandyError):
    """A trigger without an input, of a manifest whose parent has not succeeded since it was declared."""

    external_id: str
    parent: str


@message("{subject}: {problem}")
class OverrideError(GandyError, ValueError):
    """A value that cannot override the declared one."""

    exit_code = 2

    subject: str
    problem: str


class ScheduleError(GandyError, ValueError):
    """An invalid schedule; the subclasses name the part."""

    exit_code = 2


@message(
    "cron expression {expression!r}: {problem}. Write five fields (minute hour day month weekday), "
    'or six with leading seconds, such as "30 3 * * mon-fri"'
)
class CronExpressionError(ScheduleError):
    """A cron expression that is invalid or never matches."""

    expression: str
    problem: str


@message(
    "time zone {timezone!r} is unknown here. Use an IANA name such as 'Europe/Berlin' or 'UTC'; "
    "if the name is right, update the tzdata package"
)
class TimezoneNotFoundError(ScheduleError):
    """A time zone that is not in the machine's zone database."""

    timezone: str


class IntervalError(ScheduleError):
    """An interval that is too short or too long."""

    def __init__(self, every: timedelta | str, problem: str) -> None:
        said = every if isinstance(every, str) else f"an interval of {every}"
        super().__init__(f"{said} {problem}. Use something like every(minutes=5)")
        self.every = every
        self.problem = problem


@message("a job that runs once {problem}. Give either at=<aware datetime> or delay=<timedelta>")
class OnceError(ScheduleError):
    """A one-off schedule without an instant, or with two."""

    problem: str


@message("exclusion: {problem}. {remedy}")
class ExclusionError(ScheduleError):
    """An exclusion that is invalid or excludes everything."""

    problem: str
    remedy: str


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


@message("there is no dead letter {letter_id}; `gandy dead-letters list` shows all of them")
class DeadLetterNotFoundError(GandyError, LookupError):
    """No dead letter has this id."""

    letter_id: int


@message(
    "the list has no {noun} {row_id} after which a page can begin: it was removed since, or the id is wrong; "
    "list again from the first page"
)
class PlaceNotFoundError(GandyError, LookupError):
    """The row after which a page begins is not there (any more)."""

    noun: str
    row_id: int
