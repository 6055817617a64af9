"""Security headers of every response, body size limit, and static files."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.staticfiles import StaticFiles
from typing_extensions import override

if TYPE_CHECKING:
    from typing import Any

    from starlette.responses import Response
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from gandy.web.access.gate import Gate


LARGEST_BODY: Final = 2 * 1_048_576  # the largest input, escaped, plus the rest of the body
_TOO_LARGE: Final = (
    f"the request body is larger than {LARGEST_BODY} bytes; keep the data elsewhere and refer to it"
)

HEADERS: Final = {
    # No inline script or style, no other origin, no framing.
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


class Hardening:
    """Adds the headers; refuses too large bodies by their declared length and while they arrive."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        await self._app(scope, _limited(scope, receive), _with_headers(send))


def _limited(scope: Scope, receive: Receive) -> Receive:
    announced = Headers(scope=scope).get("content-length", "0")
    is_announced = announced.isdecimal() and int(announced) > LARGEST_BODY
    arrived = 0

    async def limited() -> Message:
        nonlocal arrived
        if is_announced:  # refused on the first read, so that authentication still comes first
            raise HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, _TOO_LARGE)
        message = await receive()
        arrived += len(message.get("body", b""))
        if arrived > LARGEST_BODY:
            raise HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, _TOO_LARGE)
        return message

    return limited


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers[name] = value
            headers.setdefault("Cache-Control", "no-store")
        await send(message)

    return sending


_KEPT = "public, max-age=31536000, immutable"


class Assets(StaticFiles):
    """Serves the folder `static` of this package."""

    def __init__(self) -> None:
        super().__init__(packages=[("gandy.web", "static")])

    @override
    async def get_response(self, path: str, scope: Scope) -> Response:
        request = Request(scope)
        gate: Gate = request.app.state.gate
        gate.refuse_closed(request)
        return await super().get_response(path, scope)

    @override
    def file_response(self, *arguments: Any, **options: Any) -> Response:
        response = super().file_response(*arguments, **options)
        response.headers["Cache-Control"] = _KEPT
        return response
