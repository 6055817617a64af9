"""Requests that take turns: an application that the test holds and lets go."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from starlette.exceptions import HTTPException

from gandy.web.turns import RequestLimiter, TurnLimits

if TYPE_CHECKING:
    from starlette.types import Message, Receive, Scope, Send

LIMITS = TurnLimits(at_once=2, waiting=3, wait=30, work=30, held=100)


class Application:
    """Answers once it is let go; says how many requests it works on."""

    def __init__(self, limits: TurnLimits = LIMITS) -> None:
        self.let_go = asyncio.Event()
        self.working = self.most = 0
        self.bodies: list[bytes] = []
        self.turns = RequestLimiter(self._answer, lambda: limits)

    async def _answer(self, _scope: Scope, receive: Receive, send: Send) -> None:
        message = await receive()
        self.bodies.append(message["body"])
        self.working += 1
        self.most = max(self.most, self.working)
        await self.let_go.wait()
        self.working -= 1
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"done"})

    async def request(
        self, path: str = "/runs", *, body: bytes = b"", reads: asyncio.Event | None = None
    ) -> tuple[int, dict[str, str]]:
        """What is answered; a client that reads only when the event is set holds the answer up."""
        answers: list[Message] = []

        async def receive() -> Message:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Message) -> None:
            if message["type"] == "http.response.body" and reads is not None:
                await reads.wait()
            answers.append(message)

        scope: dict[str, Any] = {"type": "http", "path": path, "method": "GET", "headers": []}
        await self.turns(scope, receive, send)
        headers = {name.decode(): value.decode() for name, value in answers[0]["headers"]}
        return answers[0]["status"], headers


async def until(condition: Any) -> None:  # noqa: ANN401 a question without arguments
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110  # of code that knows no event
            await asyncio.sleep(0)


async def test_no_more_than_the_turns_are_worked_on_and_all_are_answered() -> None:
    app = Application()
    async with asyncio.TaskGroup() as group:
        requests = [group.create_task(app.request()) for _ in range(5)]
        await until(lambda: app.working == LIMITS.at_once)
        app.let_go.set()

    assert [request.result()[0] for request in requests] == [200] * 5
    assert app.most == LIMITS.at_once


async def test_what_is_beyond_the_queue_is_told_to_come_again() -> None:
    app = Application()
    async with asyncio.TaskGroup() as group:
        requests = [group.create_task(app.request()) for _ in range(5)]
        await until(lambda: app.working == LIMITS.at_once)
        await asyncio.sleep(0)

        status, headers = await app.request("/api/v1/runs")
        app.let_go.set()

    assert (status, "retry-after" in headers) == (503, True)
    assert headers["content-type"] == "application/problem+json"
    assert {request.result()[0] for request in requests} == {200}


@pytest.mark.parametrize("path", ["/healthz", "/static/app.css"])
async def test_what_asks_no_database_needs_no_turn(path: str) -> None:
    app = Application()
    async with asyncio.TaskGroup() as group:
        for _ in range(5):
            group.create_task(app.request())
        await until(lambda: app.working == LIMITS.at_once)
        probe = group.create_task(app.request(path))
        await until(lambda: app.working == LIMITS.at_once + 1)
        app.let_go.set()

    assert probe.result()[0] == 200


async def test_a_turn_that_does_not_come_in_time_is_refused() -> None:
    app = Application(TurnLimits(at_once=1, wait=0))
    async with asyncio.TaskGroup() as group:
        group.create_task(app.request())
        await until(lambda: app.working == 1)
        status, _ = await app.request()
        app.let_go.set()

    assert status == 503


async def test_work_that_takes_too_long_ends_and_frees_its_turn() -> None:
    app = Application(TurnLimits(at_once=1, work=0))

    answers = [await app.request() for _ in range(3)]

    assert [status for status, _ in answers] == [503] * 3


async def test_a_slow_reader_holds_no_turn() -> None:
    app = Application(TurnLimits(at_once=1))
    reads = asyncio.Event()
    app.let_go.set()
    async with asyncio.TaskGroup() as group:
        group.create_task(app.request(reads=reads))
        await until(lambda: len(app.bodies) == 1 and app.working == 0)
        status, _ = await app.request()
        reads.set()

    assert status == 200


async def test_bodies_that_wait_are_bounded_together() -> None:
    app = Application()
    async with asyncio.TaskGroup() as group:
        requests = [group.create_task(app.request(body=b"x" * 40)) for _ in range(4)]
        await until(lambda: app.working == LIMITS.at_once)
        app.let_go.set()

    assert sorted(request.result()[0] for request in requests) == [200, 200, 503, 503]
    assert app.bodies == [b"x" * 40] * 2
    assert (await app.request(body=b"y" * 90))[0] == 200  # all were given back


async def test_a_body_that_is_refused_is_refused_by_the_application() -> None:
    async def receive() -> Message:
        raise HTTPException(413, "too large")

    async def application(_scope: Scope, receive: Receive, _send: Send) -> None:
        await receive()

    turns = RequestLimiter(application, lambda: LIMITS)

    async def send(_message: Message) -> None:
        raise AssertionError

    with pytest.raises(HTTPException) as refused:
        await turns({"type": "http", "path": "/runs"}, receive, send)
    assert refused.value.status_code == 413
