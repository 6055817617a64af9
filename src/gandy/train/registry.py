"""The trains of one application. Names resolve here and nowhere else."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, TypeAlias

from gandy.errors import DuplicateTrainError, UnknownTrainError
from gandy.train.execution import ProvidedValues, describe_need, missing_provided

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

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
        """Raise one error that names every value some train needs and nobody provides."""
        missing = tuple(
            describe_need(definition.name, need)
            for definition in self
            for need in definition.required
            if need.key not in provided
        )
        if missing:
            raise missing_provided(missing, provided)

    def _unknown(self, name: str) -> UnknownTrainError:
        similar = difflib.get_close_matches(name, self._by_name)
        return UnknownTrainError(name=name, known=self.names, similar=tuple(similar))
