"""Reading a junction: what a callable takes and returns, found once when its train is defined."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Final, Never, NoReturn, TypeAlias, get_args, get_origin, get_type_hints

from gandy.errors import JunctionSignatureError
from gandy.train.route.cargo import key_of, members_of, union_of
from gandy.train.signals import End

AnyCallable: TypeAlias = Callable[..., object]


class Required:
    """Stands for a parameter without a default."""


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
    """One step of a train as its signature tells it."""

    name: str
    call: AnyCallable  # for a class: its constructor
    parameters: tuple[Parameter, ...]
    result: object  # as annotated, without End; Never where the junction always ends the train
    ends_with: object | None  # what End carries, where the annotation says so
    is_async: bool
    method: str | None = None  # for a class: the method called on the instance
    constructor: tuple[Parameter, ...] = ()

    @property
    def returns(self) -> object:
        """The result as a cargo key; NoneType where nothing is carried on."""
        return key_of(self.result)


def read_junction(step: object) -> Junction:
    """Read a function, a callable instance, or a class that is made for each run and then called."""
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
    # Bound to a placeholder, the method shows its parameters without self.
    work = _read(step.__name__, functools.partial(getattr(step, method), None), getattr(step, method))
    return replace(work, call=step, method=method, constructor=constructor)


def _read(name: str, step: AnyCallable, function: AnyCallable) -> Junction:
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        problem = (
            "it is a generator function: calling it runs none of its code, and it has no single result; "
            "collect what it yields in a list and return that"
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
    """Part `Rates | End[Report]` into what is carried on and what ends the train."""
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
    """Look for a type declared inside the function that defines the train; only for names no module knows."""
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
