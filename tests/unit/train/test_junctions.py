from __future__ import annotations

import functools
import threading
import types
from collections.abc import AsyncIterator, Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Annotated

import pytest
from pydantic import Base64Encoder, EncodedBytes, Field

from gandy.errors import JunctionSignatureError, PayloadError
from gandy.model.run import Completed, Failed
from gandy.train.base import Engine, Train
from gandy.train.definition import define_function
from gandy.train.execution import execute
from gandy.train.run import Run, current_run
from gandy.train.threads import ThreadPool

THREADS = ThreadPool(2, "test-junction")

tenant: ContextVar[str] = ContextVar("tenant", default="nobody")


class Mailer:
    def __init__(self, address: str = "a@b") -> None:
        self.address = address


async def outcome_of(function: object, value: object) -> object:
    assert callable(function)
    return await execute(
        define_function(function).plan, value, run=Run(), threads=THREADS, provided={Mailer: Mailer()}
    )


async def test_a_callable_object_is_a_junction_named_after_its_class() -> None:
    class Multiply:
        def __init__(self, factor: int) -> None:
            self.factor = factor

        def __call__(self, number: int) -> str:
            return str(number * self.factor)

    class Tripling(Train[int, str]):
        route = (Multiply(3),)

    outcome = await Tripling.outcome(2)

    assert isinstance(outcome, Completed)
    assert outcome.value == "6"
    assert outcome.timings[0].junction == "Multiply"


@pytest.mark.parametrize("method", ["__call__", "run"])
async def test_a_class_is_made_with_provided_values_for_each_run_and_then_called(method: str) -> None:
    made: list[object] = []

    async def work(self: object, number: int, run: Run) -> str:
        return f"{number} by {getattr(self, 'mailer').address} in {run.train}"  # noqa: B009

    def init(self: object, mailer: Mailer) -> None:
        made.append(self)
        vars(self)["mailer"] = mailer

    send = type("Send", (), {"__init__": init, method: work})

    class Sending(Train[int, str]):
        route = (send,)

    provide = {Mailer: Mailer("x@y")}

    assert await Sending.run(1, provide=provide) == "1 by x@y in Sending"
    assert await Sending.run(2, provide=provide) == "2 by x@y in Sending"
    assert len(set(map(id, made))) == 2


async def test_a_dataclass_is_a_junction_whose_fields_are_provided() -> None:
    @dataclass
    class Send:
        mailer: Mailer

        def __call__(self, number: int, *, text: str = "x") -> str:
            return f"{self.mailer.address} {number} {text}"

    class Sending(Train[int, str]):
        route = (Send,)

    assert await Sending.run(1, provide={Mailer: Mailer()}) == "a@b 1 x"


def test_a_class_without_a_method_to_call_is_refused() -> None:
    class Nothing: ...

    with pytest.raises(JunctionSignatureError, match="Nothing: the class has neither __call__ nor run"):

        class Wrong(Train[int, str]):
            route = (Nothing,)


async def test_a_partial_and_a_bound_method_are_junctions() -> None:
    def add(number: int, more: int) -> float:
        return float(number + more)

    class Format:
        def show(self, number: float) -> str:
            return f"{number:.1f}"

    class Adding(Train[int, str]):
        route = (functools.partial(add, more=4), Format().show)

    assert await Adding.run(1) == "5.0"


def each(number: int) -> Iterator[int]:
    yield number


async def each_async(number: int) -> AsyncIterator[int]:
    yield number


def each_of(number: int, more: int) -> Iterator[int]:
    yield number + more


class EachCaller:
    def __call__(self, number: int) -> Iterator[int]:
        yield number

    def method(self, number: int) -> Iterator[int]:
        yield number


class EachRunner:
    def run(self, number: int) -> Iterator[int]:
        yield number


GENERATORS = [
    each,
    each_async,
    lambda number: (yield number),
    functools.partial(each_of, more=1),
    functools.partial(functools.partial(each_of, more=1)),
    functools.partial(EachCaller().method),
    EachCaller(),
    EachCaller().method,
    EachCaller,
    EachRunner,
]


@pytest.mark.parametrize("generator", GENERATORS)
def test_a_generator_is_refused_where_it_is_declared(generator: Callable[..., object]) -> None:
    with pytest.raises(JunctionSignatureError, match=r"generator function.*collect the yielded values"):
        define_function(generator)
    with pytest.raises(JunctionSignatureError, match=r"generator function.*collect the yielded values"):
        types.new_class("Each", (Train[int, object],), exec_body=lambda body: body.update(route=(generator,)))


async def test_sync_junctions_run_in_a_thread_of_ours_with_the_callers_context() -> None:
    seen: list[object] = []

    def look(number: int) -> str:
        seen.extend([threading.current_thread().name, tenant.get(), current_run().train])
        return str(number)

    class Looking(Train[int, str]):
        route = (look,)

    token = tenant.set("acme")
    try:
        await Looking.run(1)
    finally:
        tenant.reset(token)

    assert str(seen[0]).startswith("gandy-junction")
    assert seen[1:] == ["acme", "Looking"]


async def test_the_number_of_threads_is_bounded() -> None:
    engine = Engine(max_threads=1)
    names: set[str] = set()

    def look(number: int) -> None:
        names.add(threading.current_thread().name)

    definition = define_function(look)
    for number in range(3):
        await engine.execute(definition, number, run=Run())
    await engine.close()

    assert len(names) == 1


async def test_async_junctions_run_on_the_loop() -> None:
    async def look(number: int) -> str:
        return threading.current_thread().name

    outcome = await outcome_of(look, 1)

    assert isinstance(outcome, Completed)
    assert outcome.value == threading.current_thread().name


async def test_a_sync_function_that_returns_a_coroutine_is_awaited() -> None:
    async def later(number: int) -> int:
        return number + 1

    @functools.wraps(later)
    def wrapped(number: int) -> object:
        return later(number)

    junction = functools.partial(wrapped)
    del wrapped.__wrapped__
    outcome = await outcome_of(junction, 1)

    assert isinstance(outcome, Completed)
    assert outcome.value == 2


async def test_stop_iteration_in_a_thread_is_a_failure_like_any_other() -> None:
    def exhausted(number: int) -> int:
        return next(iter(()))

    outcome = await outcome_of(exhausted, 1)

    assert isinstance(outcome, Failed)
    assert isinstance(outcome.exception, RuntimeError)


class TestFunctionTrains:
    async def test_the_first_parameter_that_is_not_the_run_is_the_input(self) -> None:
        async def send(run: Run, number: int, mailer: Mailer) -> str:
            return f"{run.train}{number}{mailer.address}"

        definition = define_function(send, name="mails")

        assert definition.name == "mails"
        assert definition.plan.input_key is int
        assert [need.key for need in definition.required] == [Mailer]
        outcome = await outcome_of(send, 3)
        assert isinstance(outcome, Completed)
        assert outcome.value == "3a@b"

    async def test_the_input_is_bound_by_place_even_if_its_type_could_be_provided(self) -> None:
        async def send(to: Mailer, by: Mailer) -> str:
            return f"{to.address} {by.address}"

        outcome = await outcome_of(send, Mailer("to"))

        assert isinstance(outcome, Completed)
        assert outcome.value == "to a@b"

    @pytest.mark.parametrize("takes_run", [True, False])
    async def test_a_function_without_input_takes_none(self, takes_run: bool) -> None:
        async def with_run(run: Run) -> int:
            return run.attempt

        async def with_nothing() -> int:
            return 1

        definition = define_function(with_run if takes_run else with_nothing)

        assert not definition.takes_input
        assert definition.input.encode(None) == "null"

    async def test_a_first_parameter_of_none_leaves_room_for_provided_values(self) -> None:
        async def nightly(_: None, mailer: Mailer) -> str:
            return mailer.address

        definition = define_function(nightly)

        assert not definition.takes_input
        outcome = await outcome_of(nightly, None)
        assert isinstance(outcome, Completed)
        assert outcome.value == "a@b"

    def test_an_input_with_a_default_need_not_be_passed(self) -> None:
        async def count(limit: int = 5) -> int:
            return limit

        definition = define_function(count)

        assert not definition.takes_input
        assert definition.default_input == 5

    def test_plain_data_after_the_input_is_refused(self) -> None:
        async def count(limit: int, name: str) -> int:
            return limit

        with pytest.raises(Exception, match="junction count needs str"):
            define_function(count)

    def test_a_keyword_only_input_is_refused(self) -> None:
        async def count(*, limit: int) -> int:
            return limit

        with pytest.raises(JunctionSignatureError, match="keyword-only"):
            define_function(count)

    def test_constraints_in_the_annotation_of_the_input_are_kept_for_its_validation(self) -> None:
        async def count(limit: Annotated[int, Field(gt=0)]) -> Annotated[bytes, EncodedBytes(Base64Encoder)]:
            return bytes(limit)

        definition = define_function(count)

        assert definition.plan.input_key is int
        assert definition.output.decode(definition.output.encode(b"\xff")) == b"\xff"
        with pytest.raises(PayloadError, match="greater than 0"):
            definition.input.decode("0")
