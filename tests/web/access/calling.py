"""Requests to an ASGI application without a client between: the matrix asks for many thousands."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gandy.app.web import ASGIApplication

HERE = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back."""

    status: int
    headers: tuple[tuple[str, str], ...]
    text: str

    def header(self, name: str) -> str:
        """Give the first header of a name, or nothing."""
        return next((value for found, value in self.headers if found == name), "")

    @property
    def cookie(self) -> str:
        """The session that it hands out, or nothing."""
        found = [value for name, value in self.headers if name == "set-cookie" and "gandy_session=" in value]
        return found[0].partition("=")[2].partition(";")[0].strip('"') if found else ""

    def json(self) -> Any:  # noqa: ANN401 whatever it is
        """Read the body."""
        return json.loads(self.text)


@dataclass(frozen=True, slots=True)
class Caller:
    """Calls one application, from an address and under a host name."""

    asgi: ASGIApplication
    address: str = "127.0.0.1"
    host: str = HERE

    async def __call__(
        self, method: str, target: str, headers: Mapping[str, str] | None = None, *, body: bytes = b""
    ) -> Answer:
        """Send one request and gather its answer."""
        sent: list[Any] = []

        bodies = [body]

        async def receive() -> dict[str, object]:
            if not bodies:
                await asyncio.Event().wait()  # the other side stays for as long as it is answered
            return {"type": "http.request", "body": bodies.pop(), "more_body": False}

        async def send(message: Any) -> None:  # noqa: ANN401 the interface's own
            sent.append(message)

        await self.asgi(self._scope(method, target, headers or {}), receive, send)
        start = next(each for each in sent if each["type"] == "http.response.start")
        content = b"".join(each.get("body", b"") for each in sent if each["type"] == "http.response.body")
        found = tuple((name.decode().lower(), value.decode("latin-1")) for name, value in start["headers"])
        return Answer(start["status"], found, content.decode(errors="replace"))

    async def log_in(self, token: str, name: str = "") -> Answer:
        """Send the login form."""
        kind = {"Content-Type": "application/x-www-form-urlencoded"}
        return await self("POST", "/login", kind, body=f"token={token}&name={name}".encode())

    def _scope(self, method: str, target: str, headers: Mapping[str, str]) -> dict[str, Any]:
        place = urlsplit(target)
        given = {"host": self.host, **headers}
        return {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": place.path,
            "raw_path": place.path.encode(),
            "root_path": "",
            "query_string": place.query.encode(),
            "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in given.items()],
            "client": (self.address, 50_000),
            "server": ("127.0.0.1", 8423),
            "extensions": {},
        }
