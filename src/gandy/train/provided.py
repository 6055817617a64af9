"""Values injected by type: made once when the app opens, closed in reverse when it closes."""

from __future__ import annotations

import functools
import inspect
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    AsyncExitStack,
    asynccontextmanager,
)
from typing import TYPE_CHECKING, TypeGuard

from gandy.errors import ProvideError
from gandy.train.route.cargo import can_be_provided, key_of, type_name

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from gandy.train.execution import ProvidedValues


class OfThisProcess:
    """A provided value that no other process can be given, such as an open connection of the application's.

    A run that is suspected of killing its workers is isolated in another process, unless it needs one.
    """

    __slots__ = ()


class Provided:
    """What an application provides: values, or factories (sync, async, context managers) of them."""

    def __init__(self) -> None:
        self._sources: dict[object, object] = {}

    def add(self, provided: object, source: object) -> None:
        """Declare a value, or a factory for one, under a type."""
        key = key_of(provided)
        if not can_be_provided(key):
            problem = "plain data cannot be told apart by type; give it a NewType or a class of its own"
            raise ProvideError(provided=type_name(key), problem=problem)
        if key in self._sources:
            raise ProvideError(provided=type_name(key), problem="it is provided already")
        self._sources[key] = source

    @property
    def declared(self) -> ProvidedValues:
        """The types that are provided, each with its value or factory."""
        return self._sources

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[ProvidedValues]:
        """Make every value in the order of declaration; close them in reverse."""
        async with AsyncExitStack() as stack:
            yield {key: await _made(key, source, stack) for key, source in self._sources.items()}


async def _made(key: object, source: object, stack: AsyncExitStack) -> object:
    if not _is_factory(source, key):
        return source
    try:
        made = source()
        if inspect.isawaitable(made):
            made = await made
        # What is already of the wanted type is the value itself, even if it can be entered (a lock can, too).
        if _is_instance(made, key):
            return made
        if isinstance(made, AbstractAsyncContextManager):
            return await stack.enter_async_context(made)
        return stack.enter_context(made) if isinstance(made, AbstractContextManager) else made
    except Exception as error:
        problem = f"its factory raised {type(error).__name__}: {error}"
        raise ProvideError(provided=type_name(key), problem=problem) from error


def _is_factory(source: object, key: object) -> TypeGuard[Callable[[], object]]:
    """Tell a factory from a value: a value is of the type itself, a factory is a function or a class."""
    if _is_instance(source, key):
        return False
    return inspect.isroutine(source) or inspect.isclass(source) or isinstance(source, functools.partial)


def _is_instance(value: object, key: object) -> bool:
    try:
        return isinstance(key, type) and isinstance(value, key)
    except TypeError:  # a Protocol that cannot be asked
        return False
