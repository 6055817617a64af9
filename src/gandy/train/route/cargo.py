"""Types as the keys of cargo: one form for each, which may stand for which, and how they are called."""

from __future__ import annotations

import builtins
import datetime as dt
import decimal
import re
import types
import typing
import uuid
from collections.abc import Callable
from typing import Annotated, Any, Final, Literal, NewType, Union, get_args, get_origin

NOTHING: Final = type(None)
_UNIONS: Final = (Union, types.UnionType)
_OPAQUE: Final = (Literal, Callable)  # their arguments are no types to be looked into
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
    """Return the one form of a type: no Annotated, no alias, `list[X]` for `List[X]`; a NewType is itself."""
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

    A tuple of any length, and one that holds a type twice, cannot be told apart by type: it is carried whole.
    """
    parts = get_args(key)
    if get_origin(key) is not tuple or ... in parts or len(set(parts)) != len(parts):
        return ()
    return parts


def stands_for(source: object, target: object) -> bool:
    """Whether a value declared as `source` may be passed where `target` is asked for."""
    if source == target:
        return True
    if target in (Any, object):
        return False  # anything would do: such a parameter says nothing about what it wants
    if get_origin(source) in _UNIONS:
        return all(stands_for(member, target) for member in get_args(source))
    if get_origin(target) in _UNIONS:
        return any(stands_for(source, member) for member in get_args(target))
    if isinstance(source, NewType):
        return stands_for(key_of(source.__supertype__), target)
    return _is_subtype(source, target)


def can_be_provided(key: object) -> bool:
    """Whether a type may be injected: plain data types are cargo, a service has a type of its own."""
    base = get_origin(key) or key
    if key in _DATA or base in _UNIONS or base in _OPAQUE or isinstance(key, typing.TypeVar):
        return False
    return isinstance(key, NewType) or (
        isinstance(base, type) and getattr(builtins, base.__name__, None) is not base
    )


def type_name(hint: object) -> str:
    """Return a type as a person would write it, without modules."""
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
    except TypeError:  # a Protocol or TypedDict that cannot be asked
        return False


def _subscripted(origin: Any, arguments: tuple[object, ...]) -> object:  # noqa: ANN401 - no type for "any generic"
    return origin[arguments]
