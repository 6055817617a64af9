"""What type checkers see of a train that is passed around: a class or a function, bound to its input's type.

Parameters `train: FunctionOf[In], input: In` refuse a wrong input; overloads add the other shapes of a train.
A class has one of its own: mypy solves a union of class and function for the exact type of the input only.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Concatenate, TypeAlias, TypeVar

from gandy.train.base import Train
from gandy.train.inside.run import Run

In = TypeVar("In")
Out = TypeVar("Out")

# Where only the input matters: schedule, then, schedule_many.
FunctionOf: TypeAlias = Callable[Concatenate[In, ...], object]
RunFirstTrainOf: TypeAlias = Callable[Concatenate[Run, In, ...], object]
TrainWithoutInput: TypeAlias = (
    type[Train[None, Any]]
    | Callable[[], object]
    | Callable[[Run], object]
    | Callable[Concatenate[None, ...], object]
)

# Where the output matters too: enqueue, run. Overloads name the async form first, or it would never match.
AsyncFunction: TypeAlias = Callable[Concatenate[In, ...], Awaitable[Out]]
SyncFunction: TypeAlias = Callable[Concatenate[In, ...], Out]
AsyncRunFirst: TypeAlias = Callable[Concatenate[Run, In, ...], Awaitable[Out]]
SyncRunFirst: TypeAlias = Callable[Concatenate[Run, In, ...], Out]
AsyncWithoutInput: TypeAlias = (
    Callable[[], Awaitable[Out]]
    | Callable[[Run], Awaitable[Out]]
    | Callable[Concatenate[None, ...], Awaitable[Out]]
)
SyncWithoutInput: TypeAlias = Callable[[], Out] | Callable[[Run], Out] | Callable[Concatenate[None, ...], Out]

AnyFunction = TypeVar("AnyFunction", bound=Callable[..., object])  # a decorated function stays what it was
AnyTrainClass = TypeVar("AnyTrainClass", bound=type[Train[Any, Any]])
