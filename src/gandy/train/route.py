"""Routes: cargo, scopes, and the compiled plan of a train's junctions."""

from __future__ import annotations

import builtins
import datetime as dt
import decimal
import re
import types
import typing
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Final,
    Literal,
    NewType,
    TypeAlias,
    Union,
    cast,
    get_args,
    get_origin,
)

from gandy.errors import JunctionSignatureError

if TYPE_CHECKING:
    from gandy.train.junctions import AnyCallable, Junction


NOTHING: Final = type(None)
_UNIONS: Final = (Union, types.UnionType)
_OPAQUE: Final = (Literal, Callable)  # their arguments are not types
_DATA: Final = (
    Any,
    object,
    dt.datetime,
    dt.date,
    dt.time,
    dt.timedelta,
    decimal.Decimal,
    uuid.UUID,
)


def key_of(hint: object) -> object:
    """Return the canonical type: no Annotated, no alias, `list[X]` for `List[X]`; a NewType stays."""
    if hint is None:
        return NOTHING
    if type(hint).__name__ == "TypeAliasType":
        return key_of(getattr(hint, "__value__", None))
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is None or not arguments or origin in _OPAQUE:
        return hint
    if origin is Annotated:
        return key_of(arguments[0])
    keys = tuple(... if argument is ... else key_of(argument) for argument in arguments)
    return union_of(keys) if origin in _UNIONS else _subscripted(origin, keys)


def union_of(members: tuple[object, ...]) -> object:
    """Return the union of these types."""
    return _subscripted(Union, members)


def members_of(key: object) -> tuple[object, ...]:
    """Return the members of a union, or the type itself."""
    return get_args(key) if get_origin(key) in _UNIONS else (key,)


def parts_of(key: object) -> tuple[object, ...]:
    """Return the element types of a tuple that is carried element by element, else nothing.

    A tuple of variable length, or with a repeated type, cannot be split by type: it is carried whole.
    """
    parts = get_args(key)
    if get_origin(key) is not tuple or ... in parts or len(set(parts)) != len(parts):
        return ()
    return parts


def stands_for(source: object, target: object) -> bool:
    """Return whether a value declared as `source` may be passed to a parameter of type `target`."""
    if source == target:
        return True
    if target in (Any, object):
        return False  # every value matches, so the type selects none
    if get_origin(source) in _UNIONS:
        return all(stands_for(member, target) for member in get_args(source))
    if get_origin(target) in _UNIONS:
        return any(stands_for(source, member) for member in get_args(target))
    if isinstance(source, NewType):
        return stands_for(key_of(source.__supertype__), target)
    return _is_subtype(source, target)


def can_be_provided(key: object) -> bool:
    """Return whether a type may be provided: plain data types are cargo, a service has its own type."""
    base = get_origin(key) or key
    if key in _DATA or base in _UNIONS or base in _OPAQUE or isinstance(key, typing.TypeVar):
        return False
    return isinstance(key, NewType) or (
        isinstance(base, type) and getattr(builtins, base.__name__, None) is not base
    )


def type_name(hint: object) -> str:
    """Return a type as written in source code, without modules."""
    if hint is NOTHING:
        return "None"
    if isinstance(hint, NewType):
        return hint.__name__
    text = hint.__qualname__ if isinstance(hint, type) and not get_args(hint) else repr(hint)
    return re.sub(r"[\w.<>]+\.(?=\w)", "", text)


def _is_subtype(source: object, target: object) -> bool:
    if get_args(target) and get_args(source) != get_args(target):
        return False
    base, wanted = get_origin(source) or source, get_origin(target) or target
    try:
        return isinstance(base, type) and isinstance(wanted, type) and issubclass(base, wanted)
    except TypeError:  # a Protocol without runtime checks, or a TypedDict
        return False


def _subscripted(origin: Any, arguments: tuple[object, ...]) -> object:  # noqa: ANN401 - no type for "any generic"
    return origin[arguments]


Cargo: TypeAlias = list[object]
Slot: TypeAlias = int
Source: TypeAlias = "Slot | tuple[Source, ...]"  # a slot, or a tuple composed of several
Getter: TypeAlias = Callable[[Cargo], object]
Call: TypeAlias = Callable[[Cargo], object]
AsyncCall: TypeAlias = Callable[[Cargo], Awaitable[object]]

INPUT_SLOT: Final = 0
RUN_SLOT: Final = 1
FIRST_FREE_SLOT: Final = 2
NO_SLOT: Final = -1


@dataclass(frozen=True, slots=True)
class Arguments:
    """The sources of the arguments of one call."""

    positional: tuple[Source, ...] = ()
    named: tuple[tuple[str, Source], ...] = ()


@dataclass(frozen=True, slots=True)
class Need:
    """A value that must be provided from outside, and the junction that needs it."""

    key: object
    slot: Slot
    junction: str
    parameter: str
    is_required: bool
    available: tuple[str, ...]  # the types on the route at that point, for the message


@dataclass(frozen=True, slots=True)
class RouteStep:
    """One junction, ready to be called."""

    name: str
    call: Call
    start: AsyncCall | None  # the same call, where it returns an awaitable
    slot: Slot  # of a single result; NO_SLOT if nothing is kept or `unpack` stores it
    unpack: Callable[[Cargo, object], None] | None = None


@dataclass(frozen=True, slots=True)
class RoutePlan:
    """A checked route."""

    train: str
    input_key: object
    output_key: object
    unpack_input: (
        Callable[[Cargo, object], None] | None
    )  # an input that is a tuple is carried by its elements
    steps: tuple[RouteStep, ...]
    blank: tuple[object, ...]  # the cargo before a run, with defaults in their slots
    needs: tuple[Need, ...]
    output: Getter


def step_of(junction: Junction, call: Call, layout: Source) -> RouteStep:
    """Make a step of a compiled call and the slots of its result."""
    start = cast("AsyncCall", call) if junction.is_async else None
    if isinstance(layout, int):
        return RouteStep(junction.name, call, start, layout)
    return RouteStep(junction.name, call, start, NO_SLOT, unpacker(junction.name, layout))


def step_calling(step: RouteStep, call: Call) -> RouteStep:
    """Return the step with another call."""
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
    """Return a function that reads a source from the cargo."""
    if isinstance(source, int):
        return itemgetter(source)
    getters = tuple(getter_of(part) for part in source)
    return lambda cargo: tuple(get(cargo) for get in getters)


def unpacker(junction: str, layout: Source) -> Callable[[Cargo, object], None]:
    """Return a function that puts a tuple into the cargo element by element."""
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
    """Specialise the common shapes, which need no tuple and dict for each call."""
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


@dataclass(slots=True)
class Scope:
    """Grows junction by junction while a route is checked. A later value of a type hides an earlier one."""

    blank: list[object] = field(default_factory=lambda: [None] * FIRST_FREE_SLOT)
    _stored: list[tuple[object, Slot]] = field(default_factory=list)

    def add_input(self, key: object) -> Source | None:
        """Make the train's input available; a tuple is split like a junction's result."""
        if parts_of(key):
            return self.add(key)
        if key is not NOTHING:
            self._stored.append((key, INPUT_SLOT))
        return None

    def add(self, key: object) -> Source:
        """Make a result available and return its slots."""
        parts = parts_of(key)
        if parts:
            return tuple(self.add(part) for part in parts)
        slot = self.reserve(None)
        self._stored.append((key, slot))
        return slot

    def reserve(self, default: object) -> Slot:
        """Take a slot that holds this value when a run begins."""
        self.blank.append(default)
        return len(self.blank) - 1

    def find(self, key: object) -> Source | None:
        """Return the source of a type: an exact match, else a tuple's parts, else the latest subtype."""
        for stored, slot in reversed(self._stored):
            if stored == key:
                return slot
        composed = self._compose(parts_of(key))
        if composed is not None:
            return composed
        return next((slot for stored, slot in reversed(self._stored) if stands_for(stored, key)), None)

    @property
    def available(self) -> tuple[str, ...]:
        """The names of the available types, in the order in which they were added."""
        return tuple(dict.fromkeys(type_name(stored) for stored, _ in self._stored))

    def _compose(self, parts: tuple[object, ...]) -> Source | None:
        sources = [self.find(part) for part in parts]
        found = tuple(source for source in sources if source is not None)
        return found if parts and len(found) == len(parts) else None
