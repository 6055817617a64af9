"""An app as type checkers see it: the overloads that the real one has, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Generic, TypeVar, overload

from gandy.train.base import Train
from gandy.train.typed import (
    AnyFunction,
    AnyTrainClass,
    AsyncFunction,
    AsyncRunFirst,
    AsyncWithoutInput,
    RunFirstTrainOf,
    SyncFunction,
    SyncRunFirst,
    SyncWithoutInput,
    TrainOf,
    TrainWithoutInput,
)

In = TypeVar("In")
Out = TypeVar("Out")
JobOut = TypeVar("JobOut", covariant=True)


class Schedule: ...


class Job(Generic[JobOut]):
    async def result(self, timeout: float | None = None) -> JobOut: ...


class Scheduled:
    @overload
    def then(self, id: str, train: TrainWithoutInput, *, dormant: bool = ...) -> Scheduled: ...
    @overload
    def then(self, id: str, train: TrainOf[In], input: In, *, dormant: bool = ...) -> Scheduled: ...
    @overload
    def then(self, id: str, train: RunFirstTrainOf[In], input: In, *, dormant: bool = ...) -> Scheduled: ...
    def then(self, id: str, train: object, input: object = None, *, dormant: bool = False) -> Scheduled: ...


class App:
    @overload
    def train(self, function: AnyFunction, /) -> AnyFunction: ...
    @overload
    def train(
        self, /, *, name: str | None = ..., process: bool = ...
    ) -> Callable[[AnyFunction], AnyFunction]: ...
    def train(
        self, function: AnyFunction | None = None, /, *, name: str | None = None, process: bool = False
    ) -> AnyFunction | Callable[[AnyFunction], AnyFunction]: ...

    def register(self, train: AnyTrainClass) -> AnyTrainClass: ...

    @overload
    def schedule(self, id: str, train: TrainWithoutInput, schedule: Schedule, /) -> Scheduled: ...
    @overload
    def schedule(self, id: str, train: TrainWithoutInput, *, schedule: Schedule) -> Scheduled: ...
    @overload
    def schedule(self, id: str, train: TrainOf[In], input: In, schedule: Schedule) -> Scheduled: ...
    @overload
    def schedule(self, id: str, train: RunFirstTrainOf[In], input: In, schedule: Schedule) -> Scheduled: ...
    def schedule(
        self, id: str, train: object, input: object = None, schedule: Schedule | None = None
    ) -> Scheduled: ...

    @overload
    def schedule_many(
        self, name: str, train: TrainOf[In], inputs: Mapping[str, In], schedule: Schedule
    ) -> list[Scheduled]: ...
    @overload
    def schedule_many(
        self, name: str, train: RunFirstTrainOf[In], inputs: Mapping[str, In], schedule: Schedule
    ) -> list[Scheduled]: ...
    def schedule_many(
        self, name: str, train: object, inputs: Mapping[str, In], schedule: Schedule
    ) -> list[Scheduled]: ...

    @overload
    async def enqueue(self, train: type[Train[None, Out]], *, priority: int | None = ...) -> Job[Out]: ...
    @overload
    async def enqueue(
        self, train: type[Train[In, Out]], input: In, *, priority: int | None = ...
    ) -> Job[Out]: ...
    @overload
    async def enqueue(self, train: AsyncWithoutInput[Out], *, priority: int | None = ...) -> Job[Out]: ...
    @overload
    async def enqueue(self, train: SyncWithoutInput[Out], *, priority: int | None = ...) -> Job[Out]: ...
    @overload
    async def enqueue(
        self, train: AsyncFunction[In, Out], input: In, *, priority: int | None = ...
    ) -> Job[Out]: ...
    @overload
    async def enqueue(
        self, train: AsyncRunFirst[In, Out], input: In, *, priority: int | None = ...
    ) -> Job[Out]: ...
    @overload
    async def enqueue(
        self, train: SyncFunction[In, Out], input: In, *, priority: int | None = ...
    ) -> Job[Out]: ...
    @overload
    async def enqueue(
        self, train: SyncRunFirst[In, Out], input: In, *, priority: int | None = ...
    ) -> Job[Out]: ...
    async def enqueue(
        self, train: object, input: object = None, *, priority: int | None = None
    ) -> Job[object]: ...
