"""A network between a program and PostgreSQL that can fail: it goes silent, is cut, or loses an answer.

A test runs a program on `proxy.url(url)` of a `running_proxy(server.folder)`, calls `lose_commit_answers` and
waits until `proxy.lost` says that it happened.
"""

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
LENGTH_BYTES = 4
COMMITS = frozenset({b"commit", b"end"})
ROLLBACKS = frozenset({b"rollback", b"abort"})


@dataclass(slots=True)
class Proxy:
    """Passes bytes between its own socket and the server's; its methods may be called from any thread."""

    folder: Path
    server: Path
    accepted: int = 0  #: connections so far
    lost: int = 0  #: answers to a COMMIT that were lost so far
    _to_lose: int = 0
    _within: bytes = b""
    _pairs: list[_Pair] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)

    def url(self, url: str) -> str:
        """The same database, by way of this proxy."""
        return urlsplit(url)._replace(query=f"host={quote(str(self.folder))}").geturl()

    def go_silent(self) -> int:
        """Let nothing more through on the connections of now, and say how many these are; new ones work."""
        pairs = list(self._pairs)
        for pair in pairs:
            pair.is_silent = True
        return len(pairs)

    def cut(self) -> int:
        """Close the connections of now, and say how many these are; new ones work."""
        pairs = list(self._pairs)
        for pair in pairs:
            pair.is_cut = True
        return len(pairs)

    def lose_commit_answers(self, count: int = 1, *, within: str = "") -> None:
        """Let the next COMMITs reach the server, and cut their connection once it has answered.

        `within` chooses transactions of which a statement contains this text, prepared statements included.
        """
        self._within = within.encode()
        self._to_lose = count

    def serve(self) -> None:
        """Accept and pass on until stopped."""
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(self.folder / SOCKET_NAME))
            listener.listen()
            while not self._stop.is_set():
                self._turn(listener)
        for pair in self._pairs:
            pair.close()

    def stop(self) -> None:
        """End soon."""
        self._stop.set()

    def _turn(self, listener: socket.socket) -> None:
        for pair in [pair for pair in self._pairs if pair.is_cut]:
            self._close(pair)
        ends = {end: pair for pair in self._pairs if not pair.is_silent for end in (pair.client, pair.server)}
        readable, _, _ = select.select([listener, *ends], [], [], LOOK_EVERY_SECONDS)
        for end in readable:
            if end is listener:
                self._accept(listener)
            elif end.fileno() >= 0 and not ends[end].is_silent:  # it may have been closed in this very turn
                self._pass_on(ends[end], end)

    def _accept(self, listener: socket.socket) -> None:
        client, _ = listener.accept()
        server = socket.socket(socket.AF_UNIX)
        try:
            server.connect(str(self.server / SOCKET_NAME))
        except OSError:  # the server is away: so is this end
            client.close()
            server.close()
            return
        self._pairs.append(_Pair(client, server))
        self.accepted += 1

    def _pass_on(self, pair: _Pair, end: socket.socket) -> None:
        data = b""
        with suppress(OSError):
            data = end.recv(CHUNK)
            if end is pair.server and pair.loses_answer:
                self.lost += 1
                data = b""
            elif end is pair.server:
                pair.client.sendall(data)
            else:
                self._watch(pair, data)
                pair.server.sendall(data)
        if not data:
            self._close(pair)

    def _watch(self, pair: _Pair, data: bytes) -> None:
        """Choose the COMMIT whose answer is lost, before it is passed on."""
        for statements in pair.traffic.committed(data):
            if self._to_lose and any(self._within in statement for statement in statements):
                self._to_lose -= 1
                pair.loses_answer = True

    def _close(self, pair: _Pair) -> None:
        pair.close()
        self._pairs.remove(pair)


@dataclass(slots=True)
class _Traffic:
    """What a client says, message by message: the statements of its open transaction."""

    _pending: bytes = b""
    _has_begun: bool = False
    _prepared: dict[bytes, bytes] = field(default_factory=dict)
    _statements: list[bytes] = field(default_factory=list)

    def committed(self, data: bytes) -> Iterator[list[bytes]]:
        """Give the statements of each transaction that these bytes commit."""
        self._pending += data
        for text in self._texts():
            self._statements.append(text)
            word = text.strip().lower().rstrip(b";")
            if word in COMMITS:
                yield self._statements
            if word in COMMITS | ROLLBACKS:
                self._statements = []

    def _texts(self) -> Iterator[bytes]:
        for kind, body in self._messages():
            if kind == b"Q":
                yield body.rstrip(b"\0")
            elif kind == b"P":
                name, text = body.split(b"\0")[:2]
                self._prepared[name] = text
            elif kind == b"B":  # a portal's name, then a statement's
                yield self._prepared.get(body.split(b"\0")[1], b"")

    def _messages(self) -> Iterator[tuple[bytes, bytes]]:
        while True:
            start = 1 if self._has_begun else 0  # the first message has no letter
            head = self._pending[start : start + LENGTH_BYTES]
            end = start + int.from_bytes(head)
            if len(head) < LENGTH_BYTES or len(self._pending) < end:
                return
            message, self._pending = self._pending[:end], self._pending[end:]
            self._has_begun = True
            yield message[:start], message[start + LENGTH_BYTES :]


@dataclass(slots=True, eq=False)
class _Pair:
    """A client's connection and the one to the server that belongs to it."""

    client: socket.socket
    server: socket.socket
    is_silent: bool = False
    is_cut: bool = False
    loses_answer: bool = False
    traffic: _Traffic = field(default_factory=_Traffic)

    def close(self) -> None:
        self.client.close()
        self.server.close()


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
