"""Listening: the dashboard as one of the services of a process."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import uvicorn
from typing_extensions import override

from gandy.errors import PortTakenError
from gandy.web.connections import Limits, Places, most_connections, protocol_in

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette.types import ASGIApp

    from gandy.settings import WebSettings
    from gandy.store.drivers.database import ReadingRunner
    from gandy.web.access.door import Door

_log = logging.getLogger("gandy.web")


class WebService:
    """Serves an ASGI application until it is told to stop."""

    def __init__(self, app: ASGIApp, door: Door, *, database: ReadingRunner | None) -> None:
        """Without a database there is no dashboard to invite to, only what machines ask for."""
        self._settings = door.settings.web
        self._door = door
        self._database = database
        self._places = Places(Limits(connections=most_connections()), time.monotonic)
        self._server = _Server(
            uvicorn.Config(
                app,
                http=protocol_in(self._places),
                ws="none",
                lifespan="off",  # the application is open already
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
        listening = _listen(self._settings)
        place = self._door.place(*listening.getsockname()[:2])
        if self._database is None:
            _log.info("probes and metrics are at %s/", place.address)
            await self._serve(listening, stop)
            return
        with self._door.announced(place):
            _log.info("the dashboard is at %s", await self._door.invite(self._database, place.address))
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
            await serving
            listening.close()


class _Server(uvicorn.Server):
    """Leaves signals to the process, which has other services to end."""

    @override
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _listen(settings: WebSettings) -> socket.socket:
    """Take the port here: the server itself would end the process where it cannot have it."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        return socket.create_server((settings.host, settings.port), family=family)
    except OSError as error:
        raise PortTakenError(settings.host, settings.port, str(error)) from error
