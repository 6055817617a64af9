"""`Train`, the base class of work; its engine; and the types of functions that can be a train."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import contextmanager
from functools import cache
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Concatenate,
    Final,
    Generic,
    Literal,
    Never,
    TypeAlias,
    TypeVar,
    assert_never,
    get_args,
    get_origin,
    overload,
)

from gandy.errors import TrainDefinitionError
from gandy.model.run import Cancelled, Completed, Failed, Outcome
from gandy.train.definition import OPTION_NAMES, TrainDefinition, TrainOptions, define_route
from gandy.train.execution import NOTHING_PROVIDED, ProvidedValues, contained, execute, execute_apart
from gandy.train.failure import CancelRun
from gandy.train.process.runner import ProcessRunner, RunSet
from gandy.train.registry import OfThisProcess
from gandy.train.route import key_of
from gandy.train.run import Run
from gandy.train.threads import ThreadPool

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Coroutine, Iterator
    from datetime import timedelta

    from gandy.settings.bounds import Timeout
    from gandy.train.process.runner import ProcessLimits


DEFAULT_MAX_THREADS: Final = 32


class Engine:
    """Runs trains: async junctions on the event loop, sync junctions in threads, some trains in processes."""

    def __init__(
        self,
        *,
        host: str | None = None,
        max_threads: int = DEFAULT_MAX_THREADS,
        max_processes: int | None = None,
    ) -> None:
        """Take as `host` the app's place "module:name", from which child processes import it."""
        self._threads = ThreadPool(max_threads, "gandy-junction")
        self._processes = ProcessRunner(host=host, max_processes=max_processes)

    @property
    def places(self) -> ProcessLimits:
        """The limit on child processes: how many there are, and how many are free."""
        return self._processes.places

    def can_leave(self, definition: TrainDefinition[Any, Any]) -> bool:
        """Return whether another process can import the app and make all values that this train needs."""
        return self._processes.host is not None and not _is_bound_here(definition)

    @contextmanager
    def isolation(self, size: int, *, is_here: bool = False) -> Iterator[RunSet]:
        """Make a set of runs that are isolated together; `is_here`: a run that cannot leave this process."""
        together = RunSet(size, is_here=is_here)
        try:
            yield together
        finally:
            self._processes.release(together)

    def execute(
        self,
        definition: TrainDefinition[Any, Any],
        value: object,
        *,
        run: Run,
        provided: ProvidedValues = NOTHING_PROVIDED,
        together: RunSet | None = None,
        is_leaving: Callable[[], bool] | None = None,
        task: asyncio.Task[Any] | None = None,
    ) -> Coroutine[Any, Any, Outcome[Any]]:
        """Run a train and return how it ended.

        `together` is the set that the run is isolated with. `is_leaving` returns whether the caller cancelled
        the task; without it the train gets its own task, to which a cancellation by the job is limited.
        `task` is the current task, if the caller knows it.
        """
        if definition.input.has_secrets:
            run.hide(definition.input.secrets(value))
        if definition.options.process or (together is not None and not together.is_here):
            work = self._processes.execute(definition, value, run=run, together=together)
            return work if is_leaving is None else contained(work, run=run, is_leaving=is_leaving)
        if is_leaving is None:
            return execute_apart(definition.plan, value, run=run, provided=provided, threads=self._threads)
        return execute(
            definition.plan,
            value,
            run=run,
            provided=provided,
            threads=self._threads,
            is_leaving=is_leaving,
            task=task,
        )

    async def close(self) -> None:
        """End the idle processes and release the threads, without waiting for threads that still run."""
        self._threads.close()
        await self._processes.close()


def _is_bound_here(definition: TrainDefinition[Any, Any]) -> bool:
    keys = (need.key for need in definition.plan.needs)
    return any(isinstance(key, type) and issubclass(key, OfThisProcess) for key in keys)


@cache
def default_engine() -> Engine:
    """Return the engine of trains that run without an app."""
    return Engine()


In = TypeVar("In")
Out = TypeVar("Out")
OnlyOut = TypeVar("OnlyOut")


class Train(Generic[In, Out]):
    """A train: a typed input, a typed output and a route of junctions between them.

        class CloseMonth(Train[Month, Report]):
            route = (load_invoices, sum_up, write_report)

        report = await CloseMonth.run(month)

    The route is checked when the class is defined. A class without a route is a base for others.
    """

    route: ClassVar[tuple[Callable[..., object], ...]]
    definition: ClassVar[TrainDefinition[Any, Any]]

    name: ClassVar[str | None] = None
    group: ClassVar[str | None] = None
    priority: ClassVar[int | None] = None
    timeout: ClassVar[Timeout | None] = None
    max_retries: ClassVar[int | None] = None
    retry: ClassVar[bool] = True
    retry_delay: ClassVar[timedelta | None] = None
    keep_for: ClassVar[timedelta | None] = None
    unique_until: ClassVar[Literal["start", "success"] | None] = None
    process: ClassVar[bool] = False
    give_up_on: ClassVar[tuple[type[Exception], ...]] = ()

    def __init__(self, never: Never) -> None:  # noqa: ARG002 - for checkers only
        """Refuse: a train is its class. The parameter keeps checkers from taking the class for a function."""
        raise TrainDefinitionError(
            train=type(self).__name__, problem="is not instantiated; call .run(...) on the class"
        )

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        if getattr(cls, "route", None) is None:
            return
        # A subclass does not inherit the name: two trains would have the same one.
        own_name = cls.__dict__.get("name")
        name = cls.__name__ if own_name is None else own_name
        options = TrainOptions(**{option: getattr(cls, option) for option in OPTION_NAMES})
        takes, gives = _declared_types(cls)
        cls.definition = define_route(cls, _steps(cls), takes=takes, gives=gives, name=name, options=options)

    @overload
    @classmethod
    async def run(cls: type[Train[None, OnlyOut]], *, provide: ProvidedValues = ...) -> OnlyOut: ...

    @overload
    @classmethod
    async def run(cls, input: In, *, provide: ProvidedValues = ...) -> Out: ...

    @classmethod
    async def run(cls, input: Any = None, *, provide: ProvidedValues = NOTHING_PROVIDED) -> Any:
        """Run the train here, without a database; return its output or raise the junction's exception."""
        outcome = await _outcome(cls.definition, input, provide)
        match outcome:
            case Completed():
                return outcome.value
            case Failed():
                raise outcome.exception
            case Cancelled():
                raise CancelRun(outcome.reason, by=outcome.by)
            case _:
                assert_never(outcome)

    @overload
    @classmethod
    async def outcome(
        cls: type[Train[None, OnlyOut]], *, provide: ProvidedValues = ...
    ) -> Outcome[OnlyOut]: ...

    @overload
    @classmethod
    async def outcome(cls, input: In, *, provide: ProvidedValues = ...) -> Outcome[Out]: ...

    @classmethod
    async def outcome(cls, input: Any = None, *, provide: ProvidedValues = NOTHING_PROVIDED) -> Outcome[Any]:
        """Run the train here, without a database; return how it ended, as a value, and never raise."""
        return await _outcome(cls.definition, input, provide)


async def _outcome(
    definition: TrainDefinition[Any, Any], value: object, provide: ProvidedValues
) -> Outcome[Any]:
    run = Run(train=definition.name)
    provided = {key_of(kind): provided for kind, provided in provide.items()}
    return await default_engine().execute(definition, value, run=run, provided=provided)


def _steps(train: type) -> tuple[object, ...]:
    # Read from the class itself: through getattr a function would be bound.
    route = next(vars(base)["route"] for base in train.__mro__ if "route" in vars(base))
    if not isinstance(route, tuple | list):
        raise TrainDefinitionError(train=train.__name__, problem="its route must be a tuple of junctions")
    return tuple(route)


def _declared_types(train: type) -> tuple[object, object]:
    """Find In and Out, also through intermediate generic bases."""
    arguments = _train_arguments(train, {})
    if arguments is None or any(isinstance(argument, TypeVar) for argument in arguments):
        problem = "its input and output are not declared; write class Name(Train[Input, Output])"
        raise TrainDefinitionError(train=train.__name__, problem=problem)
    takes, gives = arguments
    return takes, gives


def _train_arguments(kind: type, known: dict[object, object]) -> tuple[object, ...] | None:
    for base in getattr(kind, "__orig_bases__", kind.__bases__):
        origin = get_origin(base) or base
        arguments = tuple(known.get(argument, argument) for argument in get_args(base))
        if origin is Train:
            return arguments or None
        if isinstance(origin, type) and issubclass(origin, Train):
            parameters = getattr(origin, "__parameters__", ())
            found = _train_arguments(origin, dict(zip(parameters, arguments, strict=False)))
            if found is not None:
                return found
    return None


# For calls without a result: schedule, then, schedule_many.
FunctionOf: TypeAlias = Callable[Concatenate[In, ...], object]
RunFirstTrainOf: TypeAlias = Callable[Concatenate[Run, In, ...], object]
TrainWithInput: TypeAlias = type[Train[Any, Any]] | Callable[Concatenate[Any, ...], object]
TrainWithoutInput: TypeAlias = (
    type[Train[None, Any]]
    | Callable[[], object]
    | Callable[[Run], object]
    | Callable[Concatenate[None, ...], object]
)

# For calls with a result: enqueue, run. Overloads name the async form first, or it would never match.
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

AnyFunction = TypeVar("AnyFunction", bound=Callable[..., object])  # a decorated function keeps its type
AnyTrainClass = TypeVar("AnyTrainClass", bound=type[Train[Any, Any]])
