"""The compiled form of a route: what to call with which slots, so that a run looks nothing up."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import TYPE_CHECKING, Final, TypeAlias, cast

from gandy.errors import JunctionSignatureError

if TYPE_CHECKING:
    from gandy.train.route.junction import AnyCallable, Junction

Cargo: TypeAlias = list[object]
Slot: TypeAlias = int
Source: TypeAlias = "Slot | tuple[Source, ...]"  # a slot, or a tuple put together again from several
Getter: TypeAlias = Callable[[Cargo], object]
Call: TypeAlias = Callable[[Cargo], object]
AsyncCall: TypeAlias = Callable[[Cargo], Awaitable[object]]

INPUT_SLOT: Final = 0
RUN_SLOT: Final = 1
FIRST_FREE_SLOT: Final = 2
NO_SLOT: Final = -1


@dataclass(frozen=True, slots=True)
class Arguments:
    """Where the arguments of one call come from."""

    positional: tuple[Source, ...] = ()
    named: tuple[tuple[str, Source], ...] = ()


@dataclass(frozen=True, slots=True)
class Need:
    """A value that must be provided from outside, and the junction that asks for it."""

    key: object
    slot: Slot
    junction: str
    parameter: str
    is_required: bool
    available: tuple[str, ...]  # what the route itself has at that point, for the message


@dataclass(frozen=True, slots=True)
class Step:
    """One junction, ready to be called."""

    name: str
    call: Call
    start: AsyncCall | None  # the same call, where it returns an awaitable
    slot: Slot  # where a single result goes; NO_SLOT where nothing is kept or `unpack` does it
    unpack: Callable[[Cargo, object], None] | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """A checked route."""

    train: str
    input_key: object
    output_key: object
    unpack_input: (
        Callable[[Cargo, object], None] | None
    )  # an input that is a tuple is carried by its elements
    steps: tuple[Step, ...]
    blank: tuple[object, ...]  # the cargo before a run; defaults lie in their slots
    needs: tuple[Need, ...]
    output: Getter


def step_of(junction: Junction, call: Call, layout: Source) -> Step:
    """Put a compiled call and the place of its result together."""
    start = cast("AsyncCall", call) if junction.is_async else None
    if isinstance(layout, int):
        return Step(junction.name, call, start, layout)
    return Step(junction.name, call, start, NO_SLOT, unpacker(junction.name, layout))


def step_calling(step: Step, call: Call) -> Step:
    """Return the step with something else around its call."""
    return replace(step, call=call, start=None if step.start is None else cast("AsyncCall", call))


def compiled_call(junction: Junction, arguments: Arguments, constructor: Arguments) -> Call:
    """Return the junction as a function of the cargo alone."""
    if junction.method is None:
        return _bound(junction.call, arguments)
    make, method, arguments_of = (
        _bound(junction.call, constructor),
        junction.method,
        _arguments_getter(arguments),
    )

    def call(cargo: Cargo) -> object:
        positional, named = arguments_of(cargo)
        work: AnyCallable = getattr(make(cargo), method)
        return work(*positional, **named)

    return call


def getter_of(source: Source) -> Getter:
    """Return what reads a source from the cargo."""
    if isinstance(source, int):
        return itemgetter(source)
    getters = tuple(getter_of(part) for part in source)
    return lambda cargo: tuple(get(cargo) for get in getters)


def unpacker(junction: str, layout: Source) -> Callable[[Cargo, object], None]:
    """Return what lays a tuple into the cargo element by element."""
    parts = layout if isinstance(layout, tuple) else (layout,)

    def unpack(cargo: Cargo, value: object) -> None:
        if not isinstance(value, tuple) or len(value) != len(parts):
            problem = f"it declares a tuple of {len(parts)} and returned {type(value).__name__}"
            raise JunctionSignatureError(junction=junction, problem=problem)
        for part, element in zip(parts, value, strict=True):
            if isinstance(part, int):
                cargo[part] = element
            else:
                unpacker(junction, part)(cargo, element)

    return unpack


def _bound(function: AnyCallable, arguments: Arguments) -> Call:
    """Specialise the common shapes: each spares the general one's tuple and dict."""
    slots = [source for source in arguments.positional if isinstance(source, int)]
    if arguments.named or len(slots) != len(arguments.positional):
        arguments_of = _arguments_getter(arguments)
        return lambda cargo: _call(function, *arguments_of(cargo))
    match slots:
        case []:
            return lambda _: function()
        case [only]:
            return lambda cargo: function(cargo[only])
        case [first, second]:
            return lambda cargo: function(cargo[first], cargo[second])
        case _:
            pick = itemgetter(*slots)
            return lambda cargo: function(*pick(cargo))


def _call(function: AnyCallable, positional: tuple[object, ...], named: dict[str, object]) -> object:
    return function(*positional, **named)


def _arguments_getter(
    arguments: Arguments,
) -> Callable[[Cargo], tuple[tuple[object, ...], dict[str, object]]]:
    positional = tuple(getter_of(source) for source in arguments.positional)
    named = tuple((name, getter_of(source)) for name, source in arguments.named)
    return lambda cargo: (tuple(get(cargo) for get in positional), {name: get(cargo) for name, get in named})
