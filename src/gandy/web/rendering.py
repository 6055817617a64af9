"""Pages from templates: every value escaped, every address relative to where we are mounted."""

from __future__ import annotations

import base64
import hashlib
import json
from functools import cache
from http import HTTPStatus
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.responses import HTMLResponse, RedirectResponse

from gandy.desk.home import OWN_TRAINS
from gandy.web import wording
from gandy.web.access.keyring import SESSION_FOR, cookie_of
from gandy.web.menu import MENU
from gandy.web.parts import path_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fastapi import Request
    from starlette.responses import Response

    from gandy.web.access.keyring import Session
    from gandy.web.access.visitor import Visitor

Context: TypeAlias = "Mapping[str, Any]"

_NOTICE: Final = "gandy_notice"
_NOTICE_SECONDS: Final = 30


class Rendering:
    """Turns templates into pages."""

    def __init__(self, app_name: str) -> None:
        self._environment = Environment(
            loader=PackageLoader("gandy.web"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.globals.update(menu=MENU, app_name=app_name, own_trains=OWN_TRAINS)
        self._environment.filters.update(wording.FILTERS)

    def page(
        self, request: Request, template: str, context: Context, *, status: int = HTTPStatus.OK
    ) -> Response:
        """Answer with a page; a part of it where only that is to be replaced."""
        visitor: Visitor | None = getattr(request.state, "visitor", None)
        session = None if visitor is None else visitor.session
        text = self._environment.get_template(template).render(
            **context,
            request=request,
            visitor=visitor,
            may_change=visitor is not None and visitor.may_change,
            has_login=session is not None,
            form_token="" if session is None else session.form_token,
            is_part="hx-request" in request.headers,
            path=path_of(request),
            link=lambda path: self.link(request, path),
            asset=lambda name: self.link(request, f"/static/{name}?v={_version(name)}"),
            notice=_notice(request),
        )
        response = HTMLResponse(text, status_code=status, headers={"Vary": "HX-Request, Cookie"})
        if _NOTICE in request.cookies and "hx-request" not in request.headers:
            response.delete_cookie(_NOTICE, path=_root(request))
        return response

    def done(self, request: Request, path: str, said: str, *, is_error: bool = False) -> Response:
        """Go to a page and say there what happened."""
        response = RedirectResponse(self.link(request, path), HTTPStatus.SEE_OTHER)
        text = base64.urlsafe_b64encode(json.dumps([said[:1000], is_error]).encode()).decode()
        response.set_cookie(
            _NOTICE,
            text,
            max_age=_NOTICE_SECONDS,
            path=_root(request),
            httponly=True,
            samesite="lax",
            secure=_is_secure(request),
        )
        return response

    def set_session(self, request: Request, response: Response, session: Session) -> None:
        """Hand out the cookie of a session."""
        response.set_cookie(
            cookie_of(request),
            session.text,
            max_age=int(SESSION_FOR.total_seconds()),
            path=_root(request),
            httponly=True,
            samesite="lax",
            secure=_is_secure(request),
        )

    def end_session(self, request: Request, response: Response) -> None:
        """Take the cookie back."""
        response.delete_cookie(cookie_of(request), path=_root(request), httponly=True, samesite="lax")

    @staticmethod
    def link(request: Request, path: str) -> str:
        """Name a page of ours, wherever we are mounted."""
        root: str = request.scope.get("root_path", "")
        return f"{root}{path}"


def _root(request: Request) -> str:
    return f"{request.scope.get('root_path', '')}/"


def _is_secure(request: Request) -> bool:
    """Whether the visitor came over TLS, to us or to the proxy before us."""
    return request.url.scheme == "https" or request.headers.get("x-forwarded-proto") == "https"


def _notice(request: Request) -> tuple[str, bool] | None:
    text = request.cookies.get(_NOTICE)
    if text is None or "hx-request" in request.headers:
        return None
    try:
        said, is_error = json.loads(base64.urlsafe_b64decode(text))
    except ValueError:
        return None
    return str(said), bool(is_error)


@cache
def _version(name: str) -> str:
    """Make an address new when the file is."""
    content = files("gandy.web").joinpath("static", *name.split("/")).read_bytes()
    return hashlib.sha256(content).hexdigest()[:12]
