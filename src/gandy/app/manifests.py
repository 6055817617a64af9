"""Convert the arguments of a schedule to a checked declaration of a manifest."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final, TypeVar

from gandy.desk.queue import input_left_out
from gandy.errors import DeclarationError, ExclusionError
from gandy.model.exclusion import DateRange, Dates, Days, Exclusion, TimeWindow, bounded
from gandy.model.manifest import (
    DEFAULT_GROUP,
    DEFAULT_MAX_RETRIES,
    DEFAULT_MISFIRE_THRESHOLD,
    ManifestDeclaration,
)
from gandy.model.schedule import Cron, Dependent, DormantDependent, Interval, Manual, MisfirePolicy, Once
from gandy.rules.exclusions import refuse_none_left
from gandy.rules.schedules import checked
from gandy.settings.bounds import BOUNDS, problems_of, shortened, written

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gandy.app.keywords import MisfireWord, TimeSchedule
    from gandy.model.manifest import Declarations
    from gandy.model.schedule import Schedule
    from gandy.settings import Settings
    from gandy.settings.bounds import Timeout
    from gandy.train.definition import TrainOptions
    from gandy.train.registry import AnyTrain


T = TypeVar("T")

TIME_SCHEDULES: Final = (Manual, Cron, Interval, Once)


class NotGiven:
    """Marks an omitted argument, since None may be an input."""


NOT_GIVEN: Final = NotGiven()


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleOptions:
    """The keywords of a schedule with their defaults; None: the value of the train, then of the settings."""

    group: str | None = None
    priority: int | None = None
    max_retries: int | None = None
    retry: bool | None = None
    retry_delay: timedelta | None = None
    timeout: Timeout | None = None
    enabled: bool = True
    variance: timedelta = timedelta(0)
    exclude: Exclusion | Sequence[Exclusion] = field(default=())
    misfire: MisfirePolicy | MisfireWord | None = None
    misfire_threshold: timedelta | None = None
    keep_for: timedelta | None = None
    keep_last: int | None = None


def declare(
    external_id: str,
    definition: AnyTrain,
    schedule: Schedule,
    *,
    input: object = NOT_GIVEN,
    options: ScheduleOptions,
    batch: str | None = None,
) -> ManifestDeclaration:
    """Check one manifest and return its declaration for seeding."""
    refuse_bad_id(external_id)
    if problems := (*problems_of(options), *_schedule_problems(schedule)):
        raise DeclarationError(external_id, "; ".join(problems))
    schedule, exclusions = checked(schedule), _exclusions(options.exclude)
    refuse_none_left(schedule, exclusions)
    train = definition.options
    return ManifestDeclaration(
        external_id=external_id,
        train=definition.name,
        input_json=encode_input(definition, input),
        input_type_name=definition.input_type_name,
        schedule=schedule,
        group=_over(options.group, _over(train.group, DEFAULT_GROUP)),
        priority=_over(options.priority, train.priority),
        max_retries=_over(options.max_retries, _over(train.max_retries, DEFAULT_MAX_RETRIES)),
        is_retried=_over(options.retry, train.retry),
        retry_delay=_over(options.retry_delay, train.retry_delay),
        timeout=_over(options.timeout, train.timeout),
        is_enabled=options.enabled,
        variance=options.variance,
        exclusions=exclusions,
        misfire_policy=MisfirePolicy(_over(options.misfire, MisfirePolicy.FIRE_ONCE_NOW)),
        misfire_threshold=_over(options.misfire_threshold, DEFAULT_MISFIRE_THRESHOLD),
        keep_for=_over(options.keep_for, train.keep_for),
        keep_last=options.keep_last,
        batch=batch,
        unsaid=_unsaid(options, train),
    )


def _unsaid(options: ScheduleOptions, train: TrainOptions) -> frozenset[str]:
    """Return the fields that neither the schedule nor its train sets."""
    said = {
        "max_retries": _over(options.max_retries, train.max_retries),
        "misfire_policy": options.misfire,
        "misfire_threshold": options.misfire_threshold,
    }
    return frozenset(name for name, value in said.items() if value is None)


def encode_input(definition: AnyTrain, value: object) -> str:
    """Return the input as JSON; an omitted input is the function's default, or None."""
    return definition.input.encode(input_value(definition, value))


def input_value(definition: AnyTrain, value: object) -> object:
    """Return the input to run with; raise if a required input is omitted."""
    return input_left_out(definition) if isinstance(value, NotGiven) else value


def split_arguments(value: object, schedule: TimeSchedule | None) -> tuple[object, TimeSchedule]:
    """Separate input and schedule: for a train without input the schedule takes the place of the input."""
    if schedule is not None:
        if not isinstance(schedule, TIME_SCHEDULES):
            problem = f"is a {type(schedule).__name__}; use every(...) or cron(...)"
            raise DeclarationError(repr(schedule), problem, what="schedule")
        return value, schedule
    return (NOT_GIVEN, value) if isinstance(value, TIME_SCHEDULES) else (value, Manual())


def refuse_bad_id(external_id: str, *, what: str = "manifest") -> None:
    """Raise for an id that cannot be typed or stored."""
    word = "id" if what == "manifest" else "name"
    if problem := BOUNDS["external_id"].problem(f"its {word}", external_id):
        raise DeclarationError(shortened(written(external_id)), problem, what=what)


def _schedule_problems(schedule: Schedule) -> tuple[str, ...]:
    """Return the problems of a schedule, also of one that was not made by every(), cron() or once()."""
    match schedule:
        case Interval(every):
            given: dict[str, object | None] = {"every": every}
        case Once(at, delay):
            given = {"at": at, "delay": delay}
        case Dependent(parent) | DormantDependent(parent):
            given = {"after": parent}
        case _:
            return ()
    return tuple(
        problem
        for option, value in given.items()
        if value is not None and (problem := BOUNDS[option].problem(option, value))
    )


def _exclusions(given: Exclusion | Sequence[Exclusion]) -> tuple[Exclusion, ...]:
    if isinstance(given, Days | Dates | DateRange | TimeWindow):
        return (given,)
    if not isinstance(given, list | tuple):
        problem = f"exclude is a {type(given).__name__}"
        raise ExclusionError(problem, "Give one of Days, Dates, DateRange, TimeWindow, or a list of them")
    return bounded(tuple(given))


def _over(own: T | None, inherited: T) -> T:
    return inherited if own is None else own


def with_defaults(declarations: Declarations, settings: Settings) -> Declarations:
    """Fill in the settings for fields that the manifests of an application do not set."""
    manifests = tuple(filled_in(each, settings) for each in declarations.manifests)
    return replace(declarations, manifests=manifests)


def filled_in(declaration: ManifestDeclaration, settings: Settings) -> ManifestDeclaration:
    """Fill in the settings for fields that a manifest does not set."""
    unsaid, usual = declaration.unsaid, settings.schedule
    if not unsaid:
        return declaration
    return replace(
        declaration,
        max_retries=settings.retry.max_retries if "max_retries" in unsaid else declaration.max_retries,
        misfire_policy=MisfirePolicy(usual.misfire)
        if "misfire_policy" in unsaid
        else declaration.misfire_policy,
        misfire_threshold=usual.misfire_threshold
        if "misfire_threshold" in unsaid
        else declaration.misfire_threshold,
        unsaid=frozenset(),
    )
