"""The web service: an HTTP server with limits on connections and slow clients."""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import socket
import time
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

import uvicorn
from typing_extensions import override
from uvicorn.protocols.http.h11_impl import H11Protocol

from gandy.errors import PortTakenError

if TYPE_CHECKING:
    from asyncio import BaseTransport, Transport
    from collections.abc import Iterator

    from starlette.types import ASGIApp

    from gandy.settings import WebSettings
    from gandy.store.drivers.database import ReadingRunner
    from gandy.web.access.access import WebAccess


_log = logging.getLogger("gandy.web")

_MOST_CONNECTIONS: Final = 256
_FEWEST_CONNECTIONS: Final = 16
_SHARE_OF_DESCRIPTORS: Final = 4  # the rest is for the database and for jobs
_TELL_EVERY: Final = 60.0


class ConnectionStep(StrEnum):
    """What a connection waits for."""

    HEAD = "head"  # the client has to send a request
    BODY = "body"  # the client has to send the rest of the body
    WORK = "work"  # the application has to answer
    ANSWER = "answer"  # the client has to read


def most_connections() -> int:
    """Return the connection limit, as a share of the file descriptor limit."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return _MOST_CONNECTIONS
    return max(_FEWEST_CONNECTIONS, min(_MOST_CONNECTIONS, soft // _SHARE_OF_DESCRIPTORS))


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The maximum number of connections, and the timeout of each step in seconds."""

    connections: int
    head: float = 10.0
    body: float = 30.0
    answer: float = 30.0
    look_every: float = 1.0

    def longest(self, step: ConnectionStep) -> float | None:
        """Return the timeout of a step; None for WORK, which `RequestLimiter` limits."""
        return {
            ConnectionStep.HEAD: self.head,
            ConnectionStep.BODY: self.body,
            ConnectionStep.ANSWER: self.answer,
        }.get(step)


class ClientConnection(Protocol):
    """One connection, as ConnectionLimits uses it."""

    @property
    def step(self) -> ConnectionStep:
        """What it waits for."""
        ...

    @property
    def request(self) -> object:
        """The current request, to distinguish it from the next one."""
        ...

    def abort(self) -> None:
        """Close it immediately."""
        ...


@dataclass(slots=True)
class _Waiting:
    step: ConnectionStep
    request: object
    since: float


class ConnectionLimits:
    """Limits the connections of one server, and closes slow ones."""

    def __init__(self, limits: Limits, now: Callable[[], float]) -> None:
        self._limits = limits
        self._now = now
        self._taken: dict[ClientConnection, _Waiting] = {}
        self._closed = 0
        self._told: float | None = None

    def enter(self, connection: ClientConnection) -> None:
        """Add a connection; at the limit, close the one whose client has been idle longest."""
        if len(self._taken) >= self._limits.connections:
            self._make_room()
        if len(self._taken) >= self._limits.connections:
            self._close(connection)  # no other connection is idle
            return
        self._taken[connection] = _Waiting(connection.step, connection.request, self._now())

    def leave(self, connection: ClientConnection) -> None:
        """Remove a connection that ended."""
        self._taken.pop(connection, None)

    async def watch(self) -> None:
        """Close slow connections periodically until cancelled."""
        while True:
            await asyncio.sleep(self._limits.look_every)
            self.look()

    def look(self) -> None:
        """Close every connection whose client exceeds the timeout of its step."""
        for connection in list(self._taken):
            waiting = self._waiting(connection)
            longest = self._limits.longest(waiting.step)
            if longest is not None and self._now() - waiting.since > longest:
                self._close(connection)
        self._tell()

    def _make_room(self) -> None:
        idle = [each for each in list(self._taken) if self._waiting(each).step is not ConnectionStep.WORK]
        if idle:
            self._close(min(idle, key=lambda each: self._taken[each].since))

    def _waiting(self, connection: ClientConnection) -> _Waiting:
        """Return since when it is in its step; a change since the last look counts from now."""
        waiting = self._taken[connection]
        if (waiting.step, waiting.request) != (connection.step, connection.request):
            waiting = self._taken[connection] = _Waiting(connection.step, connection.request, self._now())
        return waiting

    def _close(self, connection: ClientConnection) -> None:
        self._taken.pop(connection, None)
        self._closed += 1
        connection.abort()

    def _tell(self) -> None:
        now = self._now()
        if self._closed and (self._told is None or now - self._told >= _TELL_EVERY):
            _log.warning(
                "closed %d connections whose clients took too long, or that were more than %d at once",
                self._closed,
                self._limits.connections,
            )
            self._closed, self._told = 0, now


def protocol_in(places: ConnectionLimits) -> type[H11Protocol]:
    """Return the server's protocol class, with limited connections."""

    class Placed(H11Protocol):
        """One connection of the server."""

        @override
        def connection_made(self, transport: BaseTransport) -> None:
            super().connection_made(cast("Transport", transport))
            places.enter(self)

        @override
        def connection_lost(self, exc: Exception | None) -> None:
            places.leave(self)
            super().connection_lost(exc)

        @property
        def request(self) -> object:
            """The current request."""
            return self.cycle

        @property
        def step(self) -> ConnectionStep:
            """What it waits for."""
            cycle: Any = self.cycle
            if self.flow.write_paused:
                return ConnectionStep.ANSWER
            if cycle is None or cycle.response_complete:
                return ConnectionStep.HEAD
            return ConnectionStep.BODY if cycle.more_body else ConnectionStep.WORK

        def abort(self) -> None:
            """Close it immediately."""
            self.transport.abort()

    return Placed


class WebService:
    """Serves an ASGI application until it is stopped."""

    def __init__(
        self, app: ASGIApp, access: WebAccess, *, database: ReadingRunner | None, port: Port | None = None
    ) -> None:
        """Without a database, serve only probes and metrics."""
        self._port = port or Port(access.settings.web)
        self._access = access
        self._database = database
        self._places = ConnectionLimits(Limits(connections=most_connections()), time.monotonic)
        self._server = _Server(
            uvicorn.Config(
                app,
                http=protocol_in(self._places),
                ws="none",
                lifespan="off",  # the application is already open
                log_config=None,
                log_level="warning",
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_graceful_shutdown=2,
            )
        )

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until the event is set."""
        listening = self._port.take()
        place = self._access.place(*listening.getsockname()[:2])
        if self._database is None:
            _log.info("probes and metrics are at %s/", place.address)
            await self._serve(listening, stop)
            return
        with self._access.announced(place):
            _log.info("the dashboard is at %s", await self._access.invite(self._database, place.address))
            await self._serve(listening, stop)

    async def _serve(self, listening: socket.socket, stop: asyncio.Event) -> None:
        serving = asyncio.create_task(self._server.serve([listening]), name="gandy-web-server")
        stopping = asyncio.create_task(stop.wait())
        watching = asyncio.create_task(self._places.watch())
        try:
            await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()
            watching.cancel()
            self._server.should_exit = True
            try:
                await serving
            finally:  # a server that failed has closed nothing, and the next one needs the port
                for server in getattr(self._server, "servers", ()):
                    server.close()
                listening.close()


class _Server(uvicorn.Server):
    """Does not handle signals: the process has other services to stop."""

    @override
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class Port:
    """The port of a process, bound before any service starts: no other process can take it meanwhile."""

    def __init__(self, settings: WebSettings) -> None:
        self._settings = settings
        self._bound: socket.socket | None = None

    def bind(self) -> None:
        """Raise if the port is not available."""
        self._bound = _listen(self._settings)

    def take(self) -> socket.socket:
        """Return the bound socket; bind again for a service that is restarted."""
        bound, self._bound = self._bound, None
        return bound or _listen(self._settings)

    def close(self) -> None:
        """Release the port if no service has taken it."""
        bound, self._bound = self._bound, None
        if bound is not None:
            bound.close()


def _listen(settings: WebSettings) -> socket.socket:
    """Bind the port here, because uvicorn would exit the process on a failure."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        return socket.create_server((settings.host, settings.port), family=family)
    except OSError as error:
        raise PortTakenError(settings.host, settings.port, _why(error)) from error


def _why(error: OSError) -> str:
    """Return the system's words, without the address that `create_server` adds to them."""
    return str(error) if error.errno is None or error.errno < 0 else os.strerror(error.errno)
