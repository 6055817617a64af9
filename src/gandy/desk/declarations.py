"""Convert the arguments of a schedule to a checked declaration of a manifest."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from gandy.desk.queue import input_left_out
from gandy.errors import DeclarationError, ExclusionError
from gandy.model.exclusion import DateRange, Dates, Days, Exclusion, TimeWindow, bounded
from gandy.model.manifest import MANIFEST_OPTIONS, ManifestDeclaration
from gandy.model.schedule import Dependent, DormantDependent, Manual, TimeSchedule
from gandy.rules.exclusions import refuse_none_left
from gandy.rules.schedules import checked
from gandy.settings.bounds import BOUNDS, shortened, written
from gandy.train.definition import TrainOptions, define_function

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from gandy.model.manifest import Declarations
    from gandy.model.options import Option
    from gandy.model.schedule import Schedule
    from gandy.settings import Settings
    from gandy.train.registry import AnyTrain


T = TypeVar("T")


class NotGiven:
    """Marks an omitted argument, since None may be an input."""


NOT_GIVEN: Final = NotGiven()


_BY_SETTINGS: Final = {option.field: option for option in MANIFEST_OPTIONS if option.setting is not None}
#: Values of manifest options, by keyword; None, and a keyword that is left out: the value of the train, then
#: of the settings, then of the declaration.
ScheduleOptions: TypeAlias = "Mapping[str, Any]"


def schedule_options(
    keywords: Mapping[str, object], *, among: Sequence[Option] = MANIFEST_OPTIONS
) -> ScheduleOptions:
    """Return the given options; raise TypeError for an unknown keyword, as a function does."""
    known = {option.keyword for option in among}
    if unknown := sorted(keywords.keys() - known):
        raise TypeError(f"a schedule got an unexpected keyword argument {unknown[0]!r}")
    return keywords


def _problems(options: ScheduleOptions) -> Iterator[str]:
    """Describe the problems of the given values."""
    for option in MANIFEST_OPTIONS:
        value, bound = options.get(option.keyword), option.bound
        is_left_out = option.keyword not in options or (value is None and option.takes_none)
        if bound is not None and not is_left_out and (problem := bound.problem(option.keyword, value)):
            yield problem


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
    if problems := (*_problems(options), *_schedule_problems(schedule)):
        raise DeclarationError(external_id, "; ".join(problems))
    schedule, exclusions = checked(schedule), exclusions_of(options.get("exclude", ()))
    refuse_none_left(schedule, exclusions)
    train, given = definition.options, {**options, "exclude": exclusions}
    effective = {
        option.field: option.form.restored(value)
        for option in MANIFEST_OPTIONS
        if (value := _over(given.get(option.keyword), getattr(train, option.keyword, None))) is not None
    }
    return ManifestDeclaration(
        external_id=external_id,
        train=definition.name,
        input_json=encode_input(definition, input),
        input_type_name=definition.input_type_name,
        schedule=schedule,
        batch=batch,
        unsaid=frozenset(_BY_SETTINGS.keys() - effective.keys()),
        **effective,
    )


def encode_input(definition: AnyTrain, value: object) -> str:
    """Return the input as JSON; an omitted input is the function's default, or None."""
    return definition.input.encode(input_value(definition, value))


def input_value(definition: AnyTrain, value: object) -> object:
    """Return the input to run with; raise if a required input is omitted."""
    return input_left_out(definition) if isinstance(value, NotGiven) else value


def split_arguments(value: object, schedule: TimeSchedule | None) -> tuple[object, TimeSchedule]:
    """Separate input and schedule: for a train without input the schedule takes the place of the input."""
    if schedule is not None:
        if not isinstance(schedule, TimeSchedule):
            problem = f"is a {type(schedule).__name__}; use every(...) or cron(...)"
            raise DeclarationError(shortened(written(schedule)), problem, what="schedule")
        return value, schedule
    return (NOT_GIVEN, value) if isinstance(value, TimeSchedule) else (value, Manual())


def placed(external_id: str, schedule: TimeSchedule, *, after: object, dormant: object) -> Schedule:
    """Return the schedule of a manifest made at run time, or its place after a parent."""
    follows = _follows(external_id, after, dormant=dormant)
    if follows is not None and not isinstance(schedule, Manual):
        raise DeclarationError(external_id, "it has both a schedule and a parent; choose one of them")
    return follows or schedule


def _follows(external_id: str, parent: object, *, dormant: object) -> Dependent | DormantDependent | None:
    if problem := BOUNDS["dormant"].problem("dormant", dormant):
        raise DeclarationError(external_id, problem)
    if parent is None:
        if dormant:
            raise DeclarationError(external_id, "a dormant manifest needs a parent; pass after=...")
        return None
    if not isinstance(parent, str) or not BOUNDS["after"].holds(parent):
        raise DeclarationError(external_id, f"after {BOUNDS['after'].refusal(parent)}")
    return DormantDependent(parent) if dormant else Dependent(parent)


def unknown_train(name: str) -> AnyTrain:
    """Return a stand-in for a train that this process does not know: any JSON is accepted as its input."""

    async def unknown(value: Any = None) -> None:  # noqa: ANN401 - not known
        """Never run: only the declaration of a manifest reads it."""

    return define_function(unknown, name=name, options=TrainOptions())


def refuse_bad_id(external_id: str, *, what: str = "manifest") -> None:
    """Raise for an id that cannot be typed or stored."""
    word = "id" if what == "manifest" else "name"
    if problem := BOUNDS["external_id"].problem(f"its {word}", external_id):
        raise DeclarationError(shortened(written(external_id)), problem, what=what)


def _schedule_problems(schedule: Schedule) -> tuple[str, ...]:
    """Return the problems of a schedule, also of one that was not made by every(), cron() or once()."""
    return tuple(
        problem
        for option, value in schedule.bounded().items()
        if value is not None and (problem := BOUNDS[option].problem(option, value))
    )


def exclusions_of(given: Exclusion | Sequence[Exclusion]) -> tuple[Exclusion, ...]:
    """Return the given exclusions, one or several, after checking them."""
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
    if not declaration.unsaid:
        return declaration
    usual = {name: _usual(settings, _BY_SETTINGS[name]) for name in declaration.unsaid}
    return replace(declaration, unsaid=frozenset(), **usual)


def _usual(settings: Settings, option: Option) -> Any:  # noqa: ANN401 - of the option's type
    section, name = option.setting or ("", "")
    return option.form.restored(getattr(getattr(settings, section), name))
