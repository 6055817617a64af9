from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, SecretStr

from gandy.model.run import Cancelled, CancelledBy, Completed, Failed, RetryRequest
from gandy.train.base import Train
from gandy.train.definition import define_function
from gandy.train.failure import MAX_REASON_CHARS, MAX_STACK_TRACE_CHARS, CancelRun, End, Retry
from gandy.train.run import current_run


class DiskFullError(Exception): ...


@dataclass
class Text:
    value: str


def fail(number: int) -> str:
    raise DiskFullError(f"no room for {number}")


async def fail_async(number: int) -> str:
    raise DiskFullError(f"no room for {number}")


@pytest.mark.parametrize("junction", [fail, fail_async])
async def test_running_raises_the_original_exception_and_outcome_returns_it(junction: object) -> None:
    after: list[str] = []

    def remember(text: str) -> Text:
        after.append(text)
        return Text(text)

    class Failing(Train[int, Text]):
        route = (junction, remember)  # type: ignore[assignment]

    with pytest.raises(DiskFullError, match="no room for 4"):
        await Failing.run(4)
    outcome = await Failing.outcome(4)

    assert isinstance(outcome, Failed)
    assert isinstance(outcome.exception, DiskFullError)
    assert outcome.junction == junction.__name__  # type: ignore[attr-defined]
    assert outcome.exception_type.endswith("test_execution.DiskFullError")
    assert outcome.reason == "no room for 4"
    assert "raise DiskFullError" in outcome.stack_trace
    assert [timing.junction for timing in outcome.timings] == [outcome.junction]
    assert outcome.retry is None
    assert after == []


async def test_a_junction_may_end_the_train_early() -> None:
    after: list[int] = []

    def maybe(number: int) -> float | End[str]:
        return End("enough") if number > 3 else float(number)

    def finish(number: float) -> str:
        after.append(int(number))
        return str(number)

    class Maybe(Train[int, str]):
        route = (maybe, finish)

    early, late = await Maybe.outcome(4), await Maybe.outcome(1)

    assert isinstance(early, Completed)
    assert (early.value, early.ended_early, early.ended_early_by) == ("enough", True, "maybe")
    assert len(early.timings) == 1
    assert isinstance(late, Completed)
    assert (late.value, late.ended_early) == ("1.0", False)
    assert after == [1]


async def test_a_train_may_always_end_early() -> None:
    def decide(number: int) -> End[str]:
        return End(str(number))

    class Deciding(Train[int, str]):
        route = (decide,)

    assert await Deciding.run(3) == "3"


@pytest.mark.parametrize(
    ("after", "expected"),
    [(None, None), (90, timedelta(seconds=90)), (timedelta(minutes=2), timedelta(minutes=2))],
)
async def test_a_junction_may_ask_for_a_retry(
    after: timedelta | float | None, expected: timedelta | None
) -> None:
    async def ask(number: int) -> str:
        raise Retry("the bank is closed", after=after)

    class Asking(Train[int, str]):
        route = (ask,)

    outcome = await Asking.outcome(1)

    assert isinstance(outcome, Failed)
    assert outcome.retry == RetryRequest(expected)
    assert outcome.reason == "the bank is closed"


async def test_a_run_may_cancel_itself_even_past_except_exception() -> None:
    def give_up(number: int) -> str:
        try:
            stop()
        except Exception:  # noqa: BLE001 - it must pass through exactly this
            return "swallowed"
        return "not stopped"

    def stop() -> None:
        raise CancelRun("no longer wanted")

    class GivingUp(Train[int, str]):
        route = (give_up,)

    outcome = await GivingUp.outcome(1)

    assert isinstance(outcome, Cancelled)
    assert (outcome.by, outcome.reason, outcome.junction) == (CancelledBy.RUN, "no longer wanted", "give_up")
    with pytest.raises(CancelRun, match="no longer wanted"):
        await GivingUp.run(1)


async def test_timings_say_when_each_junction_began_and_how_long_it_took() -> None:
    async def first(number: int) -> float:
        return number / 2

    def second(number: float) -> str:
        return str(number)

    class Timed(Train[int, str]):
        route = (first, second)

    outcome = await Timed.outcome(1)

    one, two = outcome.timings
    assert (one.junction, two.junction) == ("first", "second")
    assert one.started_ns >= 0
    assert one.started_ns + one.duration_ns <= two.started_ns


@pytest.mark.parametrize("kind", [SystemExit, ExceptionGroup, StopAsyncIteration, OSError])
async def test_whatever_a_junction_raises_is_its_own_failure(kind: type[BaseException]) -> None:
    raised = kind("many", [ValueError("one")]) if kind is ExceptionGroup else kind("bad")

    async def explode(number: int) -> str:
        raise raised

    def explode_in_thread(number: int) -> str:
        raise raised

    for junction in (explode, explode_in_thread):

        class Exploding(Train[int, str]):
            route = (junction,)

        assert isinstance(await Exploding.outcome(1), Failed)


async def test_sys_exit_in_a_junction_does_not_end_the_process() -> None:
    def leave(number: int) -> None:
        sys.exit(3)

    class Leaving(Train[int, None]):
        route = (leave,)

    outcome = await Leaving.outcome(1)

    assert isinstance(outcome, Failed)
    assert outcome.exception_type == "SystemExit"


async def test_an_exception_whose_message_raises_is_still_a_failure() -> None:
    class UnspeakableError(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no words")

    async def explode(number: int) -> str:
        raise UnspeakableError

    class Exploding(Train[int, str]):
        route = (explode,)

    outcome = await Exploding.outcome(1)

    assert isinstance(outcome, Failed)
    assert "UnspeakableError" in outcome.reason


async def test_the_texts_of_a_failure_are_bounded() -> None:
    async def explode(number: int) -> str:
        raise ValueError("x" * 100_000)

    class Exploding(Train[int, str]):
        route = (explode,)

    outcome = await Exploding.outcome(1)

    assert isinstance(outcome, Failed)
    assert len(outcome.reason) < MAX_REASON_CHARS + 100
    assert len(outcome.stack_trace) < MAX_STACK_TRACE_CHARS + 100
    assert "characters left out" in outcome.reason


class Login(BaseModel):
    user: str
    password: SecretStr


async def test_secrets_of_the_input_are_masked_in_the_failure() -> None:
    async def log_in(login: Login) -> None:
        raise ConnectionError(f"refused {login.user} with {login.password.get_secret_value()}")

    class LoggingIn(Train[Login, None]):
        route = (log_in,)

    outcome = await LoggingIn.outcome(Login(user="ada", password=SecretStr("hunter22")))

    assert isinstance(outcome, Failed)
    assert outcome.reason == "refused ada with **********"
    assert "hunter22" not in outcome.stack_trace


async def test_concurrent_runs_do_not_see_each_other() -> None:
    turn = asyncio.Event()

    async def wait(number: int) -> float:
        if number == 9:
            turn.set()
        await turn.wait()
        return float(number)

    def check(number: float) -> str:
        return f"{current_run().train} {number}"

    class Waiting(Train[int, str]):
        route = (wait, check)

    results = await asyncio.gather(*(Waiting.run(number) for number in range(10)))

    assert results == [f"Waiting {float(number)}" for number in range(10)]


@given(st.lists(st.sampled_from(["carry", "raise", "end"]), min_size=1, max_size=8))
def test_a_route_stops_at_the_first_junction_that_raises_or_ends(kinds: list[str]) -> None:
    called: list[int] = []

    def junction(position: int, kind: str) -> object:
        async def step(number: int) -> int:
            called.append(position)
            if kind == "raise":
                raise DiskFullError
            return End(number) if kind == "end" else number + 1  # type: ignore[return-value]

        return step

    steps = tuple(junction(position, kind) for position, kind in enumerate(kinds))
    body = {"route": steps, "__orig_bases__": (Train[int, int],)}
    train: type[Train[int, int]] = type("Generated", (Train,), body)

    outcome = asyncio.run(train.outcome(0))

    stop = next((at for at, kind in enumerate(kinds) if kind != "carry"), None)
    assert called == list(range(len(kinds) if stop is None else stop + 1))
    assert len(outcome.timings) == len(called)
    match outcome:
        case Completed():
            assert outcome.value == (len(kinds) if stop is None else stop)
            assert outcome.ended_early == (stop is not None)
        case _:
            assert stop is not None
            assert kinds[stop] == "raise"


def test_a_function_stays_callable_after_it_was_defined_as_a_train() -> None:
    define_function(fail)

    with pytest.raises(DiskFullError):
        fail(1)
