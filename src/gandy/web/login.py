"""Login and logout."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

from fastapi import Form, Query, Request
from starlette.responses import RedirectResponse, Response

from gandy.errors import CodeSpentError, GandyError, TokenWrongError
from gandy.settings.kinds import LONGEST_TOKEN
from gandy.web.access.gate import Gate, refuse_foreign
from gandy.web.access.keys import LONGEST_NAME, WebSession
from gandy.web.access.routes import Routes
from gandy.web.rendering import Rendering

pages = Routes()

Next = Annotated[str, Query(max_length=500)]
Code = Annotated[str | None, Query(max_length=LONGEST_TOKEN)]


@pages.login("/login")
async def show_login(request: Request, next: Next = "/", code: Code = None) -> Response:  # noqa: A002 the name in the URL
    """Show the login form, or redeem the code of a link."""
    if code is None:
        return _ask(request, next, None)
    gate = _gate(request)
    session = await gate.keyring.redeem(code, gate.tokens) or await gate.find_session(request)
    return _refuse(request, next, CodeSpentError()) if session is None else _welcome(request, next, session)


@pages.login("/login", method="POST")
async def log_in(
    request: Request,
    token: Annotated[str, Form(max_length=LONGEST_TOKEN)] = "",
    name: Annotated[str, Form(max_length=LONGEST_NAME)] = "",
    next: Annotated[str, Form(max_length=500)] = "/",  # noqa: A002 the name in the form
) -> Response:
    """Open a session for the holder of a token."""
    refuse_foreign(request)
    gate = _gate(request)
    found = gate.tokens.find(token)
    if found is None:
        return _refuse(request, next, TokenWrongError())
    return _welcome(request, next, await gate.keyring.open_session(found, gate.name_of(found, name)))


@pages.login("/logout", method="POST")
async def log_out(request: Request) -> Response:
    """Delete the session and its cookie."""
    refuse_foreign(request)
    gate = _gate(request)
    session = await gate.find_session(request)
    if session is not None:
        await gate.keyring.end_session(session)
    rendering = _rendering(request)
    response = RedirectResponse(rendering.link(request, "/login"), HTTPStatus.SEE_OTHER)
    rendering.end_session(request, response)
    return response


def _ask(request: Request, next: str, error: GandyError | None) -> Response:  # noqa: A002 the same
    context = {"next": _inside(next), "error": None if error is None else str(error)}
    status = HTTPStatus.OK if error is None else HTTPStatus.UNAUTHORIZED
    return _rendering(request).page(request, "login.html", context, status=status)


def _refuse(request: Request, next: str, error: GandyError) -> Response:  # noqa: A002 the same
    _gate(request).note(request, error)
    return _ask(request, next, error)


def _welcome(request: Request, next: str, session: WebSession) -> Response:  # noqa: A002 the same
    rendering = _rendering(request)
    response = RedirectResponse(rendering.link(request, _inside(next)), HTTPStatus.SEE_OTHER)
    rendering.set_session(request, response, session)
    return response


def _gate(request: Request) -> Gate:
    gate: Gate = request.app.state.gate
    return gate


def _rendering(request: Request) -> Rendering:
    rendering: Rendering = request.app.state.rendering
    return rendering


def _inside(path: str) -> str:
    """Return the path if it is on this site, else the start page (no open redirect)."""
    return path if path.startswith("/") and not path.startswith(("//", "/\\")) else "/"
