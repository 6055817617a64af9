"""The one place that says who somebody is and whether they may."""

from __future__ import annotations

import secrets
from enum import Enum
from typing import TYPE_CHECKING, Final, assert_never

from gandy.errors import (
    FormExpiredError,
    ReadOnlyTokenError,
    TokenMissingError,
    TokenWrongError,
    WebClosedError,
)
from gandy.web.access.origin import (
    FORM_FIELD,
    FORM_HEADER,
    is_from_a_browser,
    is_from_this_machine,
    is_same_token,
    refuse_foreign,
)
from gandy.web.access.sessions import COOKIE, Session, Sessions
from gandy.web.access.tokens import Role, Tokens
from gandy.web.access.visitor import Visitor

if TYPE_CHECKING:
    from starlette.requests import Request

    from gandy.settings import WebSettings

LOCAL_NAME: Final = "local"
BEARER_NAMES: Final = {Role.OPERATOR: "token", Role.READER: "read-only token"}


class Access(Enum):
    """What a route does, and so who may call it."""

    OPEN = "open"  #: nobody has to say who they are
    READS = "reads"
    CHANGES = "changes"


class Gate:
    """Lets in or refuses; every route passes here before anything of the request is read."""

    def __init__(self, settings: WebSettings) -> None:
        self.tokens = Tokens.of(settings)
        self.sessions = Sessions(self.tokens.key if self.tokens.are_set else secrets.token_bytes(32))

    async def admit(self, request: Request, access: Access) -> Visitor | None:
        """Give the visitor, or raise what is wrong; None only where nobody has to be known."""
        match access:
            case Access.OPEN:
                return None
            case Access.READS:
                return self.identify(request)
            case Access.CHANGES:
                visitor = self.identify(request)
                if not visitor.may_change:
                    raise ReadOnlyTokenError
                await self._refuse_forged(request, visitor)
                return visitor
            case _:
                assert_never(access)

    def identify(self, request: Request) -> Visitor:
        """Find out who asks."""
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return self._by_token(token.strip())
        session = self.sessions.read(request.cookies.get(COOKIE))
        if self.tokens.are_set:
            return self._by_session(session)
        if not is_from_this_machine(request):
            raise WebClosedError
        return Visitor(role=Role.OPERATOR, name=LOCAL_NAME, known_by="machine", session=session)

    def form_token(self, session: Session) -> str:
        """Make the token that the forms of a session carry."""
        return self.sessions.form_token(session)

    async def check_form(self, request: Request, session: Session | None) -> None:
        """Refuse a form that is not of a page that this session was shown."""
        refuse_foreign(request)
        shown = request.headers.get(FORM_HEADER)
        if shown is None and _is_form(request):
            shown = str((await request.form()).get(FORM_FIELD))
        if session is None or not is_same_token(shown, self.form_token(session)):
            raise FormExpiredError

    def _by_token(self, token: str) -> Visitor:
        role = self.tokens.role_of(token)
        if role is None:
            raise TokenWrongError
        return Visitor(role=role, name=BEARER_NAMES[role], known_by="bearer")

    @staticmethod
    def _by_session(session: Session | None) -> Visitor:
        if session is None:
            raise TokenMissingError
        return Visitor(role=session.role, name=session.name, known_by="session", session=session)

    async def _refuse_forged(self, request: Request, visitor: Visitor) -> None:
        """Whoever shows a token, or is no browser, was not talked into this by another site."""
        if visitor.known_by == "bearer" or not is_from_a_browser(request):
            return
        await self.check_form(request, visitor.session)


def _is_form(request: Request) -> bool:
    kind = request.headers.get("content-type", "")
    return kind.startswith(("application/x-www-form-urlencoded", "multipart/form-data"))
