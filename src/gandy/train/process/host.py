"""Finding trains in a new process: by importing the place that the parent names."""

from __future__ import annotations

import importlib
from operator import attrgetter
from typing import Any, Protocol, runtime_checkable

from gandy.errors import TrainProcessError
from gandy.train.definition import TrainDefinition
from gandy.train.provided import Provided
from gandy.train.registry import Registry


@runtime_checkable
class TrainHost(Protocol):
    """What an app offers to the processes of its trains."""

    registry: Registry
    provided: Provided


def load_host(place: str) -> TrainHost:
    """Import "module:name", an app or a Train class, and return it as a host."""
    module, _, name = place.partition(":")
    found: object = attrgetter(name)(importlib.import_module(module))
    if isinstance(found, TrainHost):
        return found
    definition = getattr(found, "definition", None)
    if not isinstance(definition, TrainDefinition):
        raise TrainProcessError(train=place, problem="it is neither an app nor a Train class")
    return _SingleTrain(definition)


def host_of(definition: TrainDefinition[Any, Any]) -> str:
    """Return the place of a train that runs without an app: its own class."""
    module, name = definition.source.__module__, definition.source.__qualname__
    if "<locals>" in name:
        problem = "a train with process=True must be importable: define it at the top level of a module"
        raise TrainProcessError(train=definition.name, problem=problem)
    if module == "__main__":
        problem = (
            "a train with process=True must be importable, and this one is defined in the script that is "
            "being run (__main__), which a process would have to run again: move it to a module and import it"
        )
        raise TrainProcessError(train=definition.name, problem=problem)
    return f"{module}:{name}"


class _SingleTrain:
    def __init__(self, definition: TrainDefinition[Any, Any]) -> None:
        self.registry = Registry()
        self.registry.add(definition)
        self.provided = Provided()
