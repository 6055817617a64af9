"""Convert the arguments of a schedule to a checked declaration of a manifest."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias, TypeVar, cast

from gandy.desk.queue import input_left_out
from gandy.errors import DeclarationError, ExclusionError
from gandy.model.exclusion import DateRange, Dates, Days, Exclusion, TimeWindow, bounded
from gandy.model.manifest import MANIFEST_OPTIONS, NO_INSTANTS, OPTIONS_OF_INSTANTS, ManifestDeclaration
from gandy.model.schedule import Dependent, DormantDependent, EdgeKind, Manual, TimeSchedule, edges_of
from gandy.rules.exclusions import refuse_none_left
from gandy.rules.schedules import checked
from gandy.settings.bounds import BOUNDS
from gandy.settings.values import shortened, written
from gandy.store.reading.views import train_of
from gandy.train.definition import TrainOptions, define_function, fits
from gandy.train.route import NOTHING, type_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from gandy.model.manifest import Declarations
    from gandy.model.options import Option
    from gandy.model.schedule import Schedule
    from gandy.settings import Settings
    from gandy.store.statements import Operation
    from gandy.train.registry import AnyTrain, Registry


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


def _idle_options(schedule: Schedule, options: ScheduleOptions) -> Iterator[str]:
    """Name the given options that concern instants, if the schedule has none."""
    if edges_of(schedule):
        given = (option.keyword for option in OPTIONS_OF_INSTANTS if options.get(option.keyword))
        yield from (f"{keyword}: {NO_INSTANTS}" for keyword in given)


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
    if problems := (*_problems(options), *_schedule_problems(schedule), *_idle_options(schedule, options)):
        raise DeclarationError(external_id, "; ".join(problems))
    schedule, exclusions = checked(schedule), exclusions_of(options.get("exclude", ()))
    refuse_none_left(schedule, exclusions)
    train, given = definition.options, {**options, "exclude": exclusions}
    effective = {
        option.field: option.form.restored(value)
        for option in MANIFEST_OPTIONS
        if (value := _over(given.get(option.keyword), getattr(train, option.keyword, None))) is not None
    }
    is_passed = isinstance(schedule, Dependent) and schedule.is_output_passed
    if is_passed and not isinstance(input, NotGiven):
        raise DeclarationError(external_id, "the output of its parent is its input; leave out the input")
    return ManifestDeclaration(
        external_id=external_id,
        train=definition.name,
        input_json=None if is_passed else encode_input(definition, input),
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Which manifests another one follows, and how, as given at any interface."""

    after: object = None  #: one id, or several
    on: object = None
    dormant: object = False
    pass_output: object = False

    @classmethod
    def taken_from(cls, keywords: dict[str, Any]) -> Self:
        """Take these keywords out of the others."""
        return cls(**{each.name: keywords.pop(each.name) for each in fields(cls) if each.name in keywords})


def placed(external_id: str, schedule: Schedule, place: Place) -> Schedule:
    """Return the schedule of a manifest, or its place after its parents."""
    if problem := next(_place_problems(schedule, place), None):
        raise DeclarationError(external_id, problem)
    if place.after is None:
        return schedule
    parents = (place.after,) if isinstance(place.after, str) else tuple(cast("Sequence[str]", place.after))
    if place.dormant:
        return DormantDependent(parents[0])
    on = EdgeKind.SUCCESS if place.on is None else EdgeKind(str(place.on))
    return Dependent(*parents, on=on, is_output_passed=bool(place.pass_output))


def _place_problems(schedule: Schedule, place: Place) -> Iterator[str]:
    """Describe what is wrong with a place: values, then values that exclude each other."""
    for option in ("after", "on", "dormant", "pass_output"):
        value = getattr(place, option)
        if value is not None and (problem := BOUNDS[option].problem(option, value)):
            yield problem
    if place.after is None:
        if place.dormant:
            yield "a dormant manifest needs a parent; pass after=..."
        if place.on is not None or place.pass_output:
            yield f"{'pass_output' if place.pass_output else 'on'} needs a parent; pass after=..."
        return
    if not isinstance(schedule, Manual):
        yield "it has both a schedule and a parent; choose one of them"
    number = 1 if isinstance(place.after, str) else len(set(cast("Sequence[str]", place.after)))
    if not isinstance(place.after, str) and number < len(cast("Sequence[str]", place.after)):
        yield "after names a manifest twice; name each one once"
    if place.dormant:
        yield from _dormant_problems(place, number)
    elif place.pass_output:
        yield from _passing_problems(place, number)


def _dormant_problems(place: Place, parents: int) -> Iterator[str]:
    if parents > 1:
        yield f"a dormant manifest has one parent, whose runs activate it, not {parents}; pass one after=..."
    if place.on is not None:
        yield "a dormant manifest runs when it is activated, not on an end; leave out on or dormant"
    if place.pass_output:
        yield "an activation has an input of its own; leave out pass_output or dormant"


def _passing_problems(place: Place, parents: int) -> Iterator[str]:
    if parents > 1:
        yield f"pass_output needs one parent, not {parents}; leave out pass_output, or pass one after=..."
    if place.on not in {None, "success"}:
        yield "only a success has an output; leave out on or pass_output"


def refuse_misfit(external_id: str, parent: AnyTrain, train: AnyTrain) -> None:
    """Raise if a train cannot take the output of its parent's train as its input."""
    given, wanted = parent.output.declared, train.input.declared
    if train.plan.input_key is NOTHING:
        problem = f"pass_output: train {train.name} takes no input; leave out pass_output"
        raise DeclarationError(external_id, problem)
    if not fits(given, wanted):
        problem = (
            f"pass_output: train {parent.name} gives {type_name(given)}, and train {train.name} takes "
            f"{type_name(wanted)}; change one of them, or leave out pass_output"
        )
        raise DeclarationError(external_id, problem)


def check_passed(owner: str, registry: Registry | None, declaration: ManifestDeclaration) -> Operation[None]:
    """Compare the type of a stored parent's output with a new dependent's input, if both trains are known."""
    schedule = declaration.schedule
    if registry is None or not (isinstance(schedule, Dependent) and schedule.is_output_passed):
        return
    parent = yield from train_of(owner, schedule.parents[0])
    if parent is not None and parent in registry:
        refuse_misfit(declaration.external_id, registry.get(parent), registry.get(declaration.train))


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
