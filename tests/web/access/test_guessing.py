"""Wrong tokens are slowed down, logged and counted; a right one never waits."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from gandy.web.access.gate import FORGOTTEN_AFTER, FREE, MOST_ADDRESSES, MOST_WAITING, GuessThrottle
from tests.web.access.calling import Caller
from tests.web.access.credentials import bearer, cookie
from tests.web.conftest import OPERATOR, READER
from tests.web.shop import make_shop

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

GUESS = "a-guess-at-the-token"


class Waits:
    """Stands in for the clock and for waiting."""

    def __init__(self) -> None:
        self.now = 0.0
        self.spans: list[float] = []

    async def pause(self, seconds: float) -> None:
        self.spans.append(seconds)


@pytest.fixture
def waits() -> Waits:
    """What was waited for."""
    return Waits()


@pytest.fixture
def slowing(waits: Waits) -> GuessThrottle:
    """Goes by this clock."""
    return GuessThrottle(now=lambda: waits.now, pause=waits.pause)


@pytest.fixture
async def call(sqlite_url: str, slowing: GuessThrottle) -> AsyncIterator[Caller]:
    """Calls an application with both tokens."""
    async with make_shop(sqlite_url, token=OPERATOR, readonly_token=READER) as app:
        asgi: Any = app.asgi()
        asgi.state.gate.slowing = slowing
        yield Caller(asgi)


async def guess(call: Caller, door: str) -> int:
    """Show something wrong at one of the doors."""
    if door == "form":
        return (await call.log_in(GUESS)).status
    if door == "code":
        return (await call("GET", f"/login?code={'x' * 16}.{'y' * 32}")).status
    return (await call("GET", "/api/v1/runs", bearer(GUESS))).status


@pytest.mark.parametrize("door", ["bearer", "form", "code"])
async def test_guesses_wait_longer_and_longer_and_a_right_token_never(
    call: Caller, waits: Waits, door: str
) -> None:
    assert {await guess(call, door) for _ in range(FREE + 5)} == {401}
    waited = list(waits.spans)
    right = await call("GET", "/api/v1/runs", bearer(OPERATOR))
    session = await call.log_in(READER)
    shown = await call("GET", "/api/v1/runs", cookie(session.cookie))

    assert len(waited) == 5
    assert waited == sorted(waited)
    assert waited[0] < waited[-1]
    assert (right.status, session.status, shown.status) == (200, 303, 200)
    assert waits.spans == waited, "a right one waits for nothing, from the same address too"


async def test_what_the_sender_writes_about_its_address_is_not_believed(call: Caller, waits: Waits) -> None:
    for number in range(FREE + 3):
        headers = {**bearer(GUESS), "X-Forwarded-For": f"10.0.0.{number}", "X-Real-IP": f"10.0.0.{number}"}
        await call("GET", "/api/v1/runs", headers)

    assert len(waits.spans) == 3


async def test_another_address_does_not_wait_for_the_first(call: Caller, waits: Waits) -> None:
    for _ in range(FREE + 3):
        await guess(call, "bearer")
    before = len(waits.spans)
    await guess(Caller(call.asgi, "10.0.0.9"), "bearer")

    assert len(waits.spans) == before


def test_who_stops_guessing_is_forgotten(slowing: GuessThrottle, waits: Waits) -> None:
    for _ in range(FREE + 3):
        slowing.refuse("10.0.0.1", "token")
    before = slowing.refuse("10.0.0.1", "token")
    waits.now += FORGOTTEN_AFTER + 1

    assert before > 0
    assert slowing.refuse("10.0.0.1", "token") == 0


def test_memory_is_bounded_and_the_addresses_of_one_sender_count_as_one(slowing: GuessThrottle) -> None:
    for number in range(MOST_ADDRESSES + 50):
        slowing.refuse(f"10.{number // 65536}.{number // 256 % 256}.{number % 256}", "token")
    assert len(slowing._guesses) == MOST_ADDRESSES
    spans = [slowing.refuse(f"2001:db8::{number:x}", "token") for number in range(FREE + 2)]

    assert len([span for span in spans if span > 0]) == 2


async def test_only_a_bounded_number_waits_at_once(slowing: GuessThrottle, waits: Waits) -> None:
    slowing._waiting = MOST_WAITING - 1
    await slowing.wait(1)
    slowing._waiting = MOST_WAITING
    await slowing.wait(2)

    assert waits.spans == [1]


async def test_who_waits_for_a_refusal_keeps_no_one_else_waiting(sqlite_url: str) -> None:
    held = asyncio.Event()
    slowing = GuessThrottle(pause=lambda _seconds: held.wait())
    settings = {"pool_size": 1}  # one turn in all
    app = make_shop(sqlite_url, token=OPERATOR)
    app.configure({"database": settings})
    async with app:
        asgi: Any = app.asgi()
        asgi.state.gate.slowing = slowing
        call = Caller(asgi)
        guesses = [asyncio.create_task(guess(call, "bearer")) for _ in range(FREE + 10)]
        await asyncio.wait(guesses[: FREE + 10], return_when=asyncio.FIRST_COMPLETED)
        right = await call("GET", "/api/v1/runs", bearer(OPERATOR))
        pending = [task for task in guesses if not task.done()]
        held.set()

        assert right.status == 200
        assert len(pending) == 10
        assert set(await asyncio.gather(*guesses)) == {401}


@pytest.mark.parametrize("door", ["bearer", "form"])
async def test_a_wrong_token_is_logged_without_it_and_counted(
    call: Caller, caplog: pytest.LogCaptureFixture, door: str
) -> None:
    for _ in range(20):
        await guess(call, door)
    text = (await call("GET", "/metrics", bearer(READER))).text

    assert "a wrong token came from 127.0.0.1" in caplog.text
    assert GUESS not in caplog.text
    assert len(caplog.records) <= 5, "a flood of guesses is no flood of lines"
    assert 'gandy_web_refused_total{reason="token_wrong"} 20.0' in text


async def test_every_other_refusal_is_counted_by_its_reason(call: Caller, waits: Waits) -> None:
    session = (await call.log_in(OPERATOR)).cookie
    await call("GET", "/api/v1/runs")
    await call("POST", "/api/v1/groups/default/cancel", bearer(READER))
    await call("POST", "/api/v1/groups/default/cancel", cookie(session))
    await call("POST", "/api/v1/groups/default/cancel", {**cookie(session), "Origin": "https://evil.example"})
    await guess(call, "code")
    text = (await call("GET", "/metrics", bearer(READER))).text

    for reason in ("token_missing", "read_only", "form_expired", "foreign_origin", "code_spent"):
        assert f'gandy_web_refused_total{{reason="{reason}"}} 1.0' in text
    assert waits.spans == []
