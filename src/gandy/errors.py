"""Every error that Gandy raises: typed fields, and a message that says what to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime, timedelta
    from pathlib import Path


class GandyError(Exception):
    """The base of every error raised by Gandy."""

    #: What the command line ends with: 1 it failed, 2 the call was wrong.
    exit_code: ClassVar[int] = 1


# The database


class DatabaseUrlError(GandyError):
    """A database URL that Gandy cannot use."""

    exit_code = 2

    def __init__(self, url: str, problem: str) -> None:
        super().__init__(
            f"database URL {url!r}: {problem}. Use postgresql://user@host/name or sqlite:///path/to/file.db"
        )
        self.url = url
        self.problem = problem


class DatabaseUnreachableError(GandyError):
    """The database did not answer, or its file cannot be opened."""

    def __init__(self, url: str, problem: str) -> None:
        super().__init__(f"cannot reach the database {url}: {problem}")
        self.url = url
        self.problem = problem


class SchemaBehindError(GandyError):
    """The database's schema is older than this code needs."""

    def __init__(self, found: int, needed: int) -> None:
        what = "has no Gandy tables" if found == 0 else f"is at schema version {found}"
        super().__init__(f"the database {what}, this code needs version {needed}; run: gandy migrate")
        self.found = found
        self.needed = needed


class CodeTooOldError(GandyError):
    """The database was migrated past what this code understands."""

    def __init__(self, found: int, compatible_from: int, known: int) -> None:
        super().__init__(
            f"the database is at schema version {found}, which needs code that knows version {compatible_from} or "
            f"later; this code knows {known}: upgrade gandy on this server"
        )
        self.found = found
        self.compatible_from = compatible_from
        self.known = known


class RowConflictError(GandyError):
    """A unique or check constraint refused a row."""

    def __init__(self, constraint: str, detail: str) -> None:
        super().__init__(f"refused by {constraint}: {detail}")
        self.constraint = constraint
        self.detail = detail


class BorrowedConnectionError(GandyError):
    """A connection passed by the caller that Gandy cannot write on."""

    exit_code = 2

    def __init__(self, found: str, problem: str) -> None:
        super().__init__(f"connection={found}: {problem}")
        self.found = found
        self.problem = problem


# Settings


class DurationFormatError(GandyError, ValueError):
    """A text that does not read as a duration."""

    exit_code = 2

    def __init__(self, text: str, problem: str) -> None:
        super().__init__(f"{text!r} {problem}")
        self.text = text
        self.problem = problem


class NaiveInstantError(GandyError, ValueError):
    """An instant without a time zone."""

    def __init__(self, instant: datetime) -> None:
        super().__init__(f"{instant.isoformat()} has no time zone; use an aware one, as of datetime.now(UTC)")
        self.instant = instant


class ClockReversedError(GandyError, ValueError):
    """A manual clock was told to go back."""

    def __init__(self, span: timedelta) -> None:
        super().__init__(f"a clock does not go back; advance it by zero or more, not by {span}")
        self.span = span


@dataclass(frozen=True, slots=True)
class SettingProblem:
    """One thing that is wrong with the settings, and where it was written."""

    source: str
    key: str
    value: str | None  #: masked where it is a secret; None where the value is not the problem
    message: str

    def __str__(self) -> str:
        shown = "" if self.value is None else f" = {self.value}"
        return f"{self.source}: {self.key}{shown}: {self.message}"


class SettingsError(GandyError):
    """The settings hold values that cannot be used; every problem is listed."""

    exit_code = 2

    def __init__(self, problems: tuple[SettingProblem, ...]) -> None:
        count = "one problem" if len(problems) == 1 else f"{len(problems)} problems"
        super().__init__("\n".join([f"{count} in the settings:", *(f"  {problem}" for problem in problems)]))
        self.problems = problems


class SettingsFileError(GandyError):
    """A gandy.toml that cannot be read, or that is not TOML."""

    exit_code = 2

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"{path}: {problem}")
        self.path = path
        self.problem = problem


# The command line


class AppNotGivenError(GandyError):
    """A command that needs an application was called without one."""

    exit_code = 2

    def __init__(self) -> None:
        super().__init__(
            "which application? Pass --app MODULE:NAME, set GANDY_APP, or write "
            'app = "module:name" in gandy.toml; `gandy init` writes a first one'
        )


class AppReferenceError(GandyError):
    """An application reference that leads to no application."""

    exit_code = 2

    def __init__(self, reference: str, problem: str) -> None:
        super().__init__(f"application {reference!r}: {problem}")
        self.reference = reference
        self.problem = problem


class AppLoadError(GandyError):
    """The application's own code raised while it was imported."""

    def __init__(self, reference: str, location: str, problem: str) -> None:
        super().__init__(f"application {reference!r} could not be imported: {location}: {problem}")
        self.reference = reference
        self.location = location
        self.problem = problem


class FileInTheWayError(GandyError):
    """Files that a command would have overwritten."""

    def __init__(self, paths: tuple[Path, ...]) -> None:
        named = ", ".join(str(path) for path in paths)
        super().__init__(f"{named} already there; nothing was written. Choose another folder or move it away")
        self.paths = paths


class FileAccessError(GandyError):
    """A file or folder that the system does not let us read or write."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"{path}: {problem}")
        self.path = path
        self.problem = problem


# Schedules


class ScheduleError(GandyError, ValueError):
    """A schedule that cannot be kept; the classes below say which part of it."""

    exit_code = 2


class CronExpressionError(ScheduleError):
    """A cron expression that cannot be read, or that never matches."""

    def __init__(self, expression: str, problem: str) -> None:
        super().__init__(
            f"cron expression {expression!r}: {problem}. Write five fields (minute hour day month weekday), "
            'or six with leading seconds, such as "30 3 * * mon-fri"'
        )
        self.expression = expression
        self.problem = problem


class TimezoneNotFoundError(ScheduleError):
    """A time zone that the machine's zone database does not hold."""

    def __init__(self, timezone: str) -> None:
        super().__init__(
            f"time zone {timezone!r} is not known here. Use an IANA name such as 'Europe/Berlin' or 'UTC'; "
            "if the name is right, update the tzdata package"
        )
        self.timezone = timezone


class IntervalError(ScheduleError):
    """An interval that is too short or too long."""

    def __init__(self, every: timedelta, problem: str) -> None:
        super().__init__(f"an interval of {every} {problem}. Use something like every(minutes=5)")
        self.every = every
        self.problem = problem


class OnceError(ScheduleError):
    """A one-off schedule that does not say when, or says it twice."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"a job that runs once {problem}. Give either at=<aware datetime> or delay=<timedelta>")
        self.problem = problem


class ExclusionError(ScheduleError):
    """An exclusion that cannot be read or would never end."""

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


class PriorityRangeError(ScheduleError):
    """A priority outside the scale."""

    def __init__(self, priority: int, highest: int) -> None:
        super().__init__(f"priority {priority} is off the scale. Use 0 (last) to {highest} (first)")
        self.priority = priority
        self.highest = highest


class DependencyCycleError(ScheduleError):
    """Manifests that wait for each other."""

    def __init__(self, cycle: Sequence[str]) -> None:
        super().__init__(
            f"these manifests wait for each other: {' -> '.join(cycle)}. Remove one of these dependencies"
        )
        self.cycle = tuple(cycle)


class DatabaseBusyError(GandyError):
    """The database gave up on a lock, a deadlock or a serialisation; the same call may go through later."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"the database could not do this now: {problem}; try again")
        self.problem = problem


# Trains: definition


class RouteError(GandyError):
    """The base of what can be wrong with a train's definition."""


class JunctionSignatureError(RouteError):
    """A junction cannot be read: its parameters or its result are not usable as types."""

    def __init__(self, *, junction: str, problem: str) -> None:
        self.junction = junction
        self.problem = problem
        super().__init__(f"junction {junction}: {problem}")


class TrainDefinitionError(RouteError):
    """A train is not defined as trains are."""

    def __init__(self, *, train: str, problem: str) -> None:
        self.train = train
        self.problem = problem
        super().__init__(f"train {train}: {problem}")


class MissingCargoError(RouteError):
    """A junction asks for a type that nothing before it in the route produces."""

    def __init__(
        self,
        *,
        train: str,
        junction: str,
        parameter: str,
        missing: str,
        available: tuple[str, ...],
        made_later_by: str | None = None,
    ) -> None:
        self.train = train
        self.junction = junction
        self.parameter = parameter
        self.missing = missing
        self.available = available
        self.made_later_by = made_later_by
        advice = (
            f"{made_later_by} makes it, but only later: move {made_later_by} before {junction}"
            if made_later_by
            else "return it from an earlier junction"
        )
        super().__init__(
            f"train {train}: junction {junction} needs {missing} (parameter {parameter!r}), "
            f"which is not there; available: {', '.join(available) or 'nothing'}; {advice}"
        )


class MissingOutputError(RouteError):
    """No junction of a route makes the output that the train declares."""

    def __init__(self, *, train: str, missing: str, available: tuple[str, ...], junction: str) -> None:
        self.train = train
        self.missing = missing
        self.available = available
        self.junction = junction
        super().__init__(
            f"train {train}: its output {missing} is not there after the last junction, {junction}; "
            f"available: {', '.join(available) or 'nothing'}; "
            "return it from a junction or declare another output"
        )


class DuplicateTrainError(GandyError):
    """Two trains of one application have the same name."""

    def __init__(self, *, name: str, first: str, second: str) -> None:
        self.name = name
        self.first = first
        self.second = second
        super().__init__(f"two trains are named {name!r}: {first} and {second}; give one another name")


class UnknownTrainError(GandyError):
    """A name or a callable is no train of this application."""

    def __init__(self, *, name: str, known: tuple[str, ...], similar: tuple[str, ...] = ()) -> None:
        self.name = name
        self.known = known
        self.similar = similar
        hint = f"; did you mean {' or '.join(similar)}?" if similar else ""
        super().__init__(
            f"no train is named {name!r}{hint} Known trains: {', '.join(known) or 'none'}."
            if hint
            else f"no train is named {name!r}; register it with @app.train or @app.register. "
            f"Known trains: {', '.join(known) or 'none'}."
        )


# Trains: inputs, outputs and provided values


class PayloadError(GandyError):
    """An input or an output does not fit its declared type, or cannot be stored as JSON."""

    def __init__(self, *, train: str, part: str, problems: tuple[str, ...]) -> None:
        self.train = train
        self.part = part
        self.problems = problems
        super().__init__(f"the {part} of train {train} is not valid: {'; '.join(problems)}")


class PayloadTooLargeError(PayloadError):
    """An input or an output is larger than what is stored."""

    def __init__(self, *, train: str, part: str, size: int, limit: int) -> None:
        self.size = size
        self.limit = limit
        problem = f"{size} bytes of JSON, at most {limit} are stored; keep it elsewhere and pass a reference"
        super().__init__(train=train, part=part, problems=(problem,))


class MissingProvidedError(GandyError):
    """Trains ask for values that nobody provided."""

    def __init__(self, *, missing: tuple[str, ...], provided: tuple[str, ...]) -> None:
        self.missing = missing
        self.provided = provided
        super().__init__(
            f"{'; '.join(missing)}. Provided: {', '.join(provided) or 'nothing'}. "
            "Return the type from an earlier junction, or provide it with app.provide(Type, factory)."
        )


class ProvideError(GandyError):
    """A value cannot be provided."""

    def __init__(self, *, provided: str, problem: str) -> None:
        self.provided = provided
        self.problem = problem
        super().__init__(f"cannot provide {provided}: {problem}")


# Trains: running


class NoCurrentRunError(GandyError):
    """`current_run()` was called outside of a run."""

    def __init__(self) -> None:
        super().__init__("no train is running here; call current_run() from inside a junction")


class TrainProcessError(GandyError):
    """The process that ran a train could not be used, or ended before the train did."""

    def __init__(self, *, train: str, problem: str, exit_code: int | None = None) -> None:
        self.train = train
        self.problem = problem
        self.process_exit_code = exit_code
        super().__init__(f"train {train}: {problem}")


class RemoteJunctionError(GandyError):
    """Stands for an exception of a train's own process that cannot be rebuilt here."""

    def __init__(self, *, exception_type: str, reason: str) -> None:
        self.exception_type = exception_type
        self.reason = reason
        super().__init__(f"{exception_type}: {reason}")


# The lifecycle


@dataclass(frozen=True, slots=True, kw_only=True)
class ContractProblem:
    """One thing that is wrong with a maintenance contract, and where it is written."""

    message: str
    source: str = ""
    table: str = ""
    rule: str = ""
    field: str = ""

    def __str__(self) -> str:
        where = [self.source, self.table and f"table {self.table}", self.rule, self.field]
        return ": ".join([*(part for part in where if part), self.message])


class ContractInvalidError(GandyError, ValueError):
    """A maintenance contract that cannot be used as it is written; every problem is listed."""

    exit_code = 2

    def __init__(self, problems: Sequence[ContractProblem]) -> None:
        count = "one problem" if len(problems) == 1 else f"{len(problems)} problems"
        lines = [f"{count} in the maintenance contract, nothing was deleted:"]
        super().__init__("\n".join([*lines, *(f"  {problem}" for problem in problems)]))
        self.problems = tuple(problems)


class ContractRefusedError(ContractInvalidError):
    """A maintenance contract that does not fit the database it is for; every problem is listed."""

    exit_code = 1


class ContractTargetError(GandyError):
    """A contract without a database to keep."""

    exit_code = 2

    def __init__(self, scheduler: str, problem: str) -> None:
        super().__init__(
            f"lifecycle {scheduler}: {problem}. Pass --target URL, or write database = {{ env = "
            '"APP_DATABASE_URL" } in the contract'
        )
        self.scheduler = scheduler
        self.problem = problem


class RuleRefusedError(GandyError):
    """A rule that may not delete here and now; the others go on."""

    def __init__(self, table: str, rule: str, reason: str) -> None:
        super().__init__(f"table {table}: {rule}: {reason}")
        self.table = table
        self.rule = rule
        self.reason = reason


class RowsStuckError(GandyError):
    """So many rows of one rule cannot be deleted that the rule was stopped."""

    def __init__(self, table: str, rule: str, *, rows: int, first_error: str) -> None:
        super().__init__(
            f"table {table}: {rule}: stopped after {rows} rows that cannot be deleted; the last one said: "
            f"{first_error}. See: gandy lifecycle quarantine"
        )
        self.table = table
        self.rule = rule
        self.rows = rows
        self.first_error = first_error


class SweepLeaseLostError(GandyError):
    """Another process took over the sweep; this one may delete nothing more."""

    def __init__(self, scheduler: str) -> None:
        super().__init__(f"lifecycle {scheduler}: another process holds the lease now; this one stopped")
        self.scheduler = scheduler


class MissingExtraError(GandyError):
    """A feature whose optional dependency is not installed."""

    exit_code = 2

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(f"{feature} needs an optional dependency; run: pip install 'gandy[{extra}]'")
        self.feature = feature
        self.extra = extra


class UnknownHookError(GandyError):
    """A hook was asked for on an event that does not exist."""

    def __init__(self, *, name: str, known: tuple[str, ...]) -> None:
        self.name = name
        self.known = known
        super().__init__(f"no hook is named {name!r}; the hooks are {', '.join(known)}")


# The application


class DeclarationError(GandyError, ValueError):
    """Something declared that cannot be kept."""

    exit_code = 2

    def __init__(self, name: str, problem: str, *, what: str = "manifest") -> None:
        super().__init__(f"{what} {name!r}: {problem}")
        self.name = name
        self.problem = problem
        self.what = what


class DuplicateDeclarationError(DeclarationError):
    """Two declarations with one name."""

    def __init__(self, name: str, *, what: str, known: tuple[str, ...]) -> None:
        super().__init__(name, f"it is declared already; declared so far: {', '.join(known)}", what=what)
        self.known = known


class DeclaredTooLateError(GandyError):
    """Something was declared after the application was opened, when nobody would look at it any more."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"{name!r}: the application is open already; declare it before opening, "
            "or use await app.add_schedule(...), which writes it at once"
        )
        self.name = name


class MissingInputError(GandyError, TypeError):
    """A train that takes an input was given none."""

    exit_code = 2

    def __init__(self, train: str, input_type: str) -> None:
        super().__init__(f"train {train} takes an input of type {input_type}; none was given")
        self.train = train
        self.input_type = input_type


class AppNotOpenError(GandyError):
    """The application was asked for something that needs its database while it is closed."""

    def __init__(self, app: str, asked: str) -> None:
        super().__init__(
            f"{asked} needs the database of {app!r}, which is not open; write `async with app:` around it, "
            "`with app as sync:` in a script, or use app.sync"
        )
        self.app = app
        self.asked = asked


class AppOpenElsewhereError(GandyError):
    """The application is open in one event loop and was used in another."""

    def __init__(self, app: str) -> None:
        super().__init__(f"{app!r} is open in another event loop; use app.sync from other threads")
        self.app = app


class JobNotFoundError(GandyError, LookupError):
    """No queue entry and no run has this id."""

    def __init__(self, job_id: int) -> None:
        super().__init__(
            f"job {job_id} is not there: the transaction that made it is not committed, or it is past its retention"
        )
        self.job_id = job_id


class JobFailedError(GandyError):
    """The job whose result was asked for has failed."""

    def __init__(self, job_id: int, train: str, *, exception: str | None, reason: str | None) -> None:
        super().__init__(
            f"job {job_id} ({train}) failed: {exception or 'unknown'}: {reason or 'no reason'}; see: gandy runs show {job_id}"
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


# Manifests and groups


class ManifestNotFoundError(GandyError, LookupError):
    """No manifest has this external id."""

    def __init__(self, external_id: str) -> None:
        super().__init__(f"no manifest {external_id!r}; `gandy manifests list` shows what there is")
        self.external_id = external_id


class GroupNotFoundError(GandyError, LookupError):
    """No group of this application has this name."""

    def __init__(self, owner: str, name: str) -> None:
        super().__init__(f"{owner!r} has no group {name!r}; `gandy groups list` shows what there is")
        self.owner = owner
        self.name = name


class ManifestOwnedElsewhereError(GandyError):
    """An external id that another application holds."""

    def __init__(self, external_id: str, owner: str) -> None:
        super().__init__(
            f"manifest {external_id!r} belongs to {owner!r}; external ids are unique in a database: choose another"
        )
        self.external_id = external_id
        self.owner = owner


class ParentNotFoundError(GandyError):
    """A dependent whose parent is neither declared nor stored."""

    def __init__(self, external_id: str, parent: str) -> None:
        super().__init__(f"manifest {external_id!r} waits for {parent!r}, which is not there; declare it first")
        self.external_id = external_id
        self.parent = parent


class ManifestDeclaredError(GandyError):
    """A manifest that the application's code declares and that therefore cannot be added or removed beside it."""

    def __init__(self, external_id: str) -> None:
        super().__init__(
            f"manifest {external_id!r} is declared in the application's code: change it there, or disable it"
        )
        self.external_id = external_id


class ManifestInUseError(GandyError):
    """A manifest that cannot be removed now."""

    def __init__(self, external_id: str, problem: str) -> None:
        super().__init__(f"manifest {external_id!r} cannot be removed: {problem}")
        self.external_id = external_id
        self.problem = problem


class TriggerInputConflictError(GandyError):
    """A trigger with an input of its own while an entry with another input waits."""

    def __init__(self, external_id: str, entry_id: int) -> None:
        super().__init__(
            f"manifest {external_id!r} already waits in the queue as entry {entry_id} with another input; "
            f"let it run, or cancel it: gandy queue cancel {entry_id}"
        )
        self.external_id = external_id
        self.entry_id = entry_id


class OverrideError(GandyError, ValueError):
    """A value that cannot be set beside what the code declares."""

    exit_code = 2

    def __init__(self, subject: str, problem: str) -> None:
        super().__init__(f"{subject}: {problem}")
        self.subject = subject
        self.problem = problem


class EnqueueError(GandyError, ValueError):
    """A job whose options cannot be kept."""

    exit_code = 2

    def __init__(self, train: str, problems: tuple[str, ...]) -> None:
        super().__init__(f"enqueue {train}: {'; '.join(problems)}")
        self.train = train
        self.problems = problems
