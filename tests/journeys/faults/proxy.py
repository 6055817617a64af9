"""A network between a program and PostgreSQL that can go silent: connections stay open, nothing arrives."""

from __future__ import annotations

import select
import socket
import tempfile
import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterator

SOCKET_NAME = ".s.PGSQL.5432"
CHUNK = 65_536
LOOK_EVERY_SECONDS = 0.05


@dataclass(slots=True)
class Proxy:
    """Passes bytes between its own socket and the server's."""

    folder: Path
    server: Path
    accepted: int = 0
    _silent: set[int] = field(default_factory=set)
    _pairs: list[tuple[socket.socket, socket.socket]] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)

    def url(self, url: str) -> str:
        """The same database, by way of this proxy."""
        return urlsplit(url)._replace(query=f"host={quote(str(self.folder))}").geturl()

    def go_silent(self) -> int:
        """Let nothing more through on the connections of now, and say how many these are; new ones work."""
        self._silent = set(range(len(self._pairs)))
        return len(self._silent)

    def serve(self) -> None:
        """Accept and pass on until stopped."""
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(self.folder / SOCKET_NAME))
            listener.listen()
            while not self._stop.is_set():
                self._turn(listener)
        for pair in self._pairs:
            for end in pair:
                end.close()

    def stop(self) -> None:
        """End soon."""
        self._stop.set()

    def _turn(self, listener: socket.socket) -> None:
        others = {
            here: there
            for number, pair in enumerate(self._pairs)
            if number not in self._silent
            for here, there in (pair, pair[::-1])
            if here.fileno() >= 0
        }
        readable, _, _ = select.select([listener, *others], [], [], LOOK_EVERY_SECONDS)
        for end in readable:
            if end is listener:
                self._accept(listener)
            else:
                _pass_on(end, others[end])

    def _accept(self, listener: socket.socket) -> None:
        client, _ = listener.accept()
        server = socket.socket(socket.AF_UNIX)
        try:
            server.connect(str(self.server / SOCKET_NAME))
        except OSError:  # the server is away: so is this end
            client.close()
            server.close()
            return
        self._pairs.append((client, server))
        self.accepted += 1


def _pass_on(here: socket.socket, there: socket.socket) -> None:
    data = b""
    with suppress(OSError):
        data = here.recv(CHUNK)
        there.sendall(data)
    if not data:
        here.close()
        there.close()


@contextmanager
def running_proxy(server: Path) -> Iterator[Proxy]:
    """Run a proxy to the server whose socket is in that folder, in a thread."""
    with tempfile.TemporaryDirectory(prefix="gandy-proxy-") as folder:
        proxy = Proxy(Path(folder), server)
        thread = threading.Thread(target=proxy.serve, daemon=True)
        thread.start()
        try:
            yield proxy
        finally:
            proxy.stop()
            thread.join()
