"""Exceptions after which another attempt makes no sense."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gandy import Gandy, Retry, Train, every
from gandy.errors import TrainDefinitionError
from gandy.testing import Harness
from tests.app.press import app as press
from tests.app.press import tear_pages

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


class BadAddressError(Exception):
    pass


class MovedError(BadAddressError):
    pass


def group(*members: Exception) -> Exception:
    return ExceptionGroup("several", members)


GIVEN_UP = {
    "itself": BadAddressError("x"),
    "derived": MovedError("x"),
    "in a group": group(OSError(), BadAddressError("x")),
    "deep in groups": group(group(MovedError("x")), OSError()),
}
TRIED_AGAIN = {"another": OSError("x"), "a group of others": group(OSError(), ValueError())}


async def parked_at_first(raised: Exception) -> bool:
    app = Gandy("shop")

    @app.train(give_up_on=(BadAddressError,), max_retries=5)
    async def deliver() -> None:
        raise raised

    async with Harness(app, now=NOW) as harness:
        await app.enqueue(deliver)
        return await harness.run_until_idle() == 1


@pytest.mark.parametrize("raised", GIVEN_UP.values(), ids=GIVEN_UP)
async def test_what_a_train_gives_up_on_is_parked_at_once(raised: Exception) -> None:
    assert await parked_at_first(raised)


@pytest.mark.parametrize("raised", TRIED_AGAIN.values(), ids=TRIED_AGAIN)
async def test_everything_else_is_tried_again(raised: Exception) -> None:
    assert not await parked_at_first(raised)


async def test_a_cause_is_not_looked_at() -> None:
    error = OSError("x")
    error.__cause__ = BadAddressError("x")

    assert not await parked_at_first(error)


async def test_a_class_says_it_as_an_attribute_and_its_schedule_is_parked() -> None:
    app = Gandy("shop")
    parked: list[str | None] = []

    async def deliver() -> int:
        raise MovedError("to nowhere")

    @app.register
    class Deliver(Train[None, int]):
        route = (deliver,)
        give_up_on = (BadAddressError,)

    @app.on("dead_lettered")
    def tell(event: object) -> None:
        parked.append(getattr(event, "manifest", None))

    app.schedule("deliver", Deliver, every(hours=1))
    async with Harness(app, now=NOW) as harness:
        await harness.tick("manifest-manager")
        assert await harness.run_until_idle() == 1
        harness.clock.advance(timedelta(hours=1))
        assert (await harness.tick("manifest-manager"))["queued"] == 0

    assert parked == ["deliver"]


async def test_never_retried_is_never_parked_either() -> None:
    app = Gandy("shop")

    @app.train(give_up_on=(BadAddressError,), retry=False)
    async def deliver(name: str) -> None:
        raise BadAddressError(name)

    async with Harness(app, now=NOW) as harness:
        await app.enqueue(deliver, "x")
        assert await harness.run_until_idle() == 0


async def test_an_exception_of_another_process_is_known_where_it_was_raised() -> None:
    async with Harness(press, now=NOW) as harness:
        await press.enqueue(tear_pages, 3)
        assert await harness.run_until_idle() == 1


WRONG = (
    BadAddressError,
    [BadAddressError],
    ("BadAddressError",),
    (int,),
    (BaseException,),
    (Retry,),
    (BadAddressError(),),
    None,
)


@pytest.mark.parametrize("wrong", WRONG, ids=repr)
def test_what_is_no_exception_is_refused_when_it_is_declared(wrong: Any) -> None:  # noqa: ANN401 whatever a person writes
    app = Gandy("shop")

    async def deliver(name: str) -> None:
        raise BadAddressError(name)

    with pytest.raises(TrainDefinitionError, match="give_up_on"):
        app.train(give_up_on=wrong)(deliver)
    with pytest.raises(TrainDefinitionError, match="give_up_on"):

        class Deliver(Train[str, None]):
            route = (deliver,)
            give_up_on = wrong
