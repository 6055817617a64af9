"""`Train`: the base class of a train of several junctions."""

from __future__ import annotations

from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Generic,
    Literal,
    Never,
    TypeVar,
    assert_never,
    get_args,
    get_origin,
    overload,
)

from gandy.errors import TrainDefinitionError
from gandy.model.run import Cancelled, Completed, Failed, Outcome
from gandy.train.definition import OPTION_NAMES, TrainDefinition, TrainOptions, define_route
from gandy.train.engine import default_engine
from gandy.train.execution import NOTHING_PROVIDED, ProvidedValues
from gandy.train.inside.run import Run
from gandy.train.route.cargo import key_of
from gandy.train.signals import CancelRun

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

    from gandy.settings.bounds import Timeout

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
        # A name belongs to one class: a subclass has its own.
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
        """Run the train here, without a database; return its output or raise what a junction raised."""
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
    """Find In and Out through generic bases in between."""
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
