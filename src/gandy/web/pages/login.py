"""Coming in and going out."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

from fastapi import Form, Query, Request
from starlette.responses import RedirectResponse, Response

from gandy.errors import TokenWrongError
from gandy.web.access.gate import Gate
from gandy.web.access.origin import refuse_foreign
from gandy.web.access.routes import Routes
from gandy.web.access.sessions import LONGEST_NAME
from gandy.web.rendering import Rendering

router = Routes()

_LONGEST_TOKEN = 1_000
Next = Annotated[str, Query(max_length=500)]


@router.open_to_all("/login")
async def show_login(request: Request, next: Next = "/") -> Response:  # noqa: A002 the address says it so
    """Ask for the token."""
    return _rendering(request).page(request, "login.html", {"next": _inside(next), "error": None})


@router.open_to_all("/login", method="POST")
async def log_in(
    request: Request,
    token: Annotated[str, Form(max_length=_LONGEST_TOKEN)] = "",
    name: Annotated[str, Form(max_length=LONGEST_NAME)] = "",
    next: Annotated[str, Form(max_length=500)] = "/",  # noqa: A002 the form says it so
) -> Response:
    """Open a session for whoever knows the token."""
    refuse_foreign(request)
    gate: Gate = request.app.state.gate
    rendering = _rendering(request)
    role = gate.tokens.role_of(token)
    if role is None:
        context = {"next": _inside(next), "error": str(TokenWrongError())}
        return rendering.page(request, "login.html", context, status=HTTPStatus.UNAUTHORIZED)
    response = RedirectResponse(rendering.link(request, _inside(next)), HTTPStatus.SEE_OTHER)
    rendering.set_session(request, response, gate.sessions.issue(role, name.strip() or role.value))
    return response


@router.open_to_all("/logout", method="POST")
async def log_out(request: Request) -> Response:
    """End the session."""
    refuse_foreign(request)
    rendering = _rendering(request)
    response = RedirectResponse(rendering.link(request, "/login"), HTTPStatus.SEE_OTHER)
    rendering.end_session(request, response)
    return response


def _rendering(request: Request) -> Rendering:
    rendering: Rendering = request.app.state.rendering
    return rendering


def _inside(path: str) -> str:
    """Lead nowhere but to a page of ours."""
    return path if path.startswith("/") and not path.startswith(("//", "/\\")) else "/"
