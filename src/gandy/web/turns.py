"""Limit on concurrent requests, which keeps database connections free for the worker of the same process.

A request takes its turn after its body has arrived and gives it back before the client reads the response, so
that a slow client occupies no turn.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cached_property
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, PlainTextResponse, Response

from gandy.errors import AppNotOpenError
from gandy.web.problems import Problem

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_BUSY: Final = "too many concurrent requests; try again in a few seconds"
_SLOW: Final = "the request took longer than {seconds:g} s"
_RETRY_AFTER: Final = "2"
_UNLIMITED: Final = ("/healthz", "/static/")  # they need no database


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnLimits:
    """Limits on concurrent and waiting requests."""

    at_once: int
    waiting: int = 128
    wait: float = 5.0  # seconds until a turn comes
    work: float = 30.0  # seconds of a turn
    held: int = 16 * 1_048_576  # bytes of the bodies of all waiting requests


class NoTurnError(Exception):
    """No turn became free in time."""


class RequestLimiter:
    """Limits concurrent requests by a semaphore; a request that waits too long gets 503 with Retry-After."""

    def __init__(self, app: ASGIApp, limits: Callable[[], TurnLimits]) -> None:
        self._app = app
        self._known = limits  # callable only once the application is open
        self._waiting = 0
        self._held = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        path = str(scope.get("path", "")).removeprefix(scope.get("root_path", ""))
        if scope["type"] != "http" or path.startswith(_UNLIMITED) or not self._is_open():
            await self._app(scope, receive, send)
            return
        try:
            async with self._body(receive) as body, self._turn() as turn:
                await self._work(scope, body, _Answer(send, turn))
        except NoTurnError:
            await _refusal(path, _BUSY)(scope, receive, send)

    def _is_open(self) -> bool:
        """Whether the application is open; before that, every response is an error that needs no database."""
        try:
            return self._free is not None
        except AppNotOpenError:
            return False

    @cached_property
    def _limits(self) -> TurnLimits:
        return self._known()

    @cached_property
    def _free(self) -> asyncio.Semaphore:
        return asyncio.Semaphore(self._limits.at_once)

    async def _work(self, scope: Scope, body: Receive, answer: _Answer) -> None:
        try:
            async with asyncio.timeout(self._limits.work):
                await self._app(scope, body, answer)
        except TimeoutError:
            if answer.has_begun:
                raise
            said = _SLOW.format(seconds=self._limits.work)
            await _refusal(str(scope["path"]), said)(scope, body, answer)

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[_Turn]:
        if self._waiting >= self._limits.waiting:
            raise NoTurnError
        self._waiting += 1
        try:
            async with asyncio.timeout(self._limits.wait):
                await self._free.acquire()
        except TimeoutError as error:
            raise NoTurnError from error
        finally:
            self._waiting -= 1
        turn = _Turn(self._free)
        try:
            yield turn
        finally:
            turn.give_back()

    @asynccontextmanager
    async def _body(self, receive: Receive) -> AsyncIterator[Receive]:
        """Buffer the request's messages up to the end of its body, and replay them."""
        body = _Body(receive)
        before = 0
        try:
            while not body.is_whole:
                await body.receive_more()
                self._held += body.size - before
                before = body.size
                if self._held > self._limits.held:
                    raise NoTurnError
            yield body
        finally:
            self._held -= before


class _Body:
    """Buffered messages of a request, replayed in order."""

    def __init__(self, receive: Receive) -> None:
        self.is_whole = False
        self.size = 0
        self._receive = receive
        self._messages: deque[Message] = deque()
        self._refusal: HTTPException | None = None

    async def receive_more(self) -> None:
        """Buffer one message; a refusal of the body is raised later to the application, which reports it."""
        try:
            message = await self._receive()
        except HTTPException as refusal:
            self.is_whole, self._refusal = True, refusal
            return
        self._messages.append(message)
        self.size += len(message.get("body", b""))
        self.is_whole = not message.get("more_body", False)

    async def __call__(self) -> Message:
        if self._messages:
            return self._messages.popleft()
        if self._refusal is not None:
            raise self._refusal
        return await self._receive()


class _Turn:
    """One turn; giving it back twice has no effect."""

    def __init__(self, free: asyncio.Semaphore) -> None:
        self._free: asyncio.Semaphore | None = free

    def give_back(self) -> None:
        """Release the semaphore for the next request."""
        if self._free is not None:
            self._free.release()
            self._free = None


class _Answer:
    """Sends the response; gives the turn back before the last part, which a slow client may delay."""

    def __init__(self, send: Send, turn: _Turn) -> None:
        self.has_begun = False
        self._send = send
        self._turn = turn

    async def __call__(self, message: Message) -> None:
        self.has_begun = True
        if message["type"] == "http.response.body" and not message.get("more_body", False):
            self._turn.give_back()
        await self._send(message)


def _refusal(path: str, said: str) -> Response:
    problem = Problem(HTTPStatus.SERVICE_UNAVAILABLE, "busy", said)
    headers = {"Retry-After": _RETRY_AFTER}
    if path.startswith("/api/"):
        return JSONResponse(problem.as_json(path), problem.status, headers, "application/problem+json")
    return PlainTextResponse(said, problem.status, headers)
