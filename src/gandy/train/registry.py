"""The trains of an application, and the values that are provided to them."""

from __future__ import annotations

import functools
import inspect
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    AsyncExitStack,
    asynccontextmanager,
)
from typing import TYPE_CHECKING, TypeAlias, TypeGuard

from gandy.errors import DuplicateTrainError, ProvideError, UnknownTrainError
from gandy.settings.values import similar_names
from gandy.train.execution import ProvidedValues, describe_need, missing_provided
from gandy.train.route import can_be_provided, key_of, type_name

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from gandy.train.definition import TrainDefinition


AnyTrain: TypeAlias = "TrainDefinition[object, object]"


class Registry:
    """Finds a train by its name, or by the function or class that it was made from."""

    def __init__(self) -> None:
        self._by_name: dict[str, AnyTrain] = {}
        self._by_source: dict[object, AnyTrain] = {}
        self.dormant: dict[str, AnyTrain] = {}  #: the trains of declared dormant dependents, by external id

    def add(self, definition: AnyTrain) -> None:
        """Register a train; its input and output must have a JSON form, its name must be new."""
        known = self._by_name.get(definition.name)
        if known is not None:
            raise DuplicateTrainError(name=definition.name, first=known.place, second=definition.place)
        _ = definition.input.adapter, definition.output.adapter
        self._by_name[definition.name] = definition
        self._by_source[definition.source] = definition

    def get(self, name: str) -> AnyTrain:
        """Return the train of that name."""
        definition = self._by_name.get(name)
        if definition is None:
            raise self._unknown(name)
        return definition

    def resolve(self, train: str | type | Callable[..., object]) -> AnyTrain:
        """Return the train that a name, a function or a class stands for."""
        if isinstance(train, str):
            return self.get(train)
        definition = self._by_source.get(train)
        if definition is None:
            raise self._unknown(getattr(train, "__name__", repr(train)))
        return definition

    @property
    def names(self) -> tuple[str, ...]:
        """Every name, sorted."""
        return tuple(sorted(self._by_name))

    def __iter__(self) -> Iterator[AnyTrain]:
        return iter(self._by_name.values())

    def __len__(self) -> int:
        return len(self._by_name)

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def check_provided(self, provided: ProvidedValues) -> None:
        """Raise one error that names every required value that is not provided."""
        missing = tuple(
            describe_need(definition.name, need)
            for definition in self
            for need in definition.required
            if need.key not in provided
        )
        if missing:
            raise missing_provided(missing, provided)

    def _unknown(self, name: str) -> UnknownTrainError:
        return UnknownTrainError(name=name, known=self.names, similar=similar_names(name, self._by_name))


class OfThisProcess:
    """Base of provided values that cannot be passed to another process, such as an open connection.

    A run that is suspected of killing its workers is isolated in another process, unless it needs such a
    value.
    """

    __slots__ = ()


class Provided:
    """The provided values of an application, or their factories (sync, async, context managers)."""

    def __init__(self) -> None:
        self._sources: dict[object, object] = {}

    def add(self, provided: object, source: object) -> None:
        """Declare a value, or a factory for one, under a type."""
        key = key_of(provided)
        if not can_be_provided(key):
            problem = "plain data cannot be distinguished by type; give it a NewType or its own class"
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
        # An instance of the wanted type is the value itself, even if it is a context manager (like a lock).
        if _is_instance(made, key):
            return made
        if isinstance(made, AbstractAsyncContextManager):
            return await stack.enter_async_context(made)
        return stack.enter_context(made) if isinstance(made, AbstractContextManager) else made
    except Exception as error:
        problem = f"its factory raised {type(error).__name__}: {error}"
        raise ProvideError(provided=type_name(key), problem=problem) from error


def _is_factory(source: object, key: object) -> TypeGuard[Callable[[], object]]:
    """Return whether the source is a factory: a function or a class, and no instance of the type."""
    if _is_instance(source, key):
        return False
    return inspect.isroutine(source) or inspect.isclass(source) or isinstance(source, functools.partial)


def _is_instance(value: object, key: object) -> bool:
    try:
        return isinstance(key, type) and isinstance(value, key)
    except TypeError:  # a Protocol without runtime checks
        return False
