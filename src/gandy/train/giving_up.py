"""Exceptions after which another attempt makes no sense."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gandy.settings.bounds import BOUNDS
from gandy.train.signals import Retry

if TYPE_CHECKING:
    from collections.abc import Iterator

_MOST_IN_A_GROUP: Final = 10_000
# read from the classes themselves: an exception or a metaclass may answer with code of its own
_mro_of = type.__dict__["__mro__"].__get__
_members_of = BaseExceptionGroup.__dict__["exceptions"].__get__


def give_up_problems(kinds: object) -> tuple[str, ...]:
    """Say in words what is wrong with the exceptions that a train gives up on, beyond their bound."""
    if BOUNDS["give_up_on"].holds(kinds) and isinstance(kinds, tuple) and any(map(_is_retry, kinds)):
        return ("give_up_on cannot name Retry, which asks for another attempt",)
    return ()


def _is_retry(kind: type) -> bool:
    return issubclass(kind, Retry)


def gives_up(exception: BaseException, kinds: tuple[type[Exception], ...]) -> bool:
    """Tell whether an exception, or any exception of a group, is of one of these classes or derived from one.

    Any of a group is enough: while one part is bound to fail, no further attempt of the whole can succeed.
    """
    if not kinds:
        return False
    return any(kind in _mro_of(type(each)) for each in _leaves(exception) for kind in kinds)


def _leaves(exception: BaseException) -> Iterator[BaseException]:
    waiting = [exception]
    for _ in range(_MOST_IN_A_GROUP):
        if not waiting:
            return
        each = waiting.pop()
        yield each
        if BaseExceptionGroup in _mro_of(type(each)):
            waiting.extend(_members_of(each))
