"""Junctions: their signatures, and the check of a route before it runs."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Final, Never, NoReturn, TypeAlias, get_args, get_origin, get_type_hints

from gandy.errors import JunctionSignatureError, MissingCargoError, MissingOutputError, TrainDefinitionError
from gandy.train.failure import End
from gandy.train.route import (
    INPUT_SLOT,
    NO_SLOT,
    NOTHING,
    RUN_SLOT,
    Arguments,
    Getter,
    Need,
    RoutePlan,
    RouteStep,
    Scope,
    Slot,
    Source,
    can_be_provided,
    compiled_call,
    getter_of,
    key_of,
    members_of,
    parts_of,
    stands_for,
    step_of,
    type_name,
    union_of,
    unpacker,
)
from gandy.train.run import Run

AnyCallable: TypeAlias = Callable[..., object]


class Required:
    """Marks a parameter without a default."""


REQUIRED: Final = Required()


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter: its name, its type as annotated and as a cargo key, and its default."""

    name: str
    hint: object
    key: object
    default: object = REQUIRED
    by_keyword: bool = False

    @property
    def is_required(self) -> bool:
        """Whether the junction cannot be called without it."""
        return self.default is REQUIRED


@dataclass(frozen=True, slots=True)
class Junction:
    """One step of a train, as read from its signature."""

    name: str
    call: AnyCallable  # for a class: its constructor
    parameters: tuple[Parameter, ...]
    result: object  # as annotated, without End; Never where the junction always ends the train
    ends_with: object | None  # the type that End carries, if annotated
    is_async: bool
    method: str | None = None  # for a class: the method called on the instance
    constructor: tuple[Parameter, ...] = ()

    @property
    def returns(self) -> object:
        """The result as a cargo key; NoneType if there is none."""
        return key_of(self.result)


def read_junction(step: object) -> Junction:
    """Read a function, a callable instance, or a class that is instantiated for each run and then called."""
    if inspect.isclass(step):
        return _read_class(step)
    if not callable(step):
        problem = (
            f"{step!r} cannot be called; use a function, a callable object or a class with __call__ or run"
        )
        raise JunctionSignatureError(junction=repr(step), problem=problem)
    function = _function_of(step)
    return _read(_name_of(step), step, function)


def _read_class(step: type) -> Junction:
    method = next(
        (name for name in ("__call__", "run") if inspect.isfunction(getattr(step, name, None))), None
    )
    if method is None:
        problem = "the class has neither __call__ nor run; add the method that does the work"
        raise JunctionSignatureError(junction=step.__name__, problem=problem)
    make: AnyCallable = attrgetter("__init__")(step)
    constructor = () if make is object.__init__ else _parameters(step.__name__, step, make)
    # Bind a placeholder as self, so that the signature does not contain it.
    work = _read(step.__name__, functools.partial(getattr(step, method), None), getattr(step, method))
    return replace(work, call=step, method=method, constructor=constructor)


def _read(name: str, step: AnyCallable, function: AnyCallable) -> Junction:
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        problem = (
            "it is a generator function: calling it runs none of its code, and it has no single result; "
            "collect the yielded values in a list and return the list"
        )
        raise JunctionSignatureError(junction=name, problem=problem)
    parameters = _parameters(name, step, function)
    hints = _hints(name, function)
    if "return" not in hints:
        problem = "its result has no annotation; write `-> None` if it returns nothing"
        raise JunctionSignatureError(junction=name, problem=problem)
    result, ends_with = _split_end(hints["return"])
    return Junction(name, step, parameters, result, ends_with, inspect.iscoroutinefunction(function))


def _parameters(name: str, step: AnyCallable, function: AnyCallable) -> tuple[Parameter, ...]:
    hints = _hints(name, function)
    settled = step.keywords if isinstance(step, functools.partial) else {}
    open_ones = (each for each in inspect.signature(step).parameters.values() if each.name not in settled)
    return tuple(_parameter(name, each, hints) for each in open_ones)


def _parameter(junction: str, parameter: inspect.Parameter, hints: dict[str, object]) -> Parameter:
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        problem = f"{parameter} takes anything; name each parameter with its type"
        raise JunctionSignatureError(junction=junction, problem=problem)
    if parameter.name not in hints:
        problem = f"parameter {parameter.name!r} has no annotation; its type says which value it receives"
        raise JunctionSignatureError(junction=junction, problem=problem)
    default = REQUIRED if parameter.default is parameter.empty else parameter.default
    by_keyword = parameter.kind is parameter.KEYWORD_ONLY
    hint = hints[parameter.name]
    return Parameter(parameter.name, hint, key_of(hint), default, by_keyword)


def _split_end(hint: object) -> tuple[object, object | None]:
    """Split `Rates | End[Report]` into the type of the result and the type that ends the train."""
    members = members_of(hint)
    ends = [member for member in members if member is End or get_origin(member) is End]
    rest = tuple(member for member in members if member not in (*ends, Never, NoReturn))
    ends_with = get_args(ends[0])[0] if ends and get_args(ends[0]) else None
    return (union_of(rest) if rest else Never), ends_with


def _function_of(step: AnyCallable) -> AnyCallable:
    """Return the function that carries the annotations."""
    if isinstance(step, functools.partial):
        return _function_of(step.func)
    return step if inspect.isroutine(step) else type(step).__call__


def _name_of(step: AnyCallable) -> str:
    if isinstance(step, functools.partial):
        return _name_of(step.func)
    return str(getattr(step, "__name__", type(step).__name__))


def _hints(junction: str, function: AnyCallable) -> dict[str, object]:
    nearby: dict[str, object] = {}
    while True:
        try:
            return get_type_hints(function, localns=nearby, include_extras=True)
        except NameError as error:
            name = error.name or str(error)
            if name in nearby or not _find_nearby(name, nearby):
                raise _unresolved(junction, name) from error
        except (TypeError, SyntaxError) as error:
            problem = f"an annotation is not a type: {error}"
            raise JunctionSignatureError(junction=junction, problem=problem) from error


def _find_nearby(name: str, nearby: dict[str, object]) -> bool:
    """Search the callers' local variables for a type declared in the function that defines the train."""
    frame = inspect.currentframe()
    while frame is not None:
        is_ours = str(frame.f_globals.get("__name__", "")).startswith("gandy.train.")
        if not is_ours and name in frame.f_locals:
            nearby[name] = frame.f_locals[name]
            return True
        frame = frame.f_back
    return False


def _unresolved(junction: str, name: str) -> JunctionSignatureError:
    problem = (
        f"the annotation {name!r} cannot be resolved; import it at run time, not only under TYPE_CHECKING"
    )
    return JunctionSignatureError(junction=junction, problem=problem)


def plan_route(train: str, junctions: tuple[Junction, ...], *, takes: object, gives: object) -> RoutePlan:
    """Check that every parameter and the output have a source; raise the first problem found."""
    if not junctions:
        raise TrainDefinitionError(train=train, problem="its route is empty; name at least one junction")
    return _Planner(train, junctions, takes, gives).plan()


def plan_function(junction: Junction) -> RoutePlan:
    """Plan a train of one function: its input is bound by position, the other parameters are provided."""
    given = input_parameter(junction)
    if given is not None and given.by_keyword:
        problem = f"its input {given.name!r} is keyword-only; make it an ordinary parameter"
        raise JunctionSignatureError(junction=junction.name, problem=problem)
    takes = NOTHING if given is None else given.key
    return _Planner(junction.name, (junction,), takes, key_of(output_of(junction)), given).plan()


def input_parameter(junction: Junction) -> Parameter | None:
    """Return the parameter that takes the input of a function's train: the first that is not Run."""
    return next((each for each in junction.parameters if each.key is not Run), None)


def output_of(junction: Junction) -> object:
    """Return the annotated output type of a function's train."""
    return junction.ends_with if junction.result is Never and junction.ends_with else junction.result


@dataclass(slots=True)
class _Planner:
    train: str
    junctions: tuple[Junction, ...]
    takes: object
    gives: object
    given: Parameter | None = None  # a function's input, which is bound by position, not by type
    scope: Scope = field(default_factory=Scope)
    needs: list[Need] = field(default_factory=list)

    def plan(self) -> RoutePlan:
        layout = self.scope.add_input(self.takes) if self.given is None else None
        steps = [self._step(position, junction) for position, junction in enumerate(self.junctions)]
        return RoutePlan(
            train=self.train,
            input_key=self.takes,
            output_key=self.gives,
            unpack_input=None if layout is None else unpacker("input", layout),
            steps=tuple(steps),
            blank=tuple(self.scope.blank),
            needs=tuple(self.needs),
            output=self._output(),
        )

    def _step(self, position: int, junction: Junction) -> RouteStep:
        constructor = self._arguments(junction.constructor, lambda each: self._outside(junction, each))
        arguments = self._arguments(junction.parameters, lambda each: self._source(position, each))
        call = compiled_call(junction, arguments, constructor)
        self._check_end(junction)
        has_result = junction.returns not in (NOTHING, Never)
        return step_of(junction, call, self.scope.add(junction.returns) if has_result else NO_SLOT)

    def _arguments(
        self, parameters: tuple[Parameter, ...], source_of: Callable[[Parameter], Source]
    ) -> Arguments:
        sources = [(each, source_of(each)) for each in parameters]
        positional = tuple(source for each, source in sources if not each.by_keyword)
        return Arguments(
            positional, tuple((each.name, source) for each, source in sources if each.by_keyword)
        )

    def _source(self, position: int, parameter: Parameter) -> Source:
        if parameter is self.given:
            return INPUT_SLOT
        found = None if parameter.key is Run else self.scope.find(parameter.key)
        if found is not None:
            return found
        self._refuse_made_later(position, parameter)
        return self._outside(self.junctions[position], parameter)

    def _outside(self, junction: Junction, parameter: Parameter) -> Slot:
        """Find a source outside the route: the run, a provided value, a default."""
        if parameter.key is Run:
            return RUN_SLOT
        key = _without_none(parameter)
        if can_be_provided(key):
            return self._need(key, junction, parameter)
        if parameter.is_required:
            raise self._missing(junction, parameter)
        return self.scope.reserve(parameter.default)

    def _need(self, key: object, junction: Junction, parameter: Parameter) -> Slot:
        slot = self.scope.reserve(None if parameter.is_required else parameter.default)
        available = self.scope.available
        self.needs.append(Need(key, slot, junction.name, parameter.name, parameter.is_required, available))
        return slot

    def _refuse_made_later(self, position: int, parameter: Parameter) -> None:
        if not parameter.is_required:
            return
        for later in self.junctions[position + 1 :]:
            made = parts_of(later.returns) or (later.returns,)
            if any(stands_for(key, parameter.key) for key in made):
                raise self._missing(self.junctions[position], parameter, made_later_by=later.name)

    def _missing(
        self, junction: Junction, parameter: Parameter, made_later_by: str | None = None
    ) -> MissingCargoError:
        return MissingCargoError(
            train=self.train,
            junction=junction.name,
            parameter=parameter.name,
            missing=type_name(parameter.key),
            available=self.scope.available,
            made_later_by=made_later_by,
        )

    def _check_end(self, junction: Junction) -> None:
        if junction.ends_with is None:
            return
        ends_with = key_of(junction.ends_with)
        if not stands_for(ends_with, self.gives):
            problem = f"it ends {self.train} with {type_name(ends_with)}, which gives {type_name(self.gives)}"
            raise JunctionSignatureError(junction=junction.name, problem=problem)

    def _output(self) -> Getter:
        if self.gives is NOTHING or self.junctions[-1].returns is Never:
            return lambda _: None
        source = self.scope.find(self.gives)
        if source is None:
            raise MissingOutputError(
                train=self.train,
                missing=type_name(self.gives),
                available=self.scope.available,
                junction=self.junctions[-1].name,
            )
        return getter_of(source)


def _without_none(parameter: Parameter) -> object:
    """Read `Mailer | None = None` as an optional Mailer."""
    if parameter.is_required:
        return parameter.key
    members = tuple(member for member in members_of(parameter.key) if member is not NOTHING)
    return members[0] if len(members) == 1 else parameter.key
