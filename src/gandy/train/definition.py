"""A train as it was defined: name, plan, options and the codecs of its input and output."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field, fields
from types import UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Final,
    Generic,
    Literal,
    TypeVar,
    Union,
    get_args,
    get_origin,
)

from gandy.errors import TrainDefinitionError
from gandy.settings.bounds import BOUNDS, problems_of, shown
from gandy.train.codec import PayloadCodec
from gandy.train.failure import give_up_problems
from gandy.train.junctions import (
    AnyCallable,
    Required,
    input_parameter,
    output_of,
    plan_function,
    plan_route,
    read_junction,
)
from gandy.train.route import NOTHING, key_of, type_name

if TYPE_CHECKING:
    from datetime import timedelta

    from gandy.settings.bounds import Timeout
    from gandy.train.route import Need, RoutePlan

In = TypeVar("In")
Out = TypeVar("Out")


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainOptions:
    """Options of a train's runs; None means that the manifest, the group or the settings decide."""

    group: str | None = None
    priority: int | None = None
    timeout: Timeout | None = None
    max_retries: int | None = None
    retry: bool = True
    retry_delay: timedelta | None = None
    keep_for: timedelta | None = None
    unique_until: Literal["start", "success"] | None = None
    process: bool = False
    give_up_on: tuple[type[Exception], ...] = ()


OPTION_NAMES: Final = tuple(option.name for option in fields(TrainOptions))


@dataclass(frozen=True, slots=True, eq=False)
class TrainDefinition(Generic[In, Out]):
    """Everything that is known about a train before it runs."""

    name: str
    plan: RoutePlan
    options: TrainOptions
    source: AnyCallable = field(repr=False)  # the function or the class itself
    default_input: object = field(repr=False)  # an instance of Required if the input has no default
    input: PayloadCodec[In] = field(repr=False)
    output: PayloadCodec[Out] = field(repr=False)

    @property
    def place(self) -> str:
        """Where the train is defined, for messages."""
        return place_of(self.source)

    @property
    def takes_input(self) -> bool:
        """Whether an input has to be passed."""
        return self.plan.input_key is not NOTHING and isinstance(self.default_input, Required)

    @property
    def input_type_name(self) -> str:
        """The declared type of the input, without modules."""
        return type_name(self.plan.input_key)

    @property
    def required(self) -> tuple[Need, ...]:
        """The values that must be provided before this train can run."""
        return tuple(need for need in self.plan.needs if need.is_required)


def define_function(
    function: AnyCallable, *, name: str | None = None, options: TrainOptions | None = None
) -> TrainDefinition[object, object]:
    """Make a train of one function: the first parameter that is not Run is its input, others are provided."""
    junction = read_junction(function)
    given = input_parameter(junction)
    return _defined(
        junction.name if name is None else name,
        plan_function(junction),
        options or TrainOptions(),
        source=function,
        takes=NOTHING if given is None else given.hint,
        gives=output_of(junction),
        default_input=Required() if given is None else given.default,
    )


def define_route(
    source: type, route: tuple[object, ...], *, takes: object, gives: object, name: str, options: TrainOptions
) -> TrainDefinition[object, object]:
    """Make a train of several junctions."""
    junctions = tuple(read_junction(step) for step in route)
    plan = plan_route(name, junctions, takes=key_of(takes), gives=key_of(gives))
    return _defined(name, plan, options, source=source, takes=takes, gives=gives, default_input=Required())


def fits(given: object, wanted: object) -> bool:
    """Return whether values of one declared type are valid for another, as far as the types tell."""
    given, wanted = _bare(given), _bare(wanted)
    if given == wanted or wanted is Any or wanted is object or given is Any:
        return True
    if _is_union(given):
        return all(fits(each, wanted) for each in get_args(given))
    if _is_union(wanted):
        return any(fits(given, each) for each in get_args(wanted))
    if not _is_subclass(get_origin(given) or given, get_origin(wanted) or wanted):
        return False
    return all(fits(*parts) for parts in zip(get_args(given), get_args(wanted), strict=False))


def _bare(hint: object) -> object:
    """Return the type without its annotations or its name."""
    if hint is None:
        return type(None)
    if get_origin(hint) is Annotated:
        return _bare(get_args(hint)[0])
    named = getattr(hint, "__supertype__", None)
    return hint if named is None else _bare(named)


def _is_union(hint: object) -> bool:
    return get_origin(hint) is Union or get_origin(hint) is UnionType


def _is_subclass(given: object, wanted: object) -> bool:
    if given is int and wanted is float:
        return True
    try:
        return isinstance(given, type) and isinstance(wanted, type) and issubclass(given, wanted)
    except TypeError:  # a TypedDict
        return False


def place_of(source: AnyCallable) -> str:
    """Return module, name and line of a class or function."""
    module, name = getattr(source, "__module__", "?"), getattr(source, "__qualname__", repr(source))
    try:
        _, line = inspect.getsourcelines(source)
    except (OSError, TypeError):  # defined in a REPL
        return f"{module}.{name}"
    return f"{module}.{name} (line {line})"


def _defined(
    name: str,
    plan: RoutePlan,
    options: TrainOptions,
    *,
    source: AnyCallable,
    takes: object,
    gives: object,
    default_input: object,
) -> TrainDefinition[object, object]:
    problems = (*problems_of(options), *give_up_problems(options.give_up_on))
    if problem := BOUNDS["name"].problem("its name", name):
        problems = (problem, *problems)
    if problems:
        called = name if BOUNDS["name"].holds(name) else shown(name)
        raise TrainDefinitionError(train=called, problem="; ".join(problems))
    return TrainDefinition(
        name=name,
        plan=plan,
        options=options,
        source=source,
        default_input=default_input,
        input=PayloadCodec(takes, train=name, part="input"),
        output=PayloadCodec(gives, train=name, part="output"),
    )
