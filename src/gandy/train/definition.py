"""A train as it was defined: name, plan, options and the codecs of its input and output."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field, fields
from datetime import timedelta
from typing import TYPE_CHECKING, Final, Generic, Literal, TypeVar

from gandy.errors import TrainDefinitionError
from gandy.train.codec import PayloadCodec
from gandy.train.route.cargo import NOTHING, key_of, type_name
from gandy.train.route.check import input_parameter, output_of, plan_function, plan_route
from gandy.train.route.junction import AnyCallable, Required, read_junction

if TYPE_CHECKING:
    from gandy.train.route.plan import Need, Plan

In = TypeVar("In")
Out = TypeVar("Out")

HIGHEST_PRIORITY: Final = 31


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainOptions:
    """What a train says about its runs; None leaves it to the manifest, the group or the settings."""

    group: str | None = None
    priority: int | None = None
    timeout: timedelta | None = None
    max_retries: int | None = None
    retry: bool = True
    retry_delay: timedelta | None = None
    keep_for: timedelta | None = None
    unique_until: Literal["start", "success"] | None = None
    process: bool = False

    def problems(self) -> tuple[str, ...]:
        """Return what is wrong with these values, in words."""
        found = []
        if self.group is not None and not self.group.strip():
            found.append("group must not be empty")
        if self.priority is not None and not 0 <= self.priority <= HIGHEST_PRIORITY:
            found.append(f"priority must be 0 to {HIGHEST_PRIORITY}, not {self.priority}")
        if self.max_retries is not None and self.max_retries < 0:
            found.append(f"max_retries must not be negative, but is {self.max_retries}")
        if self.unique_until not in {None, "start", "success"}:
            found.append(f'unique_until must be "start" or "success", not {self.unique_until!r}')
        found += [problem for name in _SPANS if (problem := _span_problem(name, getattr(self, name)))]
        return tuple(found)


_SPANS: Final = ("timeout", "retry_delay", "keep_for")
OPTION_NAMES: Final = tuple(option.name for option in fields(TrainOptions))


@dataclass(frozen=True, slots=True, eq=False)
class TrainDefinition(Generic[In, Out]):
    """Everything that is known about a train before it runs."""

    name: str
    plan: Plan
    options: TrainOptions
    source: AnyCallable = field(repr=False)  # the function or the class itself
    default_input: object = field(repr=False)  # Required where the input has no default
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
        """The declared type of the input, as a person would write it."""
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
        name or junction.name,
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


def place_of(source: AnyCallable) -> str:
    """Return module, name and line of a class or function."""
    module, name = getattr(source, "__module__", "?"), getattr(source, "__qualname__", repr(source))
    try:
        _, line = inspect.getsourcelines(source)
    except (OSError, TypeError):  # typed into a REPL
        return f"{module}.{name}"
    return f"{module}.{name} (line {line})"


def _defined(
    name: str,
    plan: Plan,
    options: TrainOptions,
    *,
    source: AnyCallable,
    takes: object,
    gives: object,
    default_input: object,
) -> TrainDefinition[object, object]:
    problems = options.problems()
    if not name.strip():
        problems = ("its name must not be empty", *problems)
    if problems:
        raise TrainDefinitionError(train=name, problem="; ".join(problems))
    return TrainDefinition(
        name=name,
        plan=plan,
        options=options,
        source=source,
        default_input=default_input,
        input=PayloadCodec(takes, train=name, part="input"),
        output=PayloadCodec(gives, train=name, part="output"),
    )


def _span_problem(name: str, span: object) -> str | None:
    if span is None or (isinstance(span, timedelta) and span > timedelta(0)):
        return None
    if isinstance(span, timedelta):
        return f"{name} must be longer than zero, but is {span}"
    return f"{name} must be a timedelta, not {span!r}"
